// Padded lanes: which conditions on instances are unnecessary because of blocked layouts.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "ir/domain.h"
#include "scheduler/core/rewriting.h"

namespace tc {
namespace {

// True where finite operands give a finite result (barring overflow), whatever they are.
bool stays_finite(const Expr& expr) {
  if (expr.kind == Expr::Kind::Const && is_float(expr.dtype) && !std::isfinite(expr.number)) return false;
  if (expr.kind == Expr::Kind::Unary) {
    switch (expr.unary) {
      case UnaryOp::Neg:
      case UnaryOp::Abs:
      case UnaryOp::Sign:
      case UnaryOp::Floor:
      case UnaryOp::Ceil:
      case UnaryOp::Round:
      case UnaryOp::Trunc:
      case UnaryOp::Sin:
      case UnaryOp::Cos:
      case UnaryOp::Atan:
      case UnaryOp::Tanh:
      case UnaryOp::Asinh:
      case UnaryOp::Erf:
      case UnaryOp::Sigmoid:
      case UnaryOp::Not:
      case UnaryOp::BitNot:
      case UnaryOp::IsNan:
      case UnaryOp::IsInf: break;
      default: return false;
    }
  }
  if (expr.kind == Expr::Kind::Binary && is_float(expr.operands[0]->dtype)) {
    switch (expr.binary) {
      case BinaryOp::Pow:
      case BinaryOp::Mod:
      case BinaryOp::Fmod: return false;
      case BinaryOp::Div: {
        // By a constant, or by a count of elements, which is not zero.
        const Expr& by = *expr.operands[1];
        if (by.kind == Expr::Kind::Const && by.number == 0) return false;
        bool loads = false;
        for_each_load(expr.operands[1], [&](const Expr&) { loads = true; });
        if (loads) return false;
        break;
      }
      default: break;
    }
  }
  if (expr.kind == Expr::Kind::Load) {
    for (const Subscript& subscript : expr.access.index) {
      if (subscript.dynamic) return false;
    }
  }
  return std::all_of(expr.operands.begin(), expr.operands.end(),
                     [](const ExprPtr& operand) { return stays_finite(*operand); });
}

// The factors of a product, looked for through nested multiplications.
void collect_factors(const ExprPtr& expr, std::vector<const Expr*>& factors) {
  if (expr->kind == Expr::Kind::Binary && expr->binary == BinaryOp::Mul) {
    for (const ExprPtr& operand : expr->operands) collect_factors(operand, factors);
  } else if (expr->kind == Expr::Kind::Cast && is_float(expr->dtype) == is_float(expr->operands[0]->dtype)) {
    collect_factors(expr->operands[0], factors);
  } else {
    factors.push_back(expr.get());
  }
}

class Settler {
 public:
  Settler(Kernel& kernel, const std::vector<BlockedDim>& blocked) : kernel_(kernel), blocked_(blocked) {
    for (const Buffer& buffer : kernel.buffers) {
      if (buffer.scope == Scope::Input || buffer.scope == Scope::Constant) defined_.insert(buffer.name);
    }
  }

  void run() {
    for (Statement& statement : kernel_.statements) settle(statement);
  }

 private:
  const Buffer& buffer_of(const Access& access) const {
    return kernel_.buffers[static_cast<size_t>(access.buffer)];
  }

  // Where the access reaches padded lanes only for those instances for which `condition` is negative: an
  // expression that is not negative for the instances that stay inside of the dimension's blocks, padding
  // included.
  std::optional<Affine> room_in_blocks(const Access& access, const Affine& condition) const {
    for (const BlockedDim& dim : blocked_) {
      if (buffer_of(access).name != dim.buffer || access.index.size() <= dim.inner) continue;
      if (access.index[dim.outer].dynamic || access.index[dim.inner].dynamic) continue;
      const Affine position = access.index[dim.outer].affine * dim.block + access.index[dim.inner].affine;
      // A condition that leaves out some of the padded lanes only is there where an iterator runs further
      // than the dimension does, after it was divided in parts that do not fit.
      const Affine beyond = condition - (dim.extent - Affine(1) - position);
      if (!beyond.is_constant() || beyond.constant() < 0) continue;
      return buffer_of(access).shape[dim.outer] * dim.block - Affine(1) - position;
    }
    return std::nullopt;
  }
  bool is_padded_lane(const Access& access, const Affine& condition) const {
    return room_in_blocks(access, condition).has_value();
  }

  // True where the load gives the fill, 0, for the instances for which `condition` is negative.
  bool is_fill(const Expr& load, const Affine& condition) const {
    for (const Packing& packing : kernel_.packings) {
      if (packing.buffer != buffer_of(load.access).name || packing.fill != 0) continue;
      std::map<std::string, Affine> values;
      for (size_t i = 0; i < packing.iterators.size(); ++i) {
        values[packing.iterators[i]] = load.access.index[i].affine;
      }
      const std::vector<int64_t> shape = packing.combined_shape();
      for (size_t d = 0; d < packing.index.size(); ++d) {
        const Affine last(shape[d] - 1);
        if (last - packing.index[d].substitute(values) == condition) return true;
      }
    }
    return false;
  }

