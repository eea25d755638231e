// Questions about statements that all parts of the scheduler ask.
#include "scheduler/core/statements.h"

#include <algorithm>

namespace tc {

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += " " + name;
  return result;
}

std::string outer_part(const Affine& affine) {
  for (const auto& [name, coefficient] : affine.terms()) {
    if (coefficient == 1) return name;
  }
  return "";
}

int64_t extent_or(const Statement& statement, const std::string& iterator, int64_t fallback) {
  const Affine& extent = iterator_extent(statement, iterator);
  return extent.is_constant() ? extent.constant() : fallback;
}

bool same_access(const Access& a, const Access& b) {
  if (a.buffer != b.buffer || a.index.size() != b.index.size()) return false;
  for (size_t d = 0; d < a.index.size(); ++d) {
    if (a.index[d].affine != b.index[d].affine || a.index[d].dynamic != b.index[d].dynamic) return false;
  }
  return true;
}

std::vector<Access> loads_of(const Statement& statement) {
  std::vector<Access> result;
  for_each_load(statement.value, [&](const Expr& load) {
    const bool known = std::any_of(result.begin(), result.end(),
                                   [&](const Access& other) { return same_access(other, load.access); });
    if (!known) result.push_back(load.access);
  });
  return result;
}

bool continues_itself(const Statement& statement) {
  const std::vector<Access> loads = loads_of(statement);
  return statement.reduction == Reduction::None &&
         std::any_of(loads.begin(), loads.end(),
                     [&](const Access& load) { return load.buffer == statement.write.buffer; });
}

int weight_of(const ExprPtr& expr) {
  int weight = 1;
  if (expr->kind == Expr::Kind::Unary) {
    switch (expr->unary) {
      case UnaryOp::Neg:
      case UnaryOp::Abs:
      case UnaryOp::Not:
      case UnaryOp::Floor:
      case UnaryOp::Ceil:
      case UnaryOp::Round:
      case UnaryOp::Trunc: break;
      case UnaryOp::Sqrt: weight = 4; break;
      default: weight = 20;
    }
  }
  if (expr->kind == Expr::Kind::Binary) {
    if (expr->binary == BinaryOp::Pow) weight = 60;
    if (expr->binary == BinaryOp::Div) weight = 4;
    if (expr->binary == BinaryOp::Mod || expr->binary == BinaryOp::Fmod || expr->binary == BinaryOp::Atan2)
      weight = 40;
  }
  for (const ExprPtr& operand : expr->operands) weight += weight_of(operand);
  return weight;
}

}  // namespace tc
