// Loops after isl: dividing isolated loops, dropping implied conditions and loops of one trip.
#include <algorithm>
#include <limits>

#include "ir/error.h"
#include "scheduler/generate/generate.h"

namespace tc {
namespace {

using Kind = LoopExpr::Kind;
using Ranges = std::map<std::string, Interval>;
constexpr int64_t kFar = int64_t{1} << 61;

Interval bounds_of(const LoopExpr& expr, const Ranges& ranges) {
  auto operand = [&](size_t i) { return bounds_of(*expr.operands.at(i), ranges); };
  auto floor_div = [](int64_t a, int64_t b) { return a / b - (a % b < 0); };
  switch (expr.kind) {
    case Kind::Const: return {expr.value, expr.value};
    case Kind::Variable: {
      auto found = ranges.find(expr.name);
      return found == ranges.end() ? Interval{-kFar, kFar} : found->second;
    }
    case Kind::Add:
    case Kind::Sub:
    case Kind::Min:
    case Kind::Max: {
      Interval result = operand(0);
      for (size_t i = 1; i < expr.operands.size(); ++i) {
        const Interval next = operand(i);
        if (expr.kind == Kind::Add) result = {result.low + next.low, result.high + next.high};
        if (expr.kind == Kind::Sub) result = {result.low - next.high, result.high - next.low};
        if (expr.kind == Kind::Min)
          result = {std::min(result.low, next.low), std::min(result.high, next.high)};
        if (expr.kind == Kind::Max)
          result = {std::max(result.low, next.low), std::max(result.high, next.high)};
        result = {std::max(result.low, -kFar), std::min(result.high, kFar)};
      }
      return result;
    }
    case Kind::Mul: {
      __int128 low = 1, high = 1;
      for (size_t i = 0; i < expr.operands.size(); ++i) {
        const Interval next = operand(i);
        const __int128 a = low * next.low, b = low * next.high, c = high * next.low, d = high * next.high;
        low = std::max<__int128>(std::min({a, b, c, d}), -kFar);
        high = std::min<__int128>(std::max({a, b, c, d}), kFar);
      }
      return {static_cast<int64_t>(low), static_cast<int64_t>(high)};
    }
    case Kind::FloorDiv: {
      const Interval a = operand(0), b = operand(1);
      if (b.low != b.high || b.low <= 0) return {-kFar, kFar};
      return {floor_div(a.low, b.low), floor_div(a.high, b.low)};
    }
    case Kind::Mod: {
      const Interval b = operand(1);
      return {0, b.high - 1};
    }
    case Kind::Select: {
      const Interval a = operand(1), b = operand(2);
      return {std::min(a.low, b.low), std::max(a.high, b.high)};
    }
    default: return {0, 1};
  }
}

}  // namespace

std::optional<Affine> as_affine(const LoopExpr& expr) {
  switch (expr.kind) {
    case Kind::Const: return Affine(expr.value);
    case Kind::Variable: return Affine::variable(expr.name);
    case Kind::Add:
    case Kind::Sub:
    case Kind::Mul: break;
    default: return std::nullopt;
  }
  std::optional<Affine> result = as_affine(*expr.operands.at(0));
  for (size_t i = 1; i < expr.operands.size() && result; ++i) {
    auto next = as_affine(*expr.operands[i]);
    if (!next) return std::nullopt;
    if (expr.kind == Kind::Add) result = *result + *next;
    if (expr.kind == Kind::Sub) result = *result - *next;
    if (expr.kind == Kind::Mul) {
      if (next->is_constant()) result = *result * next->constant();
      else if (result->is_constant()) result = *next * result->constant();
      else return std::nullopt;
    }
  }
  return result;
}

namespace {

LoopExprPtr to_expr(const Affine& affine) {
  std::vector<LoopExprPtr> terms;
  for (const auto& [name, coefficient] : affine.terms()) {
    LoopExprPtr variable = loop_variable(name);
    terms.push_back(coefficient == 1 ? variable
                                     : loop_expr(Kind::Mul, {loop_constant(coefficient), variable}));
  }
  if (affine.constant() != 0 || terms.empty()) terms.push_back(loop_constant(affine.constant()));
  return terms.size() == 1 ? terms[0] : loop_expr(Kind::Add, terms);
}

LoopExprPtr substitute(const LoopExprPtr& expr, const std::string& name, const LoopExprPtr& value) {
  if (!expr) return expr;
  if (expr->kind == Kind::Variable) return expr->name == name ? value : expr;
  if (expr->operands.empty()) return expr;
  auto result = std::make_shared<LoopExpr>(*expr);
  for (LoopExprPtr& operand : result->operands) operand = substitute(operand, name, value);
  if (auto affine = as_affine(*result)) return to_expr(*affine);
  bool constants = true;
  for (const LoopExprPtr& operand : result->operands) constants = constants && operand->kind == Kind::Const;
  return constants ? loop_constant(evaluate(*result, {})) : result;
}

// A copy of the tree with a variable replaced by an affine value.
LoopNodePtr substitute(const LoopNodePtr& node, const std::string& name, const Affine& value) {
  auto result = std::make_shared<LoopNode>(*node);
  const LoopExprPtr expr = to_expr(value);
  result->lower = substitute(node->lower, name, expr);
  result->upper = substitute(node->upper, name, expr);
  result->condition = substitute(node->condition, name, expr);
  for (LoopNodePtr& child : result->children) child = substitute(child, name, value);
  const std::map<std::string, Affine> values{{name, value}};
  for (TileStatement& tile : result->statements) {
    for (auto& [iterator, affine] : tile.iterators) affine = affine.substitute(values);
    for (Affine& constraint : tile.constraints) constraint = constraint.substitute(values);
    for (TileLoop& loop : tile.loops) {
      loop.symbolic_extent = loop.symbolic_extent.substitute(values);
    }
  }
  for (Prefetch& prefetch : result->prefetches) prefetch.share = prefetch.share.substitute(values);
  return result;
}

class Simplifier {
 public:
  Simplifier(const Kernel& kernel, const std::set<std::string>& isolated) : isolated_(isolated) {
    for (const Parameter& parameter : kernel.parameters) {
      ranges_[parameter.name] = {parameter.minimum, parameter.maximum};
      parameters_.insert(parameter.name);
    }
  }

