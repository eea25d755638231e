// Vector functions of generated code: in one expression where compilers have vectors, else lane by lane.
#include "codegen/c/helper_functions.h"
#include "codegen/c/spelling.h"
#include "codegen/backend/c_names.h"
#include "ir/error.h"

namespace tc::c {
namespace {

DType same_size_integer(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return DType::I8;
    case 2: return DType::I16;
    case 4: return DType::I32;
    default: return DType::I64;
  }
}

DType same_size_unsigned(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return DType::U8;
    case 2: return DType::U16;
    case 4: return DType::U32;
    default: return DType::U64;
  }
}

std::string element_type(DType dtype) { return dtype == DType::Bool ? "int32_t" : c_type(dtype); }

// A lane of the vector with that name.
std::string lane_of(int lanes, const std::string& vector, const std::string& lane = "l") {
  return text(has_vectors(lanes) ? "TC_LANE(" : "TC_ELEMENT(", vector, ", ", lane, ")");
}

std::string for_lanes(int lanes, const std::string& statement) {
  return text("  for (int l = 0; l < ", lanes, "; ++l) {\n    ", statement, "\n  }\n");
}

// A lane in the form that scalar functions take.
std::string as_scalar(DType dtype, int lanes, const std::string& vector) {
  return dtype == DType::Bool ? "(" + lane_of(lanes, vector) + " != 0)" : lane_of(lanes, vector);
}

std::string as_lane(DType dtype, const std::string& scalar) {
  return dtype == DType::Bool ? "(" + scalar + ") != 0 ? -1 : 0" : scalar;
}

// A function with a body for compilers with vectors and one for others; only the latter where `vectors` is
// empty or there are no vectors of that many lanes.
std::string function(int lanes, const std::string& head, const std::string& vectors,
                     const std::string& plain) {
  if (vectors.empty() || !has_vectors(lanes)) return text("TC_INLINE ", head, " {\n", plain, "}\n");
  return text("TC_INLINE ", head, " {\n#if TC_VECTORS\n  ", vectors, "\n#else\n", plain, "#endif\n}\n");
}

std::string result_of_lanes(const std::string& type, int lanes, const std::string& lane) {
  return text("  ", type, " r = {0};\n", for_lanes(lanes, lane_of(lanes, "r") + " = " + lane + ";"),
              "  return r;\n");
}

// Converts a vector, lane by lane, to another type with as many lanes.
std::string converted(const std::string& type, const std::string& vector) {
  return text("__builtin_convertvector(", vector, ", ", type, ")");
}

std::string mask_from(DType dtype, int lanes, const std::string& comparison) {
  const std::string mask = vector_type(DType::Bool, lanes);
  if (size_of(dtype) == 4) return text("(", mask, ")(", comparison, ")");
  return converted(mask, text("(", vector_type(same_size_integer(dtype), lanes), ")(", comparison, ")"));
}

std::string mask_for(DType dtype, int lanes, const std::string& mask) {
  return size_of(dtype) == 4 || dtype == DType::Bool
             ? mask
             : converted(vector_type(same_size_integer(dtype), lanes), mask);
}

// In each lane a where the comparison holds, else b.
std::string chosen(DType dtype, int lanes, const std::string& comparison, const std::string& a,
                   const std::string& b) {
  const std::string bits = vector_type(same_size_integer(dtype), lanes), type = vector_type(dtype, lanes);
  return text("(", type, ")(((", comparison, ") & (", bits, ")", a, ") | (~(", comparison, ") & (", bits, ")",
              b, "))");
}

}  // namespace

std::string vector_expression(UnaryOp op, DType dtype, int lanes) {
  const std::string type = vector_type(dtype, lanes), integers = vector_type(same_size_integer(dtype), lanes);
  if (dtype == DType::Bool) return op == UnaryOp::Not || op == UnaryOp::BitNot ? "~a" : "";
  if (is_integer(dtype)) {
    const std::string wide = vector_type(same_size_unsigned(dtype), lanes);
    if (op == UnaryOp::Neg) return text("(", type, ")(-(", wide, ")a)");
    return op == UnaryOp::BitNot ? "~a" : "";
  }
  const std::string magnitude = dtype == DType::F32 ? "0x7fffffff" : "INT64_C(0x7fffffffffffffff)";
  switch (op) {
    case UnaryOp::Neg: return "-a";
    case UnaryOp::Abs: return text("(", type, ")((", integers, ")a & ", magnitude, ")");
    case UnaryOp::IsNan: return mask_from(dtype, lanes, "a != a");
    default: return "";
  }
}

