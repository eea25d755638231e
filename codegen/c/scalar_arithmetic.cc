// Scalar functions of generated code: operators and conversions of the loop IR in C.
#include <cmath>

#include "codegen/c/helper_functions.h"
#include "codegen/c/spelling.h"
#include "codegen/backend/c_names.h"
#include "ir/error.h"
#include "ir/narrow_float.h"

namespace tc::c {
namespace {

// A call of the function of math.h for the type.
std::string math(const char* name, DType dtype, const char* arguments = "(a)") {
  return text(name, dtype == DType::F32 ? "f" : "", arguments);
}

// An expression of unsigned numbers, converted to the type.
std::string wrapped(DType dtype, const std::string& expression) {
  return text("(", c_type(dtype), ")(", expression, ")");
}

// The operand as an unsigned number of at least 32 bits, so that C does not promote it to int: products of
// shorter types may overflow int.
std::string wide(DType dtype, const char* name) {
  return text("(", size_of(dtype) < 4 ? "uint32_t" : unsigned_type(dtype), ")", name);
}

std::string float_unary(UnaryOp op, DType dtype) {
  const std::string zero = literal(dtype, 0.0), one = literal(dtype, 1.0);
  switch (op) {
    case UnaryOp::Neg: return "-a";
    case UnaryOp::Abs: return math("fabs", dtype);
    case UnaryOp::Sign: return text("a > ", zero, " ? ", one, " : a < ", zero, " ? -", one, " : a");
    case UnaryOp::Floor: return math("floor", dtype);
    case UnaryOp::Ceil: return math("ceil", dtype);
    case UnaryOp::Round: return math("rint", dtype);
    case UnaryOp::Trunc: return math("trunc", dtype);
    case UnaryOp::Sqrt: return math("sqrt", dtype);
    case UnaryOp::Sigmoid: {
      const std::string e = math("exp", dtype, dtype == DType::F32 ? "(-fabsf(a))" : "(-fabs(a))");
      return text("a >= ", zero, " ? ", one, " / (", one, " + ", e, ") : ", e, " / (", one, " + ", e, ")");
    }
    case UnaryOp::IsNan: return "a != a";
    case UnaryOp::IsInf: return "isinf(a) != 0";
    default: return math(name_of(op), dtype);
  }
}

std::string integer_unary(UnaryOp op, DType dtype) {
  const bool is_bool = dtype == DType::Bool;
  const std::string negated = wrapped(dtype, text("0u - ", wide(dtype, "a")));
  switch (op) {
    case UnaryOp::Neg: return is_bool ? "a" : negated;
    case UnaryOp::Abs: return is_signed(dtype) ? text("a < 0 ? ", negated, " : a") : "a";
    case UnaryOp::Sign:
      return is_bool ? "a" : wrapped(dtype, is_signed(dtype) ? "(a > 0) - (a < 0)" : "a != 0");
    case UnaryOp::Not: return is_bool ? "!a" : wrapped(dtype, "a == 0");
    case UnaryOp::BitNot: return is_bool ? "!a" : wrapped(dtype, "~" + wide(dtype, "a"));
    case UnaryOp::IsNan:
    case UnaryOp::IsInf: return "0 * (a != 0)";
    default: return "a";
  }
}

std::string bool_binary(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Or:
    case BinaryOp::Max: return "a | b";
    case BinaryOp::Mul:
    case BinaryOp::And:
    case BinaryOp::Div:
    case BinaryOp::Min: return "a & b";
    case BinaryOp::Sub:
    case BinaryOp::Xor: return "a ^ b";
    case BinaryOp::Mod:
    case BinaryOp::Fmod: return "0 * (a & b)";
    case BinaryOp::Pow: return "a | !b";
    case BinaryOp::Shl:
    case BinaryOp::Shr: return "a & !b";
    default: fail(ErrorKind::Internal, "internal error: ", name_of(op), " of bool");
  }
}

std::string comparison(BinaryOp op) {
  switch (op) {
    case BinaryOp::Eq: return "a == b";
    case BinaryOp::Ne: return "a != b";
    case BinaryOp::Lt: return "a < b";
    case BinaryOp::Le: return "a <= b";
    case BinaryOp::Gt: return "a > b";
    default: return "a >= b";
  }
}

std::string float_binary(BinaryOp op, DType dtype) {
  switch (op) {
    case BinaryOp::Add: return "a + b";
    case BinaryOp::Sub: return "a - b";
    case BinaryOp::Mul: return "a * b";
    case BinaryOp::Div: return "a / b";
    case BinaryOp::Max: return "a > b || a != a ? a : b";
    case BinaryOp::Min: return "a < b || a != a ? a : b";
    case BinaryOp::Fmod: return math("fmod", dtype, "(a, b)");
    case BinaryOp::Pow: return math("pow", dtype, "(a, b)");
    case BinaryOp::Atan2: return math("atan2", dtype, "(a, b)");
    case BinaryOp::Mod: {
      const std::string rest = math("fmod", dtype, "(a, b)"), zero = literal(dtype, 0.0);
      return text(rest, " == ", zero, " ? ", math("copysign", dtype, text("(", zero, ", b)").c_str()), " : (",
                  rest, " < ", zero, ") != (b < ", zero, ") ? ", rest, " + b : ", rest);
    }
    default: fail(ErrorKind::Internal, "internal error: ", name_of(op), " of ", name_of(dtype));
  }
}

std::string integer_binary(BinaryOp op, DType dtype) {
  const std::string a = wide(dtype, "a"), b = wide(dtype, "b"), zero = wrapped(dtype, "0");
  const bool is_s = is_signed(dtype);
  const auto both = [&](const char* sign) { return wrapped(dtype, a + sign + b); };
  const std::string quotient = is_s ? text("b == 0 ? ", zero, " : b == -1 ? ", wrapped(dtype, "0u - " + a),
                                           " : ", wrapped(dtype, "a / b"))
                                    : text("b == 0 ? ", zero, " : ", wrapped(dtype, "a / b"));
  const std::string rest = is_s ? text("(b == 0 || b == -1 ? ", zero, " : ", wrapped(dtype, "a % b"), ")")
                                : text("(b == 0 ? ", zero, " : ", wrapped(dtype, "a % b"), ")");
  const std::string is_small = text("(", unsigned_type(dtype), ")b < ", 8 * size_of(dtype), "u");
  switch (op) {
    case BinaryOp::Add: return both(" + ");
    case BinaryOp::Sub: return both(" - ");
    case BinaryOp::Mul: return both(" * ");
    case BinaryOp::And: return both(" & ");
    case BinaryOp::Or: return both(" | ");
    case BinaryOp::Xor: return both(" ^ ");
    case BinaryOp::Max: return "a < b ? b : a";
    case BinaryOp::Min: return "a < b ? a : b";
    case BinaryOp::Div: return quotient;
    case BinaryOp::Fmod: return rest;
    case BinaryOp::Mod:
      return is_s ? text(rest, " != 0 && (", rest, " < 0) != (b < 0) ? ", wrapped(dtype, rest + " + b"),
                         " : ", rest)
                  : rest;
    case BinaryOp::Shl:
      return text(is_small, " ? ", wrapped(dtype, a + " << (b & " + text(8 * size_of(dtype) - 1) + ")"),
                  " : ", zero);
    case BinaryOp::Shr:
      return text(is_small, " ? ", wrapped(dtype, "a >> (b & " + text(8 * size_of(dtype) - 1) + ")"), " : ",
                  zero);
    default: fail(ErrorKind::Internal, "internal error: ", name_of(op), " of ", name_of(dtype));
  }
}

// Truncates and saturates; NaN gives 0.
std::string float_to_integer(DType from, DType to) {
  const int bits = static_cast<int>(bits_of(to)), digits = is_signed(to) ? bits - 1 : bits;
  const std::string limit = literal(from, std::ldexp(1.0, digits)),
                    low = literal(from, is_signed(to) ? -std::ldexp(1.0, digits) : 0.0);
  const DType whole = size_of(to) == 1 ? (is_signed(to) ? DType::I8 : DType::U8) : to;
  const auto number = [&](int64_t value) { return text("(", c_type(to), ")", literal(whole, value)); };
  const int64_t largest = digits >= 64 ? -1 : digits == 63 ? INT64_MAX : (int64_t{1} << digits) - 1;
  const int64_t least = is_signed(to) ? -largest - 1 : 0;
  return text("a != a ? ", number(0), " : a >= ", limit, " ? ", number(largest), " : a < ", low, " ? ",
              number(least), " : (", c_type(to), ")a");
}

// Converts to an integer type of 2 or 4 bits, modulo its range.
std::string shortened(DType to) {
  const int64_t bits = bits_of(to), all = (int64_t{1} << bits) - 1, sign = int64_t{1} << (bits - 1);
  return is_signed(to) ? text("(int8_t)((((int)a & ", all, ") ^ ", sign, ") - ", sign, ")")
                       : text("(uint8_t)((unsigned)a & ", all, "u)");
}

const char* const kRoundToFormat = R"(
/* The bits of a magnitude in a format with so many bits of mantissa and this least normal exponent, rounded
 * to nearest even. */
TC_FUNCTION uint32_t tc_format_bits(double a, int mantissa, int lowest) {
  int exponent = 0;
  (void)frexp(a, &exponent);
  exponent = exponent - 1 > lowest && a != 0.0 ? exponent - 1 : lowest;
  return ((uint32_t)(exponent - lowest) << mantissa) + (uint32_t)rint(ldexp(a, mantissa - exponent));
}
)";

