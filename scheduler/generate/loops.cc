// The loops around leaves, written by isl: schedule tree in, AST out, AST to loop nodes.
#include <isl/ast.h>
#include <isl/ast_build.h>
#include <isl/printer.h>
#include <isl/schedule.h>
#include <isl/schedule_node.h>

#include <algorithm>
#include <cstdlib>

#include "ir/error.h"
#include "scheduler/core/primitive.h"
#include "scheduler/generate/generate.h"

namespace tc {
namespace {

using Kind = LoopExpr::Kind;

std::string region_name(size_t region) { return "L" + std::to_string(region); }

// Builds an isl schedule tree below `node` (a leaf position) and returns the node at that position.
class IslTree {
 public:
  virtual ~IslTree() = default;

  isl::schedule build(const isl::union_set& domain, const TreeNode& tree) {
    isl::schedule_node root = isl::schedule::from_domain(domain).root();
    return insert(root.child(0), tree).schedule();
  }

 protected:
  virtual bool is_end(const TreeNode& node) const = 0;
  virtual isl::multi_union_pw_aff function(const TreeNode& loop) = 0;
  virtual isl::union_set filter(const TreeNode& child) = 0;

 private:
  isl::schedule_node insert(isl::schedule_node at, const TreeNode& node) {
    if (is_end(node)) return at;
    switch (node.kind) {
      case TreeNode::Kind::Leaf: return at;
      case TreeNode::Kind::Tile: {
        at = insert(at, node.children[0]);
        isl::id id = owned(isl_id_alloc(isl_context(), "tile", nullptr));
        return at.insert_mark(id);
      }
      case TreeNode::Kind::Loop: {
        at = insert(at, node.children[0]);
        return at.insert_partial_schedule(function(node).set_range_tuple(isl_name(node.name)));
      }
      case TreeNode::Kind::Sequence: break;
    }
    isl_union_set_list* filters = isl_union_set_list_alloc(isl_context(), 0);
    for (const TreeNode& child : node.children) {
      filters = isl_union_set_list_add(filters, filter(child).release());
    }
    at = at.insert_sequence(isl::manage(filters));
    for (size_t i = 0; i < node.children.size(); ++i) {
      at = insert(at.child(static_cast<int>(i)).child(0), node.children[i]).parent().parent();
    }
    return at;
  }
};

// The tree over statement instances, for people.
class StatementTree : public IslTree {
 public:
  StatementTree(const KernelPtr& kernel) : kernel_(kernel->kernel), model_(model_of(kernel)) {}

 protected:
  bool is_end(const TreeNode&) const override { return false; }
  isl::multi_union_pw_aff function(const TreeNode& loop) override {
    return loop_function(model_, kernel_, loop);
  }
  isl::union_set filter(const TreeNode& child) override {
    return universe_of(model_, statements_below(child));
  }

 private:
  const Kernel& kernel_;
  const KernelModel& model_;
};

// The tree over runs of leaves: each region is one statement whose iterators are its outer loops.
class RegionTree : public IslTree {
 public:
  RegionTree(const KernelPtr& kernel, const std::vector<Region>& regions) : regions_(regions) {
    const KernelModel& model = model_of(kernel);
    for (size_t r = 0; r < regions.size(); ++r) {
      isl::set runs;
      for (const Region::Member& member : regions[r].statements) {
        isl::set one = runs_of(model, kernel->kernel, regions[r], member.statement);
        runs = runs.is_null() ? one : runs.unite(one);
      }
      runs = runs.coalesce();
      runs = owned(isl_set_set_tuple_name(runs.release(), region_name(r).c_str()));
      runs_.push_back(runs);
    }
  }

  isl::union_set domain() const {
    isl::union_set result = isl::union_set::empty(isl::ctx(isl_context()));
    for (const isl::set& runs : runs_) result = result.unite(isl::union_set(runs));
    return result;
  }

 protected:
  bool is_end(const TreeNode& node) const override {
    for (const Region& region : regions_) {
      if (region.node == &node || (node.kind == TreeNode::Kind::Tile && region.node == &node.children[0]))
        return true;
    }
    return false;
  }

  isl::multi_union_pw_aff function(const TreeNode& loop) override {
    isl::union_pw_aff all;
    for (size_t r = 0; r < regions_.size(); ++r) {
      for (size_t depth = 0; depth < regions_[r].outer.size(); ++depth) {
        if (regions_[r].outer[depth] != &loop) continue;
        isl_local_space* space = isl_local_space_from_space(isl_set_get_space(runs_[r].get()));
        isl::union_pw_aff one = owned(isl_union_pw_aff_from_aff(
            isl_aff_var_on_domain(space, isl_dim_set, static_cast<unsigned>(depth))));
        all = all.is_null() ? one : owned(isl_union_pw_aff_union_add(all.release(), one.release()));
      }
    }
    return owned(isl_multi_union_pw_aff_from_union_pw_aff(all.release()));
  }