std::string vector_expression(BinaryOp op, DType dtype, int lanes) {
  const std::string type = vector_type(dtype, lanes);
  const auto both = [&](const char* sign) -> std::string {
    if (is_float(dtype)) return text("a ", sign, " b");
    const std::string wide = vector_type(same_size_unsigned(dtype), lanes);
    return text("(", type, ")((", wide, ")a ", sign, " (", wide, ")b)");
  };
  if (op >= BinaryOp::Eq && op <= BinaryOp::Ge)
    return dtype == DType::Bool ? "" : mask_from(dtype, lanes, scalar_expression(op, dtype));
  if (dtype == DType::Bool) {
    if (op == BinaryOp::And || op == BinaryOp::Mul || op == BinaryOp::Min) return "a & b";
    if (op == BinaryOp::Or || op == BinaryOp::Add || op == BinaryOp::Max) return "a | b";
    return op == BinaryOp::Xor || op == BinaryOp::Sub ? "a ^ b" : "";
  }
  switch (op) {
    case BinaryOp::Add: return both("+");
    case BinaryOp::Sub: return both("-");
    case BinaryOp::Mul: return both("*");
    case BinaryOp::Div: return is_float(dtype) ? both("/") : "";
    case BinaryOp::And: return is_float(dtype) ? "" : "a & b";
    case BinaryOp::Or: return is_float(dtype) ? "" : "a | b";
    case BinaryOp::Xor: return is_float(dtype) ? "" : "a ^ b";
    case BinaryOp::Max:
      return chosen(dtype, lanes, is_float(dtype) ? "(a > b) | (a != a)" : "a > b", "a", "b");
    case BinaryOp::Min:
      return chosen(dtype, lanes, is_float(dtype) ? "(a < b) | (a != a)" : "a < b", "a", "b");
    case BinaryOp::Shl:
    case BinaryOp::Shr: {
      const std::string wide = vector_type(same_size_unsigned(dtype), lanes);
      const int64_t bits = 8 * size_of(dtype);
      const std::string amount = text("(b & ", bits - 1, ")"), small = text("((", wide, ")b < ", bits, "u)");
      const std::string shifted = op == BinaryOp::Shr
                                      ? "a >> " + amount
                                      : text("(", type, ")((", wide, ")a << (", wide, ")", amount, ")");
      return text("(", type, ")((", shifted, ") & (", type, ")", small, ")");
    }
    default: return "";
  }
}

namespace {

std::string listed(Functions& functions, DType to, int lanes, const std::string& vector) {
  const std::string name = text("TC_CONVERT_", lanes);
  if (functions.begins(name)) {
    std::string all;
    for (int i = 0; i < lanes; ++i) all += text(i == 0 ? "" : ", ", "(v)[", i, "]");
    functions.define(
        text("/* The lanes of v in a vector of another type: GCC makes few instructions of a list of them, ",
             "Clang of a conversion. */\n#if defined(__clang__)\n#define ", name,
             "(v, type) __builtin_convertvector(v, type)\n#else\n#define ", name, "(v, type) ((type){", all,
             "})\n#endif\n"));
  }
  return text(name, "(", vector, ", ", vector_type(to, lanes), ")");
}

std::string vector_cast(Functions& functions, DType from, DType to, int lanes) {
  const std::string type = vector_type(to, lanes);
  const auto is_plain = [](DType dtype) { return dtype != DType::Bool && !is_storage(dtype); };
  if (to == DType::Bool) return is_plain(from) ? mask_from(from, lanes, "a != 0") : "";
  if (from == DType::Bool && is_plain(to)) return converted(type, "-a");
  if (from == DType::BF16 && to == DType::F32) {
    return text("(", type, ")(", converted(vector_type(DType::U32, lanes), "a"), " << 16)");
  }
  if (!is_plain(to) || !is_plain(from)) return "";
  if (is_integer(from) && is_integer(to)) return listed(functions, to, lanes, "a");
  if (is_integer(from) && size_of(from) < 4)
    return converted(type, functions.cast(from, DType::I32, lanes, "a"));
  if (is_float(to)) return converted(type, "a");
  if (from != DType::F32 || size_of(to) > 4 || to == DType::U32) return "";
  // Numbers outside of the type's range become its least or largest one. For i32 the largest is no float of
  // 32 bits, so that it is put in as an integer.
  const std::string words = vector_type(DType::I32, lanes), floats = vector_type(DType::F32, lanes);
  const auto within = [&](const std::string& condition) {
    return text("(", floats, ")((", words, ")a & (", condition, "))");
  };
  if (to == DType::I32) {
    const std::string known = converted(words, within("(a < 2147483648.0f) & (a >= -2147483648.0f)"));
    return text(
        "(", known,
        " & ~(a >= 2147483648.0f)) | ((a >= 2147483648.0f) & 0x7fffffff) | ((a < -2147483648.0f) & (-0x7fffffff - 1))");
  }
  const int64_t bits = 8 * size_of(to), largest = (int64_t{1} << (is_signed(to) ? bits - 1 : bits)) - 1,
                least = is_signed(to) ? -largest - 1 : 0;
  const std::string high = text("(a >= ", largest, ".0f)"), low = text("(a <= ", least, ".0f)");
  const std::string known = converted(words, within(text("(a < ", largest, ".0f) & (a > ", least, ".0f)")));
  return functions.cast(DType::I32, to, lanes,
                        text("((", known, ") | (", high, " & ", largest, ") | (", low, " & (", least, ")))"));
}

}  // namespace