  // Whether the access stays in its buffer when `condition` is dropped and the other conditions that are
  // still checked (`asked_`) hold. Only subscripts that share iterators with the condition, directly or
  // through other conditions, are examined: the others do not change.
  bool in_bounds(const Statement& statement, const Access& access, const Affine& condition) const {
    std::set<std::string> concerned;
    for (const auto& [name, coefficient] : condition.terms()) concerned.insert(name);
    auto touches = [&](const Affine& affine) {
      return std::any_of(affine.terms().begin(), affine.terms().end(),
                         [&](const auto& term) { return concerned.count(term.first) > 0; });
    };
    std::vector<Affine> others;
    for (const Affine& other : asked_) {
      if (other != condition) others.push_back(other);
    }
    for (size_t size = 0; size != concerned.size();) {
      size = concerned.size();
      for (const Affine& other : others) {
        if (!touches(other)) continue;
        for (const auto& [name, coefficient] : other.terms()) concerned.insert(name);
      }
    }
    for (const Parameter& parameter : kernel_.parameters) concerned.erase(parameter.name);
    const Domain domain(box_of(kernel_, statement), others);
    auto holds = [&](const Affine& affine) {
      return domain.is_nonnegative(affine, nullptr) == Domain::Answer::Yes;
    };
    for (size_t d = 0; d < access.index.size(); ++d) {
      if (access.index[d].dynamic) return false;
      const Affine& index = access.index[d].affine;
      if (!touches(index)) continue;
      if (!holds(index) || !holds(buffer_of(access).shape[d] - Affine(1) - index)) return false;
    }
    return true;
  }

  // Whether all loads stay in bounds and give finite values when `condition` is dropped.
  bool loads_are_safe(const Statement& statement, const Affine& condition) const {
    bool safe = stays_finite(*statement.value);
    for_each_load(statement.value, [&](const Expr& load) {
      safe = safe && in_bounds(statement, load.access, condition);
      if (is_padded_lane(load.access, condition)) {
        safe = safe && defined_.count(buffer_of(load.access).name) > 0;
      }
    });
    return safe;
  }

  bool adds_nothing(const Statement& statement, const Affine& condition) const {
    if (statement.reduction != Reduction::Sum) return false;
    std::vector<const Expr*> factors;
    collect_factors(statement.value, factors);
    return std::any_of(factors.begin(), factors.end(), [&](const Expr* factor) {
      return factor->kind == Expr::Kind::Load && is_fill(*factor, condition);
    });
  }

  // Whether a later statement that adds to the same private buffer needs a condition of its own on the padded
  // lanes. What these lanes hold is then meaningless: a sum in registers adds to all lanes what masked loads
  // give.
  bool is_added_to_in_part(const Statement& first) {
    if (buffer_of(first.write).scope != Scope::Local) return false;
    const std::vector<Affine> asked = asked_;
    bool result = false;
    for (const Statement& statement : kernel_.statements) {
      if (statement.reduction != Reduction::Sum || statement.write.buffer != first.write.buffer) continue;
      asked_ = statement.constraints;
      for (const Affine& condition : statement.constraints) {
        if (!is_padded_lane(statement.write, condition)) continue;
        result = result || !in_bounds(statement, statement.write, condition) ||
                 !loads_are_safe(statement, condition);
      }
    }
    asked_ = asked;
    return result;
  }

  void settle(Statement& statement) {
    const std::string& target = buffer_of(statement.write).name;
    std::vector<Affine> kept;
    bool partial = false;  // padded lanes of the target stay unwritten
    for (size_t i = 0; i < statement.constraints.size(); ++i) {
      const Affine& condition = statement.constraints[i];
      asked_ = kept;
      asked_.insert(asked_.end(), statement.constraints.begin() + static_cast<std::ptrdiff_t>(i),
                    statement.constraints.end());
      const bool own_lane = is_padded_lane(statement.write, condition);
      if (!own_lane) {
        const bool drop = in_bounds(statement, statement.write, condition) &&
                          loads_are_safe(statement, condition) && adds_nothing(statement, condition);
        if (!drop) kept.push_back(condition);
        continue;
      }
      const bool fits = in_bounds(statement, statement.write, condition);
      if (statement.reduction != Reduction::None) {
        const bool drop = fits && defined_.count(target) && loads_are_safe(statement, condition);
        if (!drop) kept.push_back(condition);
      } else if (is_added_to_in_part(statement)) {
        kept.push_back(condition);
        partial = true;
      } else if (!fits || !loads_are_safe(statement, condition)) {
        if (!fits) {
          // The loops run in longer blocks than the buffer has: only instances beyond the buffer's last block
          // are left out.
          const Affine room = *room_in_blocks(statement.write, condition);
          asked_.push_back(room);
          const bool enough = in_bounds(statement, statement.write, condition);
          kept.push_back(enough ? room : condition);
          partial = partial || !enough;
          if (!enough) continue;
        }
        ExprPtr inside = binary(BinaryOp::Ge, index_value(condition), int_constant(DType::I64, 0));
        statement.value = select(inside, statement.value,
                                 is_float(statement.value->dtype) ? constant(statement.value->dtype, 0)
                                                                  : int_constant(statement.value->dtype, 0));
      }
    }
    statement.constraints = kept;
    if (statement.reduction == Reduction::None && !partial) defined_.insert(target);
  }

  Kernel& kernel_;
  const std::vector<BlockedDim>& blocked_;
  std::vector<Affine> asked_;      // conditions of the statement at hand that were not dropped
  std::set<std::string> defined_;  // buffers whose padded lanes hold finite values
};

}  // namespace

void settle_padding(Kernel& kernel, const std::vector<BlockedDim>& blocked) {
  Settler(kernel, blocked).run();
}

}  // namespace tc