  // Null where nothing runs.
  LoopNodePtr run(const LoopNodePtr& node) {
    switch (node->kind) {
      case LoopNode::Kind::Leaf: return leaf(*node);
      case LoopNode::Kind::For: return loop(node);
      case LoopNode::Kind::If:
      case LoopNode::Kind::Block: break;
    }
    auto result = std::make_shared<LoopNode>(*node);
    result->children.clear();
    for (const LoopNodePtr& child : node->children) {
      LoopNodePtr inner = run(child);
      if (!inner) continue;
      if (node->kind == LoopNode::Kind::Block && inner->kind == LoopNode::Kind::Block) {
        result->children.insert(result->children.end(), inner->children.begin(), inner->children.end());
      } else {
        result->children.push_back(inner);
      }
    }
    if (result->children.empty()) return nullptr;
    if (node->kind == LoopNode::Kind::Block && result->children.size() == 1) return result->children[0];
    return result;
  }

 private:
  LoopNodePtr leaf(const LoopNode& node) {
    auto result = std::make_shared<LoopNode>(node);
    result->statements.clear();
    for (TileStatement tile : node.statements) {
      Ranges ranges = ranges_;
      std::vector<Affine> known = known_;
      bool empty = false;
      for (const TileLoop& loop : tile.loops) add_loop(loop, ranges, known, empty);
      std::vector<Affine> kept;
      for (const Affine& constraint : tile.constraints) {
        if (range_of(constraint, ranges).high < 0) empty = true;
        if (holds(constraint, ranges, known)) continue;
        if (std::find(kept.begin(), kept.end(), constraint) == kept.end()) kept.push_back(constraint);
      }
      if (empty) continue;
      // Drops the conditions that another condition implies.
      tile.constraints.clear();
      for (size_t i = 0; i < kept.size(); ++i) {
        bool implied = false;
        for (size_t j = 0; j < kept.size(); ++j) {
          if (i == j) continue;
          const Interval difference = range_of(kept[i] - kept[j], ranges);
          // The first of conditions that are equal under these loops is kept.
          const bool equal = difference.low == 0 && difference.high == 0;
          implied = implied || (difference.low >= 0 && (!equal || j < i));
        }
        if (!implied) tile.constraints.push_back(kept[i]);
      }
      result->statements.push_back(std::move(tile));
    }
    return result->statements.empty() ? nullptr : result;
  }