void Functions::use_type(DType dtype, int lanes) {
  const std::string type = vector_type(dtype, lanes), element = element_type(dtype);
  if (lanes == 1 || !begins(type)) return;
  if (!has_vectors(lanes)) {
    define(text("typedef struct {\n  ", element, " e[", lanes, "];\n} ", type, ";\n"));
    return;
  }
  const int64_t bytes = lanes * (dtype == DType::Bool ? 4 : size_of(dtype));
  define(text("#if TC_VECTORS\ntypedef ", element, " ", type, " __attribute__((vector_size(", bytes,
              ")));\n#else\ntypedef struct {\n  ", element, " e[", lanes, "];\n} ", type, ";\n#endif\n"));
}

namespace {

// The types that expressions of vectors may name.
void use_types(Functions& functions, DType dtype, int lanes) {
  functions.use_type(dtype, lanes);
  functions.use_type(DType::Bool, lanes);
  functions.use_type(DType::I32, lanes);
  if (dtype == DType::Bool) return;
  functions.use_type(same_size_integer(dtype), lanes);
  functions.use_type(same_size_unsigned(dtype), lanes);
}

}  // namespace

std::string Functions::unary(UnaryOp op, DType dtype, int lanes, const std::string& a) {
  const bool predicate = op == UnaryOp::IsNan || op == UnaryOp::IsInf;
  if (lanes == 1) {
    if (op == UnaryOp::Neg && is_float(dtype)) return "(-" + a + ")";
    return text(scalar(op, dtype), "(", a, ")");
  }
  const std::string name = text(vector_type(dtype, lanes), "_", name_of(op));
  if (begins(name)) {
    use_types(*this, dtype, lanes);
    const std::string result = vector_type(predicate ? DType::Bool : dtype, lanes),
                      lane = text(scalar(op, dtype), "(", as_scalar(dtype, lanes, "a"), ")");
    const std::string vectors = vector_expression(op, dtype, lanes),
                      body = vectors.empty() ? vector_body(op, dtype, lanes) : "return " + vectors + ";";
    define(function(lanes, text(result, " ", name, "(", vector_type(dtype, lanes), " a)"), body,
                    result_of_lanes(result, lanes, as_lane(predicate ? DType::Bool : dtype, lane))));
  }
  return text(name, "(", a, ")");
}

std::string Functions::binary(BinaryOp op, DType dtype, int lanes, const std::string& a,
                              const std::string& b) {
  const bool predicate = op >= BinaryOp::Eq && op <= BinaryOp::Ge;
  if (lanes == 1) {
    const bool infix =
        predicate || (is_float(dtype) && op <= BinaryOp::Div) ||
        (dtype == DType::Bool && (op == BinaryOp::And || op == BinaryOp::Or || op == BinaryOp::Xor));
    if (!infix) return text(scalar(op, dtype), "(", a, ", ", b, ")");
    const std::string expression = scalar_expression(op, dtype);  // "a + b"
    return text("(", a, expression.substr(1, expression.size() - 2), b, ")");
  }
  const std::string name = text(vector_type(dtype, lanes), "_", name_of(op)),
                    type = vector_type(dtype, lanes);
  if (begins(name)) {
    use_types(*this, dtype, lanes);
    const std::string result = vector_type(predicate ? DType::Bool : dtype, lanes);
    const std::string lane =
        text(scalar(op, dtype), "(", as_scalar(dtype, lanes, "a"), ", ", as_scalar(dtype, lanes, "b"), ")");
    const std::string vectors = vector_expression(op, dtype, lanes);
    define(function(lanes, text(result, " ", name, "(", type, " a, ", type, " b)"),
                    vectors.empty() ? "" : "return " + vectors + ";",
                    result_of_lanes(result, lanes, as_lane(predicate ? DType::Bool : dtype, lane))));
  }
  return text(name, "(", a, ", ", b, ")");
}

