#include "codegen/llvm/emit/requantise_pattern.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace tc {
namespace {

// The value of a constant of an integer or float type, if it is a whole number.
std::optional<int64_t> whole_constant(const Expr& expr) {
  if (expr.kind == Expr::Kind::Cast && expr.operands[0]->kind == Expr::Kind::Const &&
      !is_storage(expr.operands[0]->dtype)) {
    return is_integer(expr.operands[0]->dtype) ? whole_constant(*expr.operands[0]) : std::nullopt;
  }
  constexpr double kMost = 1 << 15;
  if (expr.kind != Expr::Kind::Const || is_storage(expr.dtype)) return std::nullopt;
  const double number = is_float(expr.dtype) ? expr.number : static_cast<double>(expr.integer);
  if (!(std::fabs(number) < kMost) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

// A bound of the magnitude of an f32 expression of integers and finite constants; infinity where the value
// may be infinite, nothing where it may be NaN, as far as is known.
std::optional<double> magnitude(const Kernel& kernel, const Expr& expr) {
  constexpr double kLargest = std::numeric_limits<float>::max(),
                   kInfinity = std::numeric_limits<double>::infinity();
  const auto bounded = [&](double bound) { return bound <= kLargest ? bound : kInfinity; };
  const auto of = [&](size_t operand) { return magnitude(kernel, *expr.operands[operand]); };
  switch (expr.kind) {
    case Expr::Kind::Const:
      return is_float(expr.dtype) && std::isfinite(expr.number) ? std::optional(std::fabs(expr.number))
                                                                : std::nullopt;
    case Expr::Kind::Load:
      return kernel.buffers[static_cast<size_t>(expr.access.buffer)].scope == Scope::Constant &&
                     expr.dtype == DType::F32
                 ? std::optional(kLargest)
                 : std::nullopt;
    case Expr::Kind::Cast: {
      const DType from = expr.operands[0]->dtype;
      return expr.dtype == DType::F32 && is_integer(from)
                 ? std::optional(std::ldexp(1.0, static_cast<int>(bits_of(from))))
                 : std::nullopt;
    }
    case Expr::Kind::Unary: {
      const auto operand = expr.unary == UnaryOp::Round ? of(0) : std::nullopt;
      return operand ? std::optional(*operand + 1) : std::nullopt;
    }
    case Expr::Kind::Binary: break;
    default: return std::nullopt;
  }
  const auto a = of(0), b = of(1);
  if (!a || !b) return std::nullopt;
  const bool infinite = *a == kInfinity || *b == kInfinity;
  switch (expr.binary) {
    case BinaryOp::Mul: return infinite ? std::nullopt : std::optional(bounded(*a * *b));
    case BinaryOp::Add:
    case BinaryOp::Sub:
      return *a == kInfinity && *b == kInfinity ? std::nullopt : std::optional(bounded(*a + *b));
    case BinaryOp::Max:
    case BinaryOp::Min: {
      if (!is_bounded_float(expr)) return std::max(*a, *b);
      return static_cast<double>(std::max(std::abs(*whole_constant(*expr.operands[0]->operands[1])),
                                          std::abs(*whole_constant(*expr.operands[1]))));
    }
    default: return std::nullopt;
  }
}

// Bounds of an i32, as far as constants that clamp it or are added tell; nothing where none does, or a sum
// may overflow.
std::optional<std::pair<int64_t, int64_t>> ends_of(const Expr& expr) {
  constexpr int64_t kLeast = std::numeric_limits<int32_t>::min(), kMost = std::numeric_limits<int32_t>::max();
  if (expr.kind != Expr::Kind::Binary || expr.dtype != DType::I32) return std::nullopt;
  const auto number = whole_constant(*expr.operands[1]);
  if (!number) return std::nullopt;
  const auto inside = ends_of(*expr.operands[0]);
  auto [low, high] = inside.value_or(std::pair(kLeast, kMost));
  switch (expr.binary) {
    case BinaryOp::Max: low = std::max(low, *number), high = std::max(high, *number); break;
    case BinaryOp::Min: low = std::min(low, *number), high = std::min(high, *number); break;
    case BinaryOp::Add: low += *number, high += *number; break;
    default: return std::nullopt;
  }
  if (low < kLeast || high > kMost) return std::nullopt;
  return std::pair(low, high);
}

// Strips additions of constants, and clamps, from an expression, from the outside in.
class ByteForm {
 public:
  explicit ByteForm(RoundedByte& result) : result_(result) {}

  bool match(const Expr& cast) {
    ExprPtr expr = cast.operands[0];
    bool may_add = true;
    // The conversion of a float saturates; that of an integer keeps the low bits.
    const bool saturates = expr->dtype == DType::F32;
    if (saturates) {
      low_ = least();
      high_ = most();
    }
    if (expr->dtype == DType::I32) {
      while (const auto inside = peeled(*expr, may_add)) expr = *inside;
      if (expr->kind != Expr::Kind::Cast || expr->operands[0]->dtype != DType::F32) return false;
      expr = expr->operands[0];
      result_.of_nan = result_.added;
      may_add = false;  // additions both before and after the conversion are left to the general code
    }
    if (expr->dtype != DType::F32) return false;
    while (const auto inside = peeled(*expr, may_add)) expr = *inside;
    if (expr->kind != Expr::Kind::Unary || expr->unary != UnaryOp::Round) return false;
    expr = expr->operands[0];
    while (const auto inside = peeled(*expr, false)) expr = *inside;
    if (low_ > high_ || low_ < least() || high_ > most()) return false;
    result_.number = expr;
    result_.low = low_;
    result_.high = high_;
    return true;
  }

 private:
  int64_t least() const { return is_signed(result_.type) ? std::numeric_limits<int8_t>::min() : 0; }
  int64_t most() const {
    return is_signed(result_.type) ? std::numeric_limits<int8_t>::max() : std::numeric_limits<uint8_t>::max();
  }

  // The operand of an addition of a constant, or of a clamp; nothing for other expressions.
  std::optional<ExprPtr> peeled(const Expr& expr, bool may_add) {
    if (expr.kind != Expr::Kind::Binary) return std::nullopt;
    const bool adds = expr.binary == BinaryOp::Add && may_add;
    if (!adds && expr.binary != BinaryOp::Max && expr.binary != BinaryOp::Min) return std::nullopt;
    for (const size_t side : {size_t{1}, size_t{0}}) {
      const auto number = whole_constant(*expr.operands[side]);
      if (!number) continue;
      if (adds) result_.added += *number;
      else if (!cut(expr.binary, *number + result_.added)) return std::nullopt;
      return expr.operands[1 - side];
    }
    return std::nullopt;
  }

  // Applies a clamp to the bounds; false where they would cross, so that the order of the clamps matters.
  bool cut(BinaryOp how, int64_t end) {
    if (how == BinaryOp::Max) low_ = std::max(low_, end);
    if (how == BinaryOp::Min) high_ = std::min(high_, end);
    return low_ <= high_;
  }

  RoundedByte& result_;
  int64_t low_ = std::numeric_limits<int64_t>::min(), high_ = std::numeric_limits<int64_t>::max();
};

}  // namespace

std::optional<RoundedByte> rounded_byte(const Kernel& kernel, const Expr& expr) {
  if (expr.kind != Expr::Kind::Cast || (expr.dtype != DType::U8 && expr.dtype != DType::I8))
    return std::nullopt;
  RoundedByte result;
  result.type = expr.dtype;
  if (!ByteForm(result).match(expr)) return std::nullopt;
  result.may_be_nan = !magnitude(kernel, *result.number).has_value();
  return result;
}

bool keeps_number(const Expr& cast) {
  if (cast.kind != Expr::Kind::Cast || (cast.dtype != DType::U8 && cast.dtype != DType::I8)) return false;
  const auto ends = ends_of(*cast.operands[0]);
  const int64_t least = cast.dtype == DType::I8 ? std::numeric_limits<int8_t>::min() : 0;
  return ends && ends->first >= least && ends->second <= least + std::numeric_limits<uint8_t>::max();
}

bool is_bounded_float(const Expr& expr) {
  if (expr.kind != Expr::Kind::Binary || (expr.binary != BinaryOp::Max && expr.binary != BinaryOp::Min) ||
      expr.dtype != DType::F32)
    return false;
  const bool number = whole_constant(*expr.operands[1]).has_value();
  if (!number) return false;
  const Expr& inner = *expr.operands[0];
  return inner.kind == Expr::Kind::Binary &&
         inner.binary == (expr.binary == BinaryOp::Max ? BinaryOp::Min : BinaryOp::Max) &&
         whole_constant(*inner.operands[1]).has_value();
}

}  // namespace tc
