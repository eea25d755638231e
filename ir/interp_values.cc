// Arithmetic of the interpreters: every operator of the loop IR on double and wrapped integers.
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/interp_engine.h"

namespace tc::interp {
namespace {

Cell number(double value) { return {.number = value}; }
Cell integer(int64_t value) { return {.integer = value}; }

uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }

double float_mod(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0) return std::copysign(0.0, b);
  return (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double larger(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : a < b ? b : a; }
double smaller(double a, double b) { return std::isnan(a) || std::isnan(b) ? NAN : b < a ? b : a; }

double sigmoid(double x) {
  // exp of a negative number only, so that neither side overflows.
  double e = std::exp(-std::fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

double float_unary(UnaryOp op, double x) {
  switch (op) {
    case UnaryOp::Neg: return -x;
    case UnaryOp::Abs: return std::fabs(x);
    case UnaryOp::Sign: return x > 0 ? 1 : x < 0 ? -1 : x;
    case UnaryOp::Floor: return std::floor(x);
    case UnaryOp::Ceil: return std::ceil(x);
    case UnaryOp::Round: return std::nearbyint(x);
    case UnaryOp::Trunc: return std::trunc(x);
    case UnaryOp::Sqrt: return std::sqrt(x);
    case UnaryOp::Exp: return std::exp(x);
    case UnaryOp::Log: return std::log(x);
    case UnaryOp::Sin: return std::sin(x);
    case UnaryOp::Cos: return std::cos(x);
    case UnaryOp::Tan: return std::tan(x);
    case UnaryOp::Asin: return std::asin(x);
    case UnaryOp::Acos: return std::acos(x);
    case UnaryOp::Atan: return std::atan(x);
    case UnaryOp::Sinh: return std::sinh(x);
    case UnaryOp::Cosh: return std::cosh(x);
    case UnaryOp::Tanh: return std::tanh(x);
    case UnaryOp::Asinh: return std::asinh(x);
    case UnaryOp::Acosh: return std::acosh(x);
    case UnaryOp::Atanh: return std::atanh(x);
    case UnaryOp::Erf: return std::erf(x);
    case UnaryOp::Sigmoid: return sigmoid(x);
    case UnaryOp::Log1p: return std::log1p(x);
    default: fail(ErrorKind::Internal, "operator ", name_of(op), " has no meaning for floats");
  }
}

int64_t integer_unary(UnaryOp op, DType dtype, int64_t x) {
  bool negative = x < 0 && is_signed(dtype);
  switch (op) {
    case UnaryOp::Neg: return static_cast<int64_t>(0 - bits(x));
    case UnaryOp::Abs: return negative ? static_cast<int64_t>(0 - bits(x)) : x;
    case UnaryOp::Sign: return negative ? -1 : x != 0;
    case UnaryOp::Floor:
    case UnaryOp::Ceil:
    case UnaryOp::Round:
    case UnaryOp::Trunc: return x;
    case UnaryOp::Not: return x == 0;
    case UnaryOp::BitNot: return dtype == DType::Bool ? x == 0 : ~x;
    default: fail(ErrorKind::Internal, "operator ", name_of(op), " has no meaning for integers");
  }
}

double float_binary(BinaryOp op, double a, double b) {
  switch (op) {
    case BinaryOp::Add: return a + b;
    case BinaryOp::Sub: return a - b;
    case BinaryOp::Mul: return a * b;
    case BinaryOp::Div: return a / b;
    case BinaryOp::Mod: return float_mod(a, b);
    case BinaryOp::Fmod: return std::fmod(a, b);
    case BinaryOp::Pow: return std::pow(a, b);
    case BinaryOp::Max: return larger(a, b);
    case BinaryOp::Min: return smaller(a, b);
    case BinaryOp::Atan2: return std::atan2(a, b);
    default: fail(ErrorKind::Internal, "operator ", name_of(op), " has no meaning for floats");
  }
}

template <class T>
bool compare(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::Eq: return a == b;
    case BinaryOp::Ne: return a != b;
    case BinaryOp::Lt: return a < b;
    case BinaryOp::Le: return a <= b;
    case BinaryOp::Gt: return a > b;
    default: return a >= b;
  }
}

// Division that truncates; by zero it gives 0 and no remainder.
void divide(DType dtype, int64_t a, int64_t b, int64_t* quotient, int64_t* remainder) {
  *quotient = *remainder = 0;
  if (b == 0) return;
  if (!is_signed(dtype)) {
    *quotient = static_cast<int64_t>(bits(a) / bits(b));
    *remainder = static_cast<int64_t>(bits(a) % bits(b));
  } else if (b == -1) {
    *quotient = static_cast<int64_t>(0 - bits(a));
  } else {
    *quotient = a / b;
    *remainder = a % b;
  }
}

// Wrapping power; a negative exponent gives the truncated reciprocal (0 for a base of 0).
int64_t integer_power(DType dtype, int64_t base, int64_t exponent) {
  if (exponent < 0 && is_signed(dtype)) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 ? -1 : 1;
    return 0;
  }
  uint64_t result = 1, square = bits(base);
  for (uint64_t left = bits(exponent); left != 0; left >>= 1) {
    if (left & 1) result *= square;
    square *= square;
  }
  return static_cast<int64_t>(result);
}

int64_t integer_binary(BinaryOp op, DType dtype, int64_t a, int64_t b) {
  bool is_unsigned = !is_signed(dtype);
  bool a_less = is_unsigned ? bits(a) < bits(b) : a < b;
  uint64_t width = static_cast<uint64_t>(bits_of(dtype));
  int64_t quotient, remainder;
  switch (op) {
    case BinaryOp::Add: return static_cast<int64_t>(bits(a) + bits(b));
    case BinaryOp::Sub: return static_cast<int64_t>(bits(a) - bits(b));
    case BinaryOp::Mul: return static_cast<int64_t>(bits(a) * bits(b));
    case BinaryOp::Div: divide(dtype, a, b, &quotient, &remainder); return quotient;
    case BinaryOp::Fmod: divide(dtype, a, b, &quotient, &remainder); return remainder;
    case BinaryOp::Mod:
      divide(dtype, a, b, &quotient, &remainder);
      return remainder != 0 && !is_unsigned && (remainder < 0) != (b < 0) ? remainder + b : remainder;
    case BinaryOp::Pow: return integer_power(dtype, a, b);
    case BinaryOp::Max: return a_less ? b : a;
    case BinaryOp::Min: return a_less ? a : b;
    case BinaryOp::And: return a & b;
    case BinaryOp::Or: return a | b;
    case BinaryOp::Xor: return a ^ b;
    case BinaryOp::Shl: return bits(b) >= width ? 0 : static_cast<int64_t>(bits(a) << b);
    case BinaryOp::Shr:
      if (bits(b) >= width) return 0;
      return is_unsigned ? static_cast<int64_t>(bits(a) >> b) : a >> b;
    default: fail(ErrorKind::Internal, "operator ", name_of(op), " has no meaning for integers");
  }
}

// Truncates and saturates to the type's range; NaN gives 0.
int64_t saturated(DType dtype, double value) {
  if (std::isnan(value)) return 0;
  int width = static_cast<int>(bits_of(dtype));
  double limit = std::ldexp(1.0, is_signed(dtype) ? width - 1 : width);  // first value beyond
  double truncated = std::trunc(value);
  if (truncated >= limit) {
    return static_cast<int64_t>(~uint64_t{0} >> (64 - width + (is_signed(dtype) ? 1 : 0)));
  }
  if (!is_signed(dtype)) {
    return truncated <= 0 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(truncated));
  }
  return truncated < -limit ? static_cast<int64_t>(-limit) : static_cast<int64_t>(truncated);
}

}  // namespace