std::string shift(Functions& functions, BinaryOp op, DType dtype, int lanes, const std::string& a,
                  int64_t bits) {
  const std::string name = text(vector_type(dtype, lanes), "_", name_of(op), "_by"),
                    type = vector_type(dtype, lanes);
  if (functions.begins(name)) {
    use_types(functions, dtype, lanes);
    const std::string lane =
        functions.binary(op, dtype, 1, lane_of(lanes, "a"), text("(", c_type(dtype), ")bits"));
    const std::string vectors =
        op == BinaryOp::Shr
            ? "return a >> bits;"
            : text("return (", type, ")((", vector_type(same_size_unsigned(dtype), lanes), ")a << bits);");
    functions.define(function(lanes, text(type, " ", name, "(", type, " a, int bits)"), vectors,
                              result_of_lanes(type, lanes, lane)));
  }
  return text(name, "(", a, ", ", bits, ")");
}

std::string Functions::cast(DType from, DType to, int lanes, const std::string& a) {
  if (from == to) return a;
  if (lanes == 1) {
    if (to == DType::Bool && !is_storage(from)) return text("(", a, " != 0)");
    const bool direct = !is_storage(from) && !is_storage(to) && !(is_integer(to) && is_float(from));
    return direct ? text("(", c_type(to), ")", a) : text(scalar_cast(from, to), "(", a, ")");
  }
  const std::string name = text(vector_type(to, lanes), "_from_", name_of(from));
  if (begins(name)) {
    use_types(*this, from, lanes);
    use_types(*this, to, lanes);
    use_type(DType::U32, lanes);
    use_type(DType::F32, lanes);
    const std::string result = vector_type(to, lanes),
                      lane = text(scalar_cast(from, to), "(", as_scalar(from, lanes, "a"), ")");
    const std::string vectors = vector_cast(*this, from, to, lanes);
    define(function(lanes, text(result, " ", name, "(", vector_type(from, lanes), " a)"),
                    vectors.empty() ? "" : "return " + vectors + ";",
                    result_of_lanes(result, lanes, as_lane(to, lane))));
  }
  return text(name, "(", a, ")");
}

std::string Functions::combine(Reduction reduction, DType dtype, int lanes, const std::string& before,
                               const std::string& next) {
  switch (reduction) {
    case Reduction::None: return next;
    case Reduction::Sum: return binary(BinaryOp::Add, dtype, lanes, before, next);
    case Reduction::Product: return binary(BinaryOp::Mul, dtype, lanes, before, next);
    case Reduction::Max: return binary(BinaryOp::Max, dtype, lanes, next, before);
    case Reduction::Min: return binary(BinaryOp::Min, dtype, lanes, next, before);
    case Reduction::And: return binary(BinaryOp::And, dtype, lanes, before, next);
    case Reduction::Or: return binary(BinaryOp::Or, dtype, lanes, before, next);
    case Reduction::MaxNumber: break;
  }
  if (!is_float(dtype)) return binary(BinaryOp::Max, dtype, lanes, next, before);
  const std::string type = vector_type(dtype, lanes),
                    name = lanes == 1 ? text("tc_", name_of(dtype), "_max_number") : type + "_max_number";
  if (begins(name)) {
    use_types(*this, dtype, lanes);
    const std::string head = text(type, " ", name, "(", type, " a, ", type, " b)");
    if (lanes == 1) {
      define(text("TC_FUNCTION ", head, " { return b > a ? b : a; }\n"));
    } else {
      define(function(lanes, head, text("return ", chosen(dtype, lanes, "b > a", "b", "a"), ";"),
                      result_of_lanes(type, lanes,
                                      text(lane_of(lanes, "b"), " > ", lane_of(lanes, "a"), " ? ",
                                           lane_of(lanes, "b"), " : ", lane_of(lanes, "a")))));
    }
  }
  return text(name, "(", before, ", ", next, ")");
}