  isl::union_set filter(const TreeNode& child) override {
    isl::union_set result = isl::union_set::empty(isl::ctx(isl_context()));
    const std::vector<int> below = statements_below(child);
    for (size_t r = 0; r < regions_.size(); ++r) {
      const int first = regions_[r].statements[0].statement;
      if (std::find(below.begin(), below.end(), first) == below.end()) continue;
      result = result.unite(isl::union_set(owned(isl_set_universe(isl_set_get_space(runs_[r].get())))));
    }
    return result;
  }

 private:
  // Values of the region's outer loops for which the statement has instances.
  static isl::set runs_of(const KernelModel& model, const Kernel& kernel, const Region& region,
                          int statement) {
    isl::set domain = model.domains[static_cast<size_t>(statement)];
    if (region.outer.empty()) {
      isl_set* parameters = isl_set_params(domain.release());
      return owned(isl_set_from_params(parameters));
    }
    isl::map map;
    for (const TreeNode* loop : region.outer) {
      TreeNode one;
      one.kind = TreeNode::Kind::Loop;
      one.iterator_parts[statement] = loop->iterator_parts.at(statement);
      isl::multi_union_pw_aff value = loop_function(model, kernel, one);
      isl_union_map* function = isl_union_map_from_multi_union_pw_aff(value.release());
      isl::map next = owned(isl_map_from_union_map(function));
      map = map.is_null() ? next : owned(isl_map_flat_range_product(map.release(), next.release()));
    }
    return domain.apply(map);
  }

  const std::vector<Region>& regions_;
  std::vector<isl::set> runs_;
};

// The condition that holds where the given one does not.
LoopExprPtr negated(const LoopExprPtr& condition) {
  const auto& operands = condition->operands;
  auto with = [&](Kind kind) { return loop_expr(kind, operands); };
  switch (condition->kind) {
    case Kind::Le: return with(Kind::Gt);
    case Kind::Lt: return with(Kind::Ge);
    case Kind::Ge: return with(Kind::Lt);
    case Kind::Gt: return with(Kind::Le);
    case Kind::Eq: return loop_expr(Kind::Or, {with(Kind::Lt), with(Kind::Gt)});
    case Kind::And:
    case Kind::Or: {
      std::vector<LoopExprPtr> parts;
      for (const LoopExprPtr& operand : operands) parts.push_back(negated(operand));
      return loop_expr(condition->kind == Kind::And ? Kind::Or : Kind::And, parts);
    }
    default: return loop_expr(Kind::Eq, {condition, loop_constant(0)});
  }
}

// isl's AST to loop nodes.
class AstReader {
 public:
  AstReader(const std::vector<Region>& regions, const std::vector<std::string>& iterators, OuterLoops& result)
      : regions_(regions), iterators_(iterators), result_(result) {}

  LoopNodePtr node(const isl::ast_node& ast) {
    auto result = std::make_shared<LoopNode>();
    switch (isl_ast_node_get_type(ast.get())) {
      case isl_ast_node_for: return for_node(ast);
      case isl_ast_node_mark: return node(owned(isl_ast_node_mark_get_node(ast.get())));
      case isl_ast_node_if: {
        result->kind = LoopNode::Kind::If;
        result->condition = expr(owned(isl_ast_node_if_get_cond(ast.get())));
        result->children = {node(owned(isl_ast_node_if_get_then_node(ast.get())))};
        if (isl_ast_node_if_has_else_node(ast.get()) != isl_bool_true) return result;
        auto otherwise = std::make_shared<LoopNode>();
        otherwise->kind = LoopNode::Kind::If;
        otherwise->condition = negated(result->condition);
        otherwise->children = {node(owned(isl_ast_node_if_get_else_node(ast.get())))};
        auto block = std::make_shared<LoopNode>();
        block->kind = LoopNode::Kind::Block;
        block->children = {result, otherwise};
        return block;
      }
      case isl_ast_node_block: {
        result->kind = LoopNode::Kind::Block;
        isl::ast_node_list list = owned(isl_ast_node_block_get_children(ast.get()));
        for (int i = 0; i < isl_ast_node_list_n_ast_node(list.get()); ++i) {
          result->children.push_back(node(owned(isl_ast_node_list_get_ast_node(list.get(), i))));
        }
        return result;
      }
      case isl_ast_node_user: {
        isl::ast_expr call = owned(isl_ast_node_user_get_expr(ast.get()));
        OuterLoops::Call entry;
        const int count = isl_ast_expr_get_op_n_arg(call.get());
        entry.region = static_cast<int>(region_of_call(ast));
        for (int i = 1; i < count; ++i) {
          entry.arguments.push_back(expr(owned(isl_ast_expr_get_op_arg(call.get(), i))));
        }
        result->kind = LoopNode::Kind::Leaf;
        result->name = std::to_string(result_.calls.size());
        result_.calls.push_back(std::move(entry));
        return result;
      }
      default: fail(ErrorKind::Internal, "isl wrote a loop of an unknown kind");
    }
  }