  static void add_loop(const TileLoop& loop, Ranges& ranges, std::vector<Affine>& known, bool& empty) {
    if (loop.extent == 0) empty = true;
    if (loop.extent >= 0) {
      ranges[loop.name] = {0, std::max<int64_t>(0, loop.extent - 1)};
      return;
    }
    const Affine variable = Affine::variable(loop.name);
    ranges[loop.name] = {
        0, std::max<int64_t>(0, (range_of(loop.symbolic_extent, ranges).high - 1) / loop.symbolic_divisor)};
    known.push_back(loop.symbolic_extent - Affine(1) - variable * loop.symbolic_divisor);
  }

  static bool holds(const Affine& constraint, const Ranges& ranges, const std::vector<Affine>& known) {
    if (range_of(constraint, ranges).low >= 0) return true;
    for (const Affine& fact : known) {
      // constraint - factor * fact >= 0 with a factor that cancels one term.
      std::set<int64_t> factors;
      for (const auto& [name, coefficient] : fact.terms()) {
        const int64_t wanted = constraint.coefficient(name);
        if (wanted != 0 && wanted % coefficient == 0 && wanted / coefficient > 0) {
          factors.insert(wanted / coefficient);
        }
      }
      for (int64_t factor : factors) {
        if (range_of(constraint - fact * factor, ranges).low >= 0) return true;
      }
    }
    return false;
  }

  // Adds what a loop's bound implies about its variable, as expressions that are >= 0.
  void add_facts(const LoopExpr& bound, const Affine& variable, bool upper) {
    if (bound.kind == (upper ? Kind::Min : Kind::Max)) {
      for (const LoopExprPtr& operand : bound.operands) add_facts(*operand, variable, upper);
      return;
    }
    // The bound is rest + inner / divisor.
    const LoopExpr* inner = &bound;
    Affine rest;
    int64_t divisor = 1;
    auto is_quotient = [&](const LoopExpr& each) {
      return each.kind == Kind::FloorDiv && upper && each.operands[1]->kind == Kind::Const;
    };
    auto take_quotient = [&](const LoopExpr& quotient) {
      divisor = quotient.operands[1]->value;
      inner = quotient.operands[0].get();
    };
    if (is_quotient(bound)) take_quotient(bound);
    if (bound.kind == Kind::Add) {
      for (const LoopExprPtr& operand : bound.operands) {
        if (divisor == 1 && is_quotient(*operand)) {
          take_quotient(*operand);
        } else if (auto affine = as_affine(*operand)) {
          rest = rest + *affine;
        } else {
          return;
        }
      }
    }
    if (inner == &bound) rest = Affine();
    auto affine = as_affine(*inner);
    if (!affine || (affine->is_constant() && divisor == 1)) return;
    const Affine limit = *affine + rest * divisor;
    known_.push_back(upper ? limit - variable * divisor : variable - limit);
  }

  LoopNodePtr loop(const LoopNodePtr& node) {
    const Interval low = bounds_of(*node->lower, ranges_), high = bounds_of(*node->upper, ranges_);
    if (low.low > high.high) return nullptr;
    if (low.low == low.high && high.low == high.high && low.low == high.low) {
      LoopNodePtr body = run(substitute(node->children[0], node->variable, Affine(low.low)));
      return body;
    }
    if (auto same = as_affine(*node->lower)) {
      auto other = as_affine(*node->upper);
      if (other && *same == *other) return run(substitute(node->children[0], node->variable, *same));
    }
    if (isolated_.count(node->variable) && !dividing_.count(node->variable)) {
      if (LoopNodePtr divided = divide(node)) return divided;
    }
    const auto saved_range =
        ranges_.find(node->variable) == ranges_.end() ? std::optional<Interval>() : ranges_[node->variable];
    const size_t known = known_.size();
    ranges_[node->variable] = {low.low, std::max(low.low, high.high)};
    add_facts(*node->lower, Affine::variable(node->variable), false);
    add_facts(*node->upper, Affine::variable(node->variable), true);
    LoopNodePtr body = run(node->children[0]);
    known_.resize(known);
    if (saved_range) ranges_[node->variable] = *saved_range;
    else ranges_.erase(node->variable);
    if (!body) return nullptr;
    auto result = std::make_shared<LoopNode>(*node);
    result->children = {body};
    return result;
  }