// The encoder of f16, bf16, and floats of 8 and 4 bits except f8e8m0.
std::string encoder(DType to, const std::string& name) {
  int mantissa, lowest, sign, nan, overflow;
  uint32_t largest;
  bool has_negative_zero = true;
  if (to == DType::F16) {
    mantissa = 10, lowest = -14, sign = 0x8000, nan = 0x7e00, overflow = 0x7c00, largest = 0x7bff;
  } else if (to == DType::BF16) {
    mantissa = 7, lowest = -126, sign = 0x8000, nan = 0x7fc0, overflow = 0x7f80, largest = 0x7f7f;
  } else {
    const NarrowFloat format = narrow_float(to);
    mantissa = format.mantissa_bits, lowest = 1 - format.bias, sign = format.sign(), nan = format.nan(),
    overflow = format.overflow();
    largest = format.largest();
    has_negative_zero = format.special != NarrowFloat::Special::ZeroIsNan;
  }
  const std::string type = c_type(to);
  std::string signed_bits = text("signbit(a) ? bits | ", sign, "u : bits");
  if (!has_negative_zero)
    signed_bits = text("signbit(a) && bits != 0u && bits != ", nan, "u ? bits | ", sign, "u : bits");
  return text("TC_FUNCTION ", type, " ", name, "(double a) {\n  uint32_t bits = ", overflow,
              "u;\n  if (a != a) {\n    return ", nan, "u;\n  }\n  if (!isinf(a) && fabs(a) < ",
              literal(DType::F64, std::ldexp(2.0, is_narrow_float(to) ? 20 : 127)),
              ") {\n    bits = tc_format_bits(fabs(a), ", mantissa, ", ", lowest, ");\n    bits = bits > ",
              largest, "u ? ", overflow, "u : bits;\n  }\n  return (", type, ")(", signed_bits, ");\n}\n");
}

