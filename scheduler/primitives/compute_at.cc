// compute_at: statements move under the loops of a neighbour, without recomputation.
#include <algorithm>

#include "scheduler/core/primitive.h"

namespace tc {
namespace {

// For each iterator of `target`, the part of an iterator of `mover` that is at the same place in the
// subscripts of a buffer that both access. Subscripts correspond term by term: `8*g + 2*fo + fn` and `8*g +
// f` say that g is g, fo is f/2 and fn is f%2.
std::map<std::string, LoopPart> matching_parts(const Statement& target, const Statement& mover) {
  std::map<std::string, LoopPart> result;
  std::set<std::string> used;
  auto accesses = [](const Statement& statement) {
    std::vector<Access> all{statement.write};
    for_each_load(statement.value, [&](const Expr& load) { all.push_back(load.access); });
    return all;
  };
  auto match = [&](const Affine& from, const Affine& to) {
    auto a = from.terms(), b = to.terms();
    auto larger = [](const auto& x, const auto& y) { return x.second > y.second; };
    std::sort(a.begin(), a.end(), larger);
    std::sort(b.begin(), b.end(), larger);
    if (from.constant() != to.constant() || a.empty() || b.empty() || b.back().second <= 0) return;
    std::map<std::string, LoopPart> parts;
    for (size_t i = 0, j = 0; i < a.size(); ++i) {
      // The term of `to` that this one is a part of: the largest that is not larger.
      size_t own = j;
      while (own < b.size() && b[own].second > a[i].second) ++own;
      if (own == b.size() || a[i].second % b[own].second != 0 || result.count(a[i].first)) return;
      const bool first = own != j || i == 0;  // of the terms that make up this one
      if (first && own != (i == 0 ? 0 : j + 1)) return;
      if (!first && (a[i - 1].second == a[i].second || a[i - 1].second % a[i].second != 0)) return;
      // It must not reach into the next larger term.
      if (first && own > 0) {
        const Affine& extent = iterator_extent(target, a[i].first);
        if (!extent.is_constant() || a[i].second * extent.constant() > b[own - 1].second) return;
      }
      LoopPart part{b[own].first, {}};
      if (!first) part.steps.push_back({true, a[i - 1].second / b[own].second});
      if (a[i].second != b[own].second) part.steps.push_back({false, a[i].second / b[own].second});
      parts[a[i].first] = part;
      j = own;
    }
    if (a.back().second != b.back().second || parts.at(a.back().first).iterator != b.back().first) return;
    for (const auto& [name, part] : parts) {
      if (used.count(part.iterator)) return;
    }
    for (const auto& [name, part] : parts) used.insert(part.iterator);
    result.insert(parts.begin(), parts.end());
  };
  // The first subscripts that match decide: those of what the target writes, then those of what the mover
  // writes.
  for (const Access& a : accesses(target)) {
    for (const Access& b : accesses(mover)) {
      if (a.buffer != b.buffer) continue;
      for (size_t d = 0; d < a.index.size(); ++d) {
        if (!a.index[d].dynamic && !b.index[d].dynamic) match(a.index[d].affine, b.index[d].affine);
      }
    }
  }
  return result;
}

// Steps as one: the value modulo `modulus` (0: all of it), divided by `divisor`. Nothing where they
// do not reduce to that.
struct Span {
  int64_t modulus = 0, divisor = 1;
};
std::optional<Span> span_of(const std::vector<LoopPart::Step>& first,
                            const std::vector<LoopPart::Step>& second = {}) {
  Span span;
  auto add = [&](const LoopPart::Step& step) {
    if (!step.modulo) {
      span.divisor *= step.size;
      return true;
    }
    const int64_t modulus = span.divisor * step.size;
    if (span.modulus != 0 && span.modulus % modulus != 0) return span.modulus <= modulus;
    span.modulus = modulus;
    return true;
  };
  for (const LoopPart::Step& step : first) {
    if (!add(step)) return std::nullopt;
  }
  for (const LoopPart::Step& step : second) {
    if (!add(step)) return std::nullopt;
  }
  return span;
}

// Removes what the outer loops `path` count, as loops of the statement `leader`, from the loops of the
// statement `mover`. Returns what is left of its loops, outermost first; `iterator_parts` gets the parts that
// the outer loops count of it.
std::vector<TreeNode> remaining_loops(const Kernel& kernel, const std::vector<const TreeNode*>& path,
                                      int leader, int mover, std::vector<TreeNode> loops,
                                      std::vector<LoopPart>& iterator_parts) {
  const Statement& target = kernel.statements[static_cast<size_t>(leader)];
  const Statement& statement = kernel.statements[static_cast<size_t>(mover)];
  const auto match = matching_parts(target, statement);
  for (const TreeNode* outer : path) {
    const LoopPart& part = outer->iterator_parts.at(leader);
    auto found = match.find(part.iterator);
    if (found == match.end()) {
      refuse("statement ", statement.name, " has no iterator that corresponds to ", part.iterator, " of ",
             target.name, " (loop ", outer->name, ")");
    }
    const std::string& iterator = found->second.iterator;
    const auto wanted = span_of(found->second.steps, part.steps);
    bool taken = false;
    for (size_t i = 0; i < loops.size() && !taken; ++i) {
      LoopPart& own = loops[i].iterator_parts.at(mover);
      const auto span = span_of(own.steps);
      if (own.iterator != iterator || !span || !wanted) continue;
      LoopPart member = own;
      const int64_t ratio = wanted->divisor / span->divisor;
      if (wanted->modulus == span->modulus && wanted->divisor == span->divisor) {
        loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i));
      } else if (wanted->modulus == span->modulus && wanted->divisor % span->divisor == 0) {
        member.steps.push_back({false, ratio});
        own.steps.push_back({true, ratio});
      } else if (wanted->divisor == span->divisor && wanted->modulus != 0 &&
                 wanted->modulus % wanted->divisor == 0 &&
                 (span->modulus == 0 || span->modulus % wanted->modulus == 0)) {
        const int64_t size = wanted->modulus / wanted->divisor;
        member.steps.push_back({true, size});
        own.steps.push_back({false, size});
      } else {
        continue;
      }
      iterator_parts.push_back(member);
      taken = true;
    }
    if (!taken) {
      refuse("iterator ", iterator, " of ", statement.name, " is split otherwise than loop ", outer->name);
    }
  }
  return loops;
}

