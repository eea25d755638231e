// Matchers of expressions of the loop IR: integers of 32 bits that are bytes, or are made of bytes by bitwise
// operations.
#pragma once

#include <optional>

#include "ir/loop.h"

namespace tc {

// The load, if the expression is a loaded byte as an integer of 32 bits; else null.
inline const Expr* loaded_byte(const ExprPtr& expr) {
  if (expr->kind != Expr::Kind::Cast || expr->dtype != DType::I32) return nullptr;
  const Expr* load = expr->operands[0].get();
  const bool byte = load->kind == Expr::Kind::Load && (load->dtype == DType::I8 || load->dtype == DType::U8);
  return byte ? load : nullptr;
}

inline bool is_binary(const ExprPtr& expr, BinaryOp op) {
  return expr->kind == Expr::Kind::Binary && expr->binary == op;
}

// A constant of 0 to 255.
inline std::optional<int64_t> constant_byte(const ExprPtr& expr) {
  const bool fits =
      expr->kind == Expr::Kind::Const && !is_float(expr->dtype) && expr->integer >= 0 && expr->integer <= 255;
  return fits ? std::optional(expr->integer) : std::nullopt;
}

}  // namespace tc