const char* const kExponentEncoder = R"({
  int exponent = 0;
  double fraction = 0.0;
  if (a != a || isinf(a)) {
    return 255u;
  }
  fraction = frexp(fabs(a), &exponent);
  exponent += fraction >= 0.75 ? 127 : 126;
  return (uint8_t)(a == 0.0 || exponent < 0 ? 0 : exponent > 255 ? 255 : exponent);
}
)";

const char* const kHalfDecoder = R"(
TC_FUNCTION float tc_f16_value(uint16_t a) {
  const uint32_t magnitude = a & 0x7fffu, sign = (uint32_t)(a & 0x8000u) << 16;
  uint32_t bits = magnitude >= 0x7c00u ? (magnitude << 13) + 0x70000000u : (magnitude << 13) + 0x38000000u;
  float value = 0.0f;
  if (magnitude < 0x400u) {
    value = (float)magnitude * 5.9604644775390625e-8f; /* 2^-24: a subnormal number */
    memcpy(&bits, &value, sizeof bits);
  }
  bits |= sign;
  memcpy(&value, &bits, sizeof value);
  return value;
}
)";

const char* const kBfloatDecoder = R"(
TC_FUNCTION float tc_bf16_value(uint16_t a) {
  const uint32_t bits = (uint32_t)a << 16;
  float value = 0.0f;
  memcpy(&value, &bits, sizeof value);
  return value;
}
)";

const char* const kIntegerPower = R"( {
  UNSIGNED result = 1u, square = (UNSIGNED)a, left = (UNSIGNED)b;
  NEGATIVE
  while (left != 0u) {
    result = (UNSIGNED)((left & 1u) != 0u ? result * square : result);
    square = (UNSIGNED)(square * square);
    left = (UNSIGNED)(left >> 1);
  }
  return (TYPE)result;
}
)";

std::string replaced(std::string where, const std::string& what, const std::string& by) {
  for (size_t at = where.find(what); at != std::string::npos; at = where.find(what, at + by.size()))
    where.replace(at, what.size(), by);
  return where;
}

std::string integer_power(DType dtype, const std::string& name) {
  const std::string type = c_type(dtype);
  const char* negative =
      !is_signed(dtype)
          ? ""
          : "if (b < 0) {\n    return (TYPE)(a == 1 ? 1 : a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0);\n  }";
  std::string body = replaced(kIntegerPower, "NEGATIVE", negative);
  // Products of 8 or 16 bits are computed in uint32_t, which wraps.
  body = replaced(replaced(body, "UNSIGNED", size_of(dtype) < 4 ? "uint32_t" : unsigned_type(dtype)), "TYPE",
                  type);
  return text("TC_FUNCTION ", type, " ", name, "(", type, " a, ", type, " b)", body);
}

}  // namespace