 private:
  LoopNodePtr for_node(const isl::ast_node& ast) {
    auto result = std::make_shared<LoopNode>();
    result->kind = LoopNode::Kind::For;
    isl::ast_expr iterator = owned(isl_ast_node_for_get_iterator(ast.get()));
    isl::id id = owned(isl_ast_expr_get_id(iterator.get()));
    const std::string depth_name = isl_id_get_name(id.get());
    // The loop of the tree at this depth, the same for all regions below, gives the name.
    size_t depth = 0;
    while (iterators_.at(depth) != depth_name) ++depth;
    isl::ast_node body = owned(isl_ast_node_for_get_body(ast.get()));
    const TreeNode* loop = regions_[first_region(body)].outer.at(depth);
    const std::string& name = loop->name;
    names_[depth_name] = loop_variable(name);
    result->lower = expr(owned(isl_ast_node_for_get_init(ast.get())));
    if (isl_ast_node_for_is_degenerate(ast.get()) == isl_bool_true) {
      result->upper = result->lower;
    } else {
      LoopExprPtr condition = expr(owned(isl_ast_node_for_get_cond(ast.get())));
      const bool less = condition->kind == Kind::Lt;
      TC_CHECK((less || condition->kind == Kind::Le) && condition->operands[0]->kind == Kind::Variable,
               "of loop ", name, ": ", str(*condition));
      result->upper = condition->operands[1];
      if (less) result->upper = loop_expr(Kind::Sub, {result->upper, loop_constant(1)});
      isl::ast_expr step = owned(isl_ast_node_for_get_inc(ast.get()));
      TC_CHECK(isl_ast_expr_get_type(step.get()) == isl_ast_expr_int, "of loop ", name);
      count_trips(*result, depth_name, name, integer(step));
    }
    result->children = {node(body)};
    result->variable = name;
    for (const LoopMark& mark : loop->marks) {
      // Around leaves, a loop that is unrolled as a whole stays a loop, without the mark.
      const bool whole = mark.word == marks::kUnroll && mark.count == 0;
      if (row_of(mark).scheduled && !whole) result->marks.push_back(mark);
    }
    return result;
  }

  // Where only every `step`-th value of a loop has instances, isl steps over the others: y = 0, 5, 10. Loop
  // nodes go up by one, so the loop counts trips from 0, and expressions below read lower + step * trip for
  // isl's iterator.
  void count_trips(LoopNode& loop, const std::string& iterator, const std::string& name, int64_t step) {
    TC_CHECK(step >= 1, "of loop ", name);
    if (step == 1) return;
    const LoopExprPtr trip = loop_expr(Kind::Mul, {loop_constant(step), loop_variable(name)});
    const bool from_zero = loop.lower->kind == Kind::Const && loop.lower->value == 0;
    names_[iterator] = from_zero ? trip : loop_expr(Kind::Add, {loop.lower, trip});
    const LoopExprPtr length = from_zero ? loop.upper : loop_expr(Kind::Sub, {loop.upper, loop.lower});
    const LoopExprPtr last = loop_expr(Kind::FloorDiv, {length, loop_constant(step)});
    const auto affine = as_affine(*length);
    loop.upper = affine && affine->is_constant() ? loop_constant(evaluate(*last, {})) : last;
    loop.lower = loop_constant(0);
  }

  static size_t region_of_call(const isl::ast_node& ast) {
    isl::ast_expr call = owned(isl_ast_node_user_get_expr(ast.get()));
    isl::ast_expr callee = owned(isl_ast_expr_get_op_arg(call.get(), 0));
    isl::id id = owned(isl_ast_expr_get_id(callee.get()));
    return static_cast<size_t>(std::atoi(isl_id_get_name(id.get()) + 1));
  }

  static size_t first_region(const isl::ast_node& ast) {
    switch (isl_ast_node_get_type(ast.get())) {
      case isl_ast_node_for: return first_region(owned(isl_ast_node_for_get_body(ast.get())));
      case isl_ast_node_mark: return first_region(owned(isl_ast_node_mark_get_node(ast.get())));
      case isl_ast_node_if: return first_region(owned(isl_ast_node_if_get_then_node(ast.get())));
      case isl_ast_node_block: {
        isl::ast_node_list list = owned(isl_ast_node_block_get_children(ast.get()));
        return first_region(owned(isl_ast_node_list_get_ast_node(list.get(), 0)));
      }
      default: return region_of_call(ast);
    }
  }