// What the innermost of the loops directly inside each other holds.
const TreeNode& chain_end(const TreeNode& top) {
  const TreeNode* node = &top;
  while (node->kind == TreeNode::Kind::Loop) node = &node->children[0];
  return *node;
}

// Moves one statement, with what is left of its loops, into a loop of a neighbour.
class Move {
 public:
  Move(ScheduleState& state, size_t mover, const std::string& loop)
      : state_(state), kernel_(state.kernel->kernel), mover_(static_cast<int>(mover)), loop_(loop) {}

  void run() {
    find_own_loops();
    find_path();
    share_path();
    place();
  }

 private:
  const std::string& who() const { return kernel_.statements[static_cast<size_t>(mover_)].name; }

  // The chain of the statement's own loops, and the sequence that holds it.
  void find_own_loops() {
    TreeNode* chain = nullptr;
    visit_tree(state_.tree, [&](const TreeNode& node, const auto&) {
      if (chain == nullptr && node.kind != TreeNode::Kind::Sequence &&
          statements_below(node) == std::vector<int>{mover_}) {
        chain = const_cast<TreeNode*>(&node);
      }
    });
    if (chain == nullptr) refuse("statement ", who(), " has no loops of its own");
    sequence_ = parent_of(state_.tree, chain);
    if (sequence_ == nullptr || sequence_->kind != TreeNode::Kind::Sequence) {
      refuse("statement ", who(), " is not next to loop ", loop_);
    }
    position_ = static_cast<size_t>(chain - sequence_->children.data());
    for (TreeNode* node = chain; node->kind == TreeNode::Kind::Loop; node = &node->children[0]) {
      refuse_marked(*node);
      TreeNode copy = *node;
      copy.children.clear();
      own_.push_back(std::move(copy));
    }
    if (inside_tile(state_.tree, *chain) || chain_end(*chain).kind == TreeNode::Kind::Tile) {
      refuse("statement ", who(), " is in a register tile: move it before");
    }
  }