std::string scalar_expression(UnaryOp op, DType dtype) {
  return is_float(dtype) ? float_unary(op, dtype) : integer_unary(op, dtype);
}

std::string scalar_expression(BinaryOp op, DType dtype) {
  if (op >= BinaryOp::Eq && op <= BinaryOp::Ge) return comparison(op);
  if (dtype == DType::Bool) return bool_binary(op);
  return is_float(dtype) ? float_binary(op, dtype) : integer_binary(op, dtype);
}

std::string cast_expression(DType from, DType to) {
  if (is_integer(to) && is_float(from)) return bits_of(to) < 8 ? "" : float_to_integer(from, to);
  if (is_integer(to) && bits_of(to) < 8) return shortened(to);
  return text("(", c_type(to), ")a");
}

std::string Functions::scalar(UnaryOp op, DType dtype) {
  const std::string name = text("tc_", name_of(dtype), "_", name_of(op));
  if (!begins(name)) return name;
  const bool predicate = op == UnaryOp::IsNan || op == UnaryOp::IsInf;
  define(text("TC_FUNCTION ", value_type(predicate ? DType::Bool : dtype), " ", name, "(", value_type(dtype),
              " a) { return ", scalar_expression(op, dtype), "; }\n"));
  return name;
}

std::string Functions::scalar(BinaryOp op, DType dtype) {
  const std::string name = text("tc_", name_of(dtype), "_", name_of(op));
  if (!begins(name)) return name;
  if (op == BinaryOp::Pow && is_integer(dtype)) {
    define(integer_power(dtype, name));
    return name;
  }
  const bool predicate = op >= BinaryOp::Eq && op <= BinaryOp::Ge;
  const std::string type = value_type(dtype);
  define(text("TC_FUNCTION ", value_type(predicate ? DType::Bool : dtype), " ", name, "(", type, " a, ", type,
              " b) { return ", scalar_expression(op, dtype), "; }\n"));
  return name;
}

std::string Functions::encode(DType to) {
  const std::string name = text("tc_", name_of(to), "_bits");
  if (!begins(name)) return name;
  if (to == DType::F8E8M0) {
    define(text("TC_FUNCTION uint8_t ", name, "(double a) ", kExponentEncoder));
    return name;
  }
  if (begins("tc_format_bits")) define(kRoundToFormat);
  define(encoder(to, name));
  return name;
}

std::string Functions::decode(DType from) {
  const std::string name = text("tc_", name_of(from), "_value");
  if (!begins(name)) return name;
  if (from == DType::F16 || from == DType::BF16) {
    define(from == DType::F16 ? kHalfDecoder : kBfloatDecoder);
    return name;
  }
  constexpr int kCount = 256, kInLine = 8;
  std::string table = text("static const float ", name, "s[", kCount, "] = {");
  for (int i = 0; i < kCount; ++i) {
    const double value = narrow_to_double(from, static_cast<uint8_t>(i & (from == DType::F4E2M1 ? 15 : 255)));
    table += text(i % kInLine == 0 ? "\n  " : " ", literal(DType::F32, value), ",");
  }
  define(text(table, "\n};\nTC_FUNCTION float ", name, "(uint8_t a) { return ", name, "s[a]; }\n"));
  return name;
}

std::string Functions::scalar_cast(DType from, DType to) {
  const std::string name = text("tc_", name_of(to), "_from_", name_of(from));
  if (!begins(name)) return name;
  const auto is_coded = [](DType dtype) { return is_float(dtype) && is_storage(dtype); };
  std::string a = "a";
  DType type = from;
  if (is_coded(from)) {
    a = decode(from) + "(a)";
    type = DType::F32;
  }
  std::string result;
  if (is_coded(to)) {
    result = text(encode(to), "((double)", a, ")");
  } else if (to == DType::Bool) {
    result = a + " != 0";
  } else if (is_integer(to) && is_float(type)) {
    if (bits_of(to) >= 8 && a == "a") {
      result = cast_expression(type, to);
    } else if (bits_of(to) < 8) {
      // Saturated to the short type, which a byte holds.
      const std::string bounds = float_to_integer(type, to);
      result = a == "a" ? bounds : text(scalar_cast(DType::F32, to), "(", a, ")");
    } else {
      result = text(scalar_cast(DType::F32, to), "(", a, ")");
    }
  } else {
    result = a == "a" ? cast_expression(type, to) : text("(", c_type(to), ")", a);
  }
  define(text("TC_FUNCTION ", value_type(to), " ", name, "(", value_type(from), " a) { return ", result,
              "; }\n"));
  return name;
}

}  // namespace tc::c