  static int64_t integer(const isl::ast_expr& ast) {
    isl::val value = owned(isl_ast_expr_get_val(ast.get()));
    return isl_val_get_num_si(value.get());
  }

  LoopExprPtr expr(const isl::ast_expr& ast) {
    switch (isl_ast_expr_get_type(ast.get())) {
      case isl_ast_expr_int: return loop_constant(integer(ast));
      case isl_ast_expr_id: {
        isl::id id = owned(isl_ast_expr_get_id(ast.get()));
        auto found = names_.find(isl_id_get_name(id.get()));
        return found == names_.end() ? loop_variable(isl_id_get_name(id.get())) : found->second;
      }
      default: break;
    }
    std::vector<LoopExprPtr> operands;
    for (int i = 0; i < isl_ast_expr_get_op_n_arg(ast.get()); ++i) {
      operands.push_back(expr(owned(isl_ast_expr_get_op_arg(ast.get(), i))));
    }
    switch (isl_ast_expr_get_op_type(ast.get())) {
      case isl_ast_op_and:
      case isl_ast_op_and_then: return loop_expr(Kind::And, operands);
      case isl_ast_op_or:
      case isl_ast_op_or_else: return loop_expr(Kind::Or, operands);
      case isl_ast_op_max: return loop_expr(Kind::Max, operands);
      case isl_ast_op_min: return loop_expr(Kind::Min, operands);
      case isl_ast_op_minus: return loop_expr(Kind::Sub, {loop_constant(0), operands.at(0)});
      case isl_ast_op_add: return loop_expr(Kind::Add, operands);
      case isl_ast_op_sub: return loop_expr(Kind::Sub, operands);
      case isl_ast_op_mul: return loop_expr(Kind::Mul, operands);
      case isl_ast_op_div:
      case isl_ast_op_fdiv_q:
      case isl_ast_op_pdiv_q: return loop_expr(Kind::FloorDiv, operands);
      case isl_ast_op_pdiv_r:
      case isl_ast_op_zdiv_r: return loop_expr(Kind::Mod, operands);
      case isl_ast_op_cond:
      case isl_ast_op_select: return loop_expr(Kind::Select, operands);
      case isl_ast_op_eq: return loop_expr(Kind::Eq, operands);
      case isl_ast_op_le: return loop_expr(Kind::Le, operands);
      case isl_ast_op_lt: return loop_expr(Kind::Lt, operands);
      case isl_ast_op_ge: return loop_expr(Kind::Ge, operands);
      case isl_ast_op_gt: return loop_expr(Kind::Gt, operands);
      default: fail(ErrorKind::Internal, "isl wrote an expression of an unknown kind");
    }
  }

  const std::vector<Region>& regions_;
  const std::vector<std::string>& iterators_;
  OuterLoops& result_;
  std::map<std::string, LoopExprPtr> names_;  // values of the loops around, by isl's name for their depth
};

}  // namespace

OuterLoops outer_loops(const KernelPtr& kernel, const TreeNode& tree, const std::vector<Region>& regions) {
  OuterLoops result;
  std::vector<std::string> iterators;
  for (const Region& region : regions) {
    for (size_t depth = iterators.size(); depth < region.outer.size(); ++depth) {
      iterators.push_back(isl_name(region.outer[depth]->name));
    }
  }
  RegionTree maker(kernel, regions);
  isl::union_set domain = maker.domain();
  if (domain.is_empty()) {
    result.root = std::make_shared<LoopNode>();
    result.root->kind = LoopNode::Kind::Block;
    return result;
  }
  isl::schedule schedule = maker.build(domain, tree);
  isl::ast_build build = owned(isl_ast_build_from_context(model_of(kernel).parameters.copy()));
  isl_id_list* names = isl_id_list_alloc(isl_context(), 0);
  for (const std::string& name : iterators) {
    names = isl_id_list_add(names, isl_id_alloc(isl_context(), name.c_str(), nullptr));
  }
  build = owned(isl_ast_build_set_iterators(build.release(), names));
  isl::ast_node ast = owned(isl_ast_build_node_from_schedule(build.get(), schedule.release()));
  result.root = AstReader(regions, iterators, result).node(ast);
  return result;
}

std::string tree_text(const KernelPtr& kernel, const TreeNode& tree) {
  const KernelModel& model = model_of(kernel);
  isl::schedule schedule = StatementTree(kernel).build(model.domain, tree);
  isl_printer* printer = isl_printer_to_str(isl_context());
  printer = isl_printer_set_yaml_style(printer, ISL_YAML_STYLE_BLOCK);
  printer = isl_printer_print_schedule(printer, schedule.get());
  char* written = isl_printer_get_str(printer);
  std::string result = written != nullptr ? written : "";
  std::free(written);
  isl_printer_free(printer);
  return result;
}

}  // namespace tc