Cell apply(UnaryOp op, DType dtype, Cell a) {
  bool floating = is_float(dtype);
  if (op == UnaryOp::IsNan) return integer(floating && std::isnan(a.number));
  if (op == UnaryOp::IsInf) return integer(floating && std::isinf(a.number));
  if (floating) return number(float_unary(op, a.number));
  return integer(wrapped_to(dtype, integer_unary(op, dtype, a.integer)));
}

Cell apply(BinaryOp op, DType dtype, Cell a, Cell b) {
  if (op >= BinaryOp::Eq && op <= BinaryOp::Ge) {
    if (is_float(dtype)) return integer(compare(op, a.number, b.number));
    if (dtype == DType::U64) return integer(compare(op, bits(a.integer), bits(b.integer)));
    return integer(compare(op, a.integer, b.integer));
  }
  if (is_float(dtype)) return number(float_binary(op, a.number, b.number));
  return integer(wrapped_to(dtype, integer_binary(op, dtype, a.integer, b.integer)));
}

Cell apply(Reduction reduction, DType dtype, Cell a, Cell b) {
  switch (reduction) {
    case Reduction::None: return b;
    case Reduction::Sum: return apply(BinaryOp::Add, dtype, a, b);
    case Reduction::Product: return apply(BinaryOp::Mul, dtype, a, b);
    case Reduction::Max: return apply(BinaryOp::Max, dtype, a, b);
    case Reduction::Min: return apply(BinaryOp::Min, dtype, a, b);
    case Reduction::And: return apply(BinaryOp::And, dtype, a, b);
    case Reduction::Or: return apply(BinaryOp::Or, dtype, a, b);
    case Reduction::MaxNumber:
      if (is_float(dtype) && std::isnan(b.number)) return a;
      return apply(BinaryOp::Max, dtype, a, b);
  }
  return b;
}

Cell convert(DType from, DType to, Cell a, bool round) {
  if (is_float(to)) {
    double value = is_float(from)       ? a.number
                   : from == DType::U64 ? static_cast<double>(bits(a.integer))
                                        : static_cast<double>(a.integer);
    // Casts to storage types always round: the rounding is part of their meaning.
    return number(round || is_storage(to) ? rounded_to(to, value) : value);
  }
  if (to == DType::Bool) return integer(is_float(from) ? a.number != 0 : a.integer != 0);
  return integer(is_float(from) ? saturated(to, a.number) : wrapped_to(to, a.integer));
}

}  // namespace tc::interp
