// Words of C.
#include "codegen/c/spelling.h"

#include <cmath>
#include <cstdio>
#include <limits>

#include "codegen/backend/c_names.h"
#include "ir/error.h"
#include "ir/narrow_float.h"
#include "ir/tensor.h"

namespace tc {

namespace c {

std::string value_type(DType dtype) { return dtype == DType::Bool ? "int" : c_type(dtype); }

std::string unsigned_type(DType dtype) { return text("uint", 8 * size_of(dtype), "_t"); }

bool has_vectors(int lanes) { return lanes > 1 && (lanes & (lanes - 1)) == 0; }

std::string vector_type(DType dtype, int lanes) {
  if (lanes == 1) return value_type(dtype);
  return text("tc_", dtype == DType::Bool ? "mask" : name_of(dtype), "x", lanes);
}

std::string literal(DType dtype, double value) {
  if (dtype == DType::F16) return text(double_to_half(value), "u");
  if (dtype == DType::BF16) return text(float_to_bfloat(static_cast<float>(value)), "u");
  if (is_narrow_float(dtype)) return text(static_cast<int>(double_to_narrow(dtype, value)), "u");
  const bool single = dtype == DType::F32;
  if (single) value = static_cast<float>(value);
  if (std::isnan(value)) return single ? "NAN" : "(double)NAN";
  if (std::isinf(value)) return value < 0 ? "(-INFINITY)" : "INFINITY";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, single ? "%.9g" : "%.17g", value);
  std::string result = buffer;
  if (result.find_first_of(".e") == std::string::npos) result += ".0";
  if (single) result += "f";
  return std::signbit(value) ? "(" + result + ")" : result;
}

std::string literal(DType dtype, int64_t value) {
  if (dtype == DType::Bool) return value != 0 ? "1" : "0";
  if (dtype == DType::U64) return text("UINT64_C(", static_cast<uint64_t>(value), ")");
  if (dtype == DType::U32) return text(static_cast<uint32_t>(value), "u");
  value = wrapped_to(dtype, value);
  if (dtype != DType::I64) {
    if (value == std::numeric_limits<int32_t>::min()) return "INT32_MIN";
    return value < 0 ? text("(", value, ")") : text(value);
  }
  if (value == std::numeric_limits<int64_t>::min()) return "INT64_MIN";
  return value < 0 ? text("(-INT64_C(", -value, "))") : text("INT64_C(", value, ")");
}

std::string literal(const Expr& constant) {
  return is_float(constant.dtype) ? literal(constant.dtype, constant.number)
                                  : literal(constant.dtype, constant.integer);
}

std::string in_comment(const std::string& text) {
  std::string result;
  for (const char c : text) result += c >= ' ' && c <= '~' && c != '*' && c != '\\' && c != '?' ? c : '_';
  return result;
}

std::string c_name_of(const std::string& name) {
  // Keywords of C99 and C++, and those names of math.h, string.h and stdint.h that are so short that a model
  // may use them as well.
  static const std::set<std::string> reserved = {
      "auto",     "break",  "case",   "char",     "const",    "continue", "default",  "do",
      "double",   "else",   "enum",   "extern",   "float",    "for",      "goto",     "if",
      "inline",   "int",    "long",   "register", "restrict", "return",   "short",    "signed",
      "sizeof",   "static", "struct", "switch",   "typedef",  "union",    "unsigned", "void",
      "volatile", "while",  "asm",    "typeof",   "bool",     "true",     "false",    "and",
      "or",       "not",    "xor",    "new",      "class",    "this",     "exp",      "log",
      "sin",      "cos",    "tan",    "asin",     "acos",     "atan",     "sinh",     "cosh",
      "tanh",     "sqrt",   "pow",    "floor",    "ceil",     "round",    "trunc",    "rint",
      "erf",      "fabs",   "fmod",   "log1p",    "exp2",     "gamma",    "j0",       "j1",
      "jn",       "y0",     "y1",     "yn",       "index",    "memcpy",   "memset",   "parameters",
      "scratch",  "linux",  "unix",   "i386",     "NAN",      "INFINITY", "NULL",     "arena",
      "main"};
  return reserved.count(name) != 0 || name.rfind("tc_", 0) == 0 || name.rfind("TC_", 0) == 0 || name[0] == '_'
             ? "v_" + name
             : name;
}

std::string Names::fresh(const std::string& wish) {
  std::string name = c_name_of(wish);
  for (int number = 2; !taken_.insert(name).second; ++number) name = text(c_name_of(wish), "_", number);
  return name;
}

}  // namespace c
}  // namespace tc