  // Adds the bounds of the interior, in which the leaves below need no conditions: there the variable is at
  // least each of `lower` and at most each of `upper`.
  void collect_interior(const LoopNode& node, const std::string& variable, Ranges ranges,
                        std::vector<Affine> known, std::vector<LoopExprPtr>& lower,
                        std::vector<LoopExprPtr>& upper) {
    if (node.kind == LoopNode::Kind::For) {
      const Interval low = bounds_of(*node.lower, ranges), high = bounds_of(*node.upper, ranges);
      ranges[node.variable] = {low.low, std::max(low.low, high.high)};
    }
    for (const LoopNodePtr& child : node.children) {
      collect_interior(*child, variable, ranges, known, lower, upper);
    }
    for (const TileStatement& tile : node.statements) {
      Ranges inner = ranges;
      std::vector<Affine> facts = known;
      bool empty = false;
      for (const TileLoop& loop : tile.loops) add_loop(loop, inner, facts, empty);
      for (const Affine& constraint : tile.constraints) {
        const int64_t coefficient = constraint.coefficient(variable);
        if (coefficient == 0 || holds(constraint, inner, facts) || ends_open_loop(constraint, tile)) continue;
        // The smallest value of the other terms; parameters stay symbolic.
        Affine rest;
        Affine moving;
        for (const auto& [name, factor] : constraint.terms()) {
          if (name == variable) continue;
          Affine& where = parameters_.count(name) ? rest : moving;
          where = where + Affine::variable(name, factor);
        }
        const Interval least = range_of(moving + Affine(constraint.constant()), inner);
        if (least.low <= -kFar) continue;
        rest = rest + Affine(least.low);
        if (coefficient > 0) {
          add_bound(lower, Affine(coefficient - 1) - rest, coefficient);
        } else {
          add_bound(upper, rest, -coefficient);
        }
      }
    }
  }

  // Whether the constraint ends a loop of the leaf whose length a run decides. Such a loop has trips in which
  // all copies exist and others, for any value of the variables around the leaf.
  static bool ends_open_loop(const Affine& constraint, const TileStatement& tile) {
    return std::any_of(tile.loops.begin(), tile.loops.end(), [&](const TileLoop& loop) {
      return loop.extent < 0 && constraint.coefficient(loop.name) < 0;
    });
  }

  static void add_bound(std::vector<LoopExprPtr>& bounds, const Affine& value, int64_t divisor) {
    LoopExprPtr bound = to_expr(value);
    if (value.is_constant()) {
      const int64_t constant = value.constant();
      bound = loop_constant(constant / divisor - (constant % divisor < 0));
    } else if (divisor > 1) {
      bound = loop_expr(Kind::FloorDiv, {bound, loop_constant(divisor)});
    }
    for (const LoopExprPtr& other : bounds) {
      if (str(*other) == str(*bound)) return;
    }
    bounds.push_back(bound);
  }

  // Minimum or maximum; constants are combined.
  static LoopExprPtr extreme(Kind kind, std::vector<LoopExprPtr> parts) {
    std::optional<int64_t> constant;
    std::vector<LoopExprPtr> rest;
    for (const LoopExprPtr& part : parts) {
      std::vector<LoopExprPtr> each{part};
      if (part->kind == kind) each = part->operands;
      for (const LoopExprPtr& one : each) {
        if (one->kind != Kind::Const) {
          rest.push_back(one);
        } else if (!constant) {
          constant = one->value;
        } else {
          constant = kind == Kind::Min ? std::min(*constant, one->value) : std::max(*constant, one->value);
        }
      }
    }
    if (constant) rest.push_back(loop_constant(*constant));
    return rest.size() == 1 ? rest[0] : loop_expr(kind, rest);
  }