  // The neighbour that holds the loop, and the loops from there to it.
  void find_path() {
    neighbour_ = sequence_->children.size();
    for (size_t i = 0; i < sequence_->children.size(); ++i) {
      if (find_loop(sequence_->children[i], loop_) != nullptr) neighbour_ = i;
    }
    if (neighbour_ == sequence_->children.size() || neighbour_ == position_) {
      refuse("statement ", who(), " is not next to loop ", loop_);
    }
    for (TreeNode* node = &sequence_->children[neighbour_];; node = &node->children[0]) {
      if (node->kind != TreeNode::Kind::Loop) {
        refuse("loop ", loop_, " has statements around it that loop ",
               path_.empty() ? std::string("nest") : path_.back()->name, " also holds");
      }
      path_.push_back(node);
      if (node->name == loop_) break;
    }
    for (TreeNode* loop : path_) refuse_marked(*loop);
  }

  // Makes the statement a member of the path's loops. One of the statements in these loops is the leader,
  // which says what the loops count. Statements with many iterators are tried first; one that shares no
  // buffer with the moved statement cannot be the leader.
  void share_path() {
    std::vector<int> leaders;
    for (const auto& [candidate, part] : path_.back()->iterator_parts) leaders.push_back(candidate);
    auto size = [&](int s) { return kernel_.statements[static_cast<size_t>(s)].iterators.size(); };
    std::stable_sort(leaders.begin(), leaders.end(), [&](int a, int b) { return size(a) > size(b); });
    std::vector<LoopPart> iterator_parts;
    const std::vector<const TreeNode*> outer(path_.begin(), path_.end());
    std::optional<Refusal> refusal;
    std::optional<std::vector<TreeNode>> left;
    for (int leader : leaders) {
      try {
        iterator_parts.clear();
        left = remaining_loops(kernel_, outer, leader, mover_, own_, iterator_parts);
        break;
      } catch (const Refusal& refused) {
        if (!refusal) refusal = refused;
      }
    }
    if (!left) throw *refusal;
    own_ = *left;
    for (size_t i = 0; i < path_.size(); ++i) path_[i]->iterator_parts[mover_] = iterator_parts[i];
  }

  // Puts the statement before or after what the loop holds, as it was before or after the loop.
  void place() {
    TreeNode body;
    body.statement = mover_;
    for (size_t i = own_.size(); i-- > 0;) {
      own_[i].children.push_back(std::move(body));
      body = std::move(own_[i]);
    }
    TreeNode together;
    together.kind = TreeNode::Kind::Sequence;
    TreeNode inside = std::move(path_.back()->children[0]);
    if (position_ < neighbour_) together.children.push_back(std::move(body));
    together.children.push_back(std::move(inside));
    if (position_ > neighbour_) together.children.push_back(std::move(body));
    path_.back()->children[0] = std::move(together);
    sequence_->children.erase(sequence_->children.begin() + static_cast<std::ptrdiff_t>(position_));
    tidy(state_.tree);
  }

  ScheduleState& state_;
  const Kernel& kernel_;
  const int mover_;
  const std::string& loop_;  // its name
  TreeNode* sequence_ = nullptr;
  size_t position_ = 0, neighbour_ = 0;  // in the sequence
  std::vector<TreeNode> own_;            // loops of the statement alone, outermost first, without children
  std::vector<TreeNode*> path_;          // loops around what the statement gets next to
};

}  // namespace

Primitive compute_at_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"compute_at",
                   PrimitiveKind::Order,
                   {list(statement("STATEMENT"), 1), keyword("at"), loop("LOOP")},
                   "{ for i: S; for i: for j: T }  ->  for i: { S; for j: T } for `compute_at S at "
                   "T_i`: the statements run inside the loop, next to what it holds, and share all "
                   "loops around it. Nothing is computed twice."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    const std::string loop = given.loop("LOOP").name;
    for (size_t mover : given.statements("STATEMENT")) Move(state, mover, loop).run();
    refuse_illegal(state, state.tree);
  };
  return primitive;
}

}  // namespace tc