std::string Functions::reduce(Reduction reduction, DType dtype, int lanes, const std::string& vector) {
  if (lanes == 1) return vector;
  const std::string type = vector_type(dtype, lanes), name = text(type, "_all_", name_of(reduction));
  if (begins(name)) {
    use_types(*this, dtype, lanes);
    // Combines the upper half with the lower half as long as the number of lanes is even.
    std::string body;
    int left = lanes;
    for (; left % 2 == 0; left /= 2) {
      body +=
          text("  for (int l = 0; l < ", left / 2, "; ++l) {\n    ", lane_of(lanes, "a"), " = ",
               as_lane(dtype, combine(reduction, dtype, 1, as_scalar(dtype, lanes, "a"),
                                      dtype == DType::Bool
                                          ? text("(", lane_of(lanes, "a", text("l + ", left / 2)), " != 0)")
                                          : lane_of(lanes, "a", text("l + ", left / 2)))),
               ";\n  }\n");
    }
    std::string result =
        dtype == DType::Bool ? text("(", lane_of(lanes, "a", "0"), " != 0)") : lane_of(lanes, "a", "0");
    for (int i = 1; i < left; ++i) {
      const std::string next = lane_of(lanes, "a", text(i));
      result = combine(reduction, dtype, 1, result, dtype == DType::Bool ? text("(", next, " != 0)") : next);
    }
    define(text("TC_INLINE ", value_type(dtype), " ", name, "(", type, " a) {\n", body, "  return ", result,
                ";\n}\n"));
  }
  return text(name, "(", vector, ")");
}

std::string Functions::splat(DType dtype, int lanes, const std::string& scalar) {
  if (lanes == 1) return scalar;
  const std::string type = vector_type(dtype, lanes), name = type + "_splat";
  if (begins(name)) {
    use_types(*this, dtype, lanes);
    const std::string lane = as_lane(dtype, "x");
    std::string all = dtype == DType::Bool ? "const int32_t y = x != 0 ? -1 : 0;\n  return (" + type + "){"
                                           : "return (" + type + "){";
    for (int i = 0; i < lanes; ++i) all += text(i == 0 ? "" : ", ", dtype == DType::Bool ? "y" : "x");
    define(function(lanes, text(type, " ", name, "(", value_type(dtype), " x)"), all + "};",
                    result_of_lanes(type, lanes, lane)));
  }
  return text(name, "(", scalar, ")");
}

std::string Functions::multiply_add(DType dtype, int lanes, const std::string& a, const std::string& b,
                                    const std::string& c) {
  if (lanes == 1) return text(c, " + ", a, " * ", b);
  const std::string type = vector_type(dtype, lanes), name = type + "_mul_add";
  if (begins(name)) {
    use_types(*this, dtype, lanes);
    define(function(
        lanes, text(type, " ", name, "(", type, " a, ", type, " b, ", type, " c)"), "return a * b + c;",
        result_of_lanes(type, lanes,
                        text(lane_of(lanes, "a"), " * ", lane_of(lanes, "b"), " + ", lane_of(lanes, "c")))));
  }
  return text(name, "(", a, ", ", b, ", ", c, ")");
}

std::string Functions::axpy(DType dtype, int lanes, const std::string& a, const std::string& b,
                            const std::string& c) {
  const std::string type = vector_type(dtype, lanes), name = type + "_axpy";
  if (begins(name)) {
    use_types(*this, dtype, lanes);
    define(function(
        lanes, text(type, " ", name, "(", value_type(dtype), " a, ", type, " x, ", type, " y)"),
        "return a * x + y;",
        result_of_lanes(type, lanes, text("a * ", lane_of(lanes, "x"), " + ", lane_of(lanes, "y")))));
  }
  return text(name, "(", a, ", ", b, ", ", c, ")");
}

std::string Functions::select(DType dtype, int lanes, const std::string& mask, const std::string& a,
                              const std::string& b) {
  if (lanes == 1) return text("(", mask, " ? ", a, " : ", b, ")");
  const std::string type = vector_type(dtype, lanes), name = type + "_select",
                    masks = vector_type(DType::Bool, lanes);
  if (begins(name)) {
    use_types(*this, dtype, lanes);
    std::string vectors = text(
        "return ", dtype == DType::Bool ? "(m & a) | (~m & b)" : chosen(dtype, lanes, "m", "a", "b"), ";");
    if (dtype != DType::Bool && size_of(dtype) != 4) {
      vectors =
          text("const ", vector_type(same_size_integer(dtype), lanes), " n = ", mask_for(dtype, lanes, "m"),
               ";\n  return ", chosen(dtype, lanes, "n", "a", "b"), ";");
    }
    define(function(lanes, text(type, " ", name, "(", masks, " m, ", type, " a, ", type, " b)"), vectors,
                    result_of_lanes(type, lanes,
                                    text(lane_of(lanes, "m"), " != 0 ? ", lane_of(lanes, "a"), " : ",
                                         lane_of(lanes, "b")))));
  }
  return text(name, "(", mask, ", ", a, ", ", b, ")");
}

std::string Functions::lane(DType, int lanes, const std::string& vector, int lane) {
  return lanes == 1 ? vector : lane_of(lanes, vector, text(lane));
}

}  // namespace tc::c