  static LoopExprPtr plus(const LoopExprPtr& a, int64_t b) {
    if (auto affine = as_affine(*a)) return to_expr(*affine + Affine(b));
    if (a->kind == Kind::Min || a->kind == Kind::Max) {
      std::vector<LoopExprPtr> parts;
      for (const LoopExprPtr& operand : a->operands) parts.push_back(plus(operand, b));
      return loop_expr(a->kind, parts);
    }
    return loop_expr(Kind::Add, {a, loop_constant(b)});
  }

  LoopNodePtr divide(const LoopNodePtr& node) {
    std::vector<LoopExprPtr> lower, upper;
    Ranges ranges = ranges_;
    const Interval low = bounds_of(*node->lower, ranges_), high = bounds_of(*node->upper, ranges_);
    ranges[node->variable] = {low.low, std::max(low.low, high.high)};
    collect_interior(*node->children[0], node->variable, ranges, known_, lower, upper);
    if (lower.empty() && upper.empty()) return nullptr;
    auto part = [&](LoopExprPtr from, LoopExprPtr to) {
      auto result = std::make_shared<LoopNode>(*node);
      result->lower = std::move(from);
      result->upper = std::move(to);
      return result;
    };
    // Trips before the interior (also those that are past its end), the interior, trips after it.
    auto block = std::make_shared<LoopNode>();
    block->kind = LoopNode::Kind::Block;
    LoopExprPtr begin = node->lower;
    if (!lower.empty() && !upper.empty()) {
      const LoopExprPtr first = extreme(Kind::Max, lower), last = extreme(Kind::Min, upper);
      if (first->kind == Kind::Const && last->kind == Kind::Const && last->value + 1 < first->value) {
        // No interior: trips that need the conditions of `lower`, those of both kinds, those of `upper`.
        block->children = {part(node->lower, extreme(Kind::Min, {node->upper, last})),
                           part(extreme(Kind::Max, {node->lower, plus(last, 1)}),
                                extreme(Kind::Min, {node->upper, plus(first, -1)})),
                           part(extreme(Kind::Max, {node->lower, first}), node->upper)};
        begin = nullptr;
      }
    }
    if (begin) {
      if (!lower.empty()) {
        const LoopExprPtr first = extreme(Kind::Max, lower);
        block->children.push_back(part(begin, extreme(Kind::Min, {node->upper, plus(first, -1)})));
        begin = extreme(Kind::Max, {begin, first});
      }
      if (upper.empty()) {
        block->children.push_back(part(begin, node->upper));
      } else {
        const LoopExprPtr last = extreme(Kind::Min, upper);
        block->children.push_back(part(begin, extreme(Kind::Min, {node->upper, last})));
        block->children.push_back(part(extreme(Kind::Max, {begin, plus(last, 1)}), node->upper));
      }
    }
    dividing_.insert(node->variable);
    LoopNodePtr result = run(block);
    dividing_.erase(node->variable);
    if (result) return result;
    // Nothing runs at all: an empty block says so without being divided again.
    return block_of_nothing();
  }

  static LoopNodePtr block_of_nothing() {
    auto block = std::make_shared<LoopNode>();
    block->kind = LoopNode::Kind::Block;
    return block;
  }

  const std::set<std::string>& isolated_;
  std::set<std::string> parameters_;
  std::set<std::string> dividing_;
  Ranges ranges_;
  std::vector<Affine> known_;
};

}  // namespace

LoopNodePtr simplify_loops(const Kernel& kernel, const LoopNodePtr& root,
                           const std::set<std::string>& isolated) {
  LoopNodePtr result = Simplifier(kernel, isolated).run(root);
  if (result) return result;
  result = std::make_shared<LoopNode>();
  result->kind = LoopNode::Kind::Block;
  return result;
}

}  // namespace tc
