// Legality of schedule trees: one walk from the root, which carries the dependences that are not yet ordered.
#include "scheduler/legality/legality.h"

#include "ir/error.h"
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

// A pair of the relation as `macc[f=0,y=1]` and `tail[f=0,y=1]`.
std::pair<std::string, std::string> sample_pair(const Kernel& kernel, const isl::union_map& bad) {
  // Not isl_union_set_sample_point, which leaks the empty parts that it passes (isl 0.25).
  isl::point point;
  bad.wrap().foreach_set([&](isl::set part) {
    if (point.is_null() && !part.is_empty()) point = owned(isl_set_sample_point(part.release()));
  });
  isl::map pair = isl::set(point).unwrap();
  unsigned position = 0;
  auto instance = [&](isl_dim_type type) {
    std::string name = isl_map_get_tuple_name(pair.get(), type);
    const Statement* statement = nullptr;
    for (const Statement& candidate : kernel.statements) {
      if (isl_name(candidate.name) == name) statement = &candidate;
    }
    TC_CHECK(statement != nullptr, "for ", name);
    std::string result = statement->name + "[";
    for (size_t i = 0; i < statement->iterators.size(); ++i) {
      isl::val value =
          owned(isl_point_get_coordinate_val(point.get(), isl_dim_set, static_cast<int>(position++)));
      result += text(i ? "," : "", statement->iterators[i].name, "=", isl_val_get_num_si(value.get()));
    }
    return result + "]";
  };
  std::string first = instance(isl_dim_in);
  return {first, instance(isl_dim_out)};
}

class Checker {
 public:
  explicit Checker(const KernelPtr& kernel) : kernel_(kernel->kernel), model_(model_of(kernel)) {}

  std::optional<std::string> order(const TreeNode& node, isl::union_map open) {
    if (open.is_empty()) return std::nullopt;
    switch (node.kind) {
      case TreeNode::Kind::Tile: return order(node.children[0], open);
      case TreeNode::Kind::Leaf: return backwards(open, "statement instances coincide in time");
      case TreeNode::Kind::Loop: {
        isl::multi_union_pw_aff value = loop_function(model_, kernel_, node);
        isl::union_map bad = owned(isl_union_map_lex_gt_at_multi_union_pw_aff(open.copy(), value.copy()));
        if (!bad.is_empty())
          return backwards(bad, text("loop ", node.name, " runs them the other way round"));
        return order(node.children[0], open.eq_at(value));
      }
      case TreeNode::Kind::Sequence: break;
    }
    std::vector<isl::union_set> filters;
    for (const TreeNode& child : node.children) {
      filters.push_back(universe_of(model_, statements_below(child)));
    }
    for (size_t i = 0; i < node.children.size(); ++i) {
      isl::union_map from = open.intersect_domain(filters[i]);
      if (from.is_empty()) continue;
      for (size_t j = 0; j < i; ++j) {
        isl::union_map bad = from.intersect_range(filters[j]);
        if (!bad.is_empty()) return backwards(bad, "the statements' order runs them the other way round");
      }
      if (auto found = order(node.children[i], from.intersect_range(filters[i]))) return found;
    }
    return std::nullopt;
  }

  // Why the first wrong mark is wrong: its loop has iterations that depend on each other more than it allows.
  std::optional<std::string> wrong_mark(const TreeNode& tree) {
    std::optional<std::string> found;
    visit_tree(tree, [&](const TreeNode& node, const std::vector<const TreeNode*>& above) {
      for (const LoopMark& mark : node.marks) {
        if (!found) found = wrong_mark(node, above, row_of(mark));
      }
    });
    return found;
  }

 private:
  std::string backwards(const isl::union_map& bad, const std::string& why) {
    auto [first, second] = sample_pair(kernel_, bad);
    return text(first, " must run before ", second, ", but ", why);
  }

  std::optional<std::string> wrong_mark(const TreeNode& loop, const std::vector<const TreeNode*>& above,
                                        const MarkRow& mark) {
    if (mark.needs == MarkRow::Needs::Nothing) return std::nullopt;
    isl::union_map open = model_.dependences;
    if (mark.needs == MarkRow::Needs::Independence) open = open.unite(model_.reductions);
    const isl::union_set instances = universe_of(model_, statements_below(loop));
    open = open.intersect_domain(instances).intersect_range(instances);
    for (const TreeNode* outer : above) {
      if (open.is_empty()) return std::nullopt;
      open = open.eq_at(loop_function(model_, kernel_, *outer));
    }
    if (open.is_empty()) return std::nullopt;
    const isl::union_map equal = open.eq_at(loop_function(model_, kernel_, loop));
    if (open.is_subset(equal)) return std::nullopt;
    return carried(loop, open.subtract(equal), mark.word);
  }

  std::string carried(const TreeNode& loop, const isl::union_map& bad, const std::string& mark) {
    auto [first, second] = sample_pair(kernel_, originally_ordered(kernel_, bad));
    return text("loop ", loop.name, " cannot be ", mark, ": its iterations depend on each other, ", first,
                " must run before ", second);
  }

  const Kernel& kernel_;
  const KernelModel& model_;
};

// Asks a question within the operation budget; one that isl cannot answer within it counts as refused.
template <class Question>
std::optional<std::string> ask(const Question& question) {
  IslBudget budget(kIslOperations);
  try {
    return question();
  } catch (const isl::exception_quota&) {
    return "the schedule is too complex to be checked";
  }
}

}  // namespace

std::optional<std::string> find_violation(const KernelPtr& kernel, const TreeNode& tree) {
  return ask([&] { return Checker(kernel).order(tree, model_of(kernel).dependences); });
}

std::optional<std::string> find_wrong_mark(const KernelPtr& kernel, const TreeNode& tree) {
  return ask([&] { return Checker(kernel).wrong_mark(tree); });
}

std::optional<std::string> find_violation_below(const KernelPtr& kernel, const TreeNode& tree,
                                                const TreeNode& changed) {
  const bool independent = ask([&]() -> std::optional<std::string> {
                             const KernelModel& model = model_of(kernel);
                             isl::union_set instances = universe_of(model, statements_below(changed));
                             isl::union_map inside =
                                 model.dependences.intersect_domain(instances).intersect_range(instances);
                             if (inside.is_empty()) return std::nullopt;
                             return "depends";
                           }) == std::nullopt;
  return independent ? std::nullopt : find_violation(kernel, tree);
}

}  // namespace tc
