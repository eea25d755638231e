// Elementary functions of vectors of float32 as polynomials, within what ir/loop.h allows.
#include "codegen/c/helper_functions.h"
#include "codegen/c/spelling.h"
#include "ir/error.h"
#include "ir/math_tables.h"

namespace tc::c {
namespace {

// c0 + x (c1 + x (c2 + ...)).
template <size_t N>
std::string polynomial(const std::string& x, const double (&coefficients)[N]) {
  std::string result = literal(DType::F32, coefficients[N - 1]);
  for (size_t i = N - 1; i-- > 0;)
    result = text(i + 2 == N ? "" : "(", result, i + 2 == N ? "" : ")", " * ", x, " + ",
                  literal(DType::F32, coefficients[i]));
  return result;
}

std::string replaced(std::string where, const std::string& what, const std::string& by) {
  for (size_t at = where.find(what); at != std::string::npos; at = where.find(what, at + by.size()))
    where.replace(at, what.size(), by);
  return where;
}

// V and I are the types of floats and of integers of 32 bits; CHOOSE(m, a, b) is a where the mask is set,
// else b. exp(a) = 2^n exp(r) with |r| <= ln(2) / 2; 2^n in two factors, so that results may be subnormal or
// infinite.
const char* const kExp = R"(const V high = CHOOSE(a > 89.0f, (V){0} + 89.0f, a);
  const V x = CHOOSE(high < -104.0f, (V){0} - 104.0f, high);
  const V n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
  const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  const V tail = r * r * (POLYNOMIAL);
  const I whole = __builtin_convertvector(CHOOSE(x != x, (V){0}, n), I), half = whole >> 1;
  const V first = (V)((half + 127) << 23), second = (V)((whole - half + 127) << 23);
  return ((tail + r) + 1.0f) * first * second;)";

const char* const kSigmoid = R"(const V size = (V)((I)a & 0x7fffffff), e = EXP(-size);
  return CHOOSE(a < 0.0f, e, (V){0} + 1.0f) / (e + 1.0f);)";

// Near 0 by a polynomial of odd powers, else 1 - 2 / (exp(2 |a|) + 1), with the sign of a.
const char* const kTanh = R"(const V size = (V)((I)a & 0x7fffffff), s = a * a;
  const V odd = (((-5.70498872745e-3f * s + 2.06390887954e-2f) * s - 5.37397155531e-2f) * s +
                 1.33314422036e-1f) * s - 3.33332819422e-1f;
  const V near = odd * s * a + a, far = 1.0f - 2.0f / (EXP(size + size) + 1.0f);
  const V signed_far = (V)((I)far | ((I)a & (-0x7fffffff - 1)));
  return CHOOSE(size < 0.625f, near, signed_far);)";

const char* const kErf = R"(const V size = (V)((I)a & 0x7fffffff), s = a * a;
  const V near = (NEAR) * a + a, t = CHOOSE(size < 4.0f, size, (V){0} + 4.0f) - 2.5f;
  const V far = 1.0f - EXP(FAR);
  const V signed_far = (V)((I)far | ((I)a & (-0x7fffffff - 1)));
  return CHOOSE(size >= 1.0f, signed_far, near);)";

// To nearest even: adding 2^23 leaves no fractional bits.
const char* const kRound = R"(const V size = (V)((I)a & 0x7fffffff), whole = (size + 8388608.0f) - 8388608.0f;
  return CHOOSE(size < 8388608.0f, (V)((I)whole | ((I)a & (-0x7fffffff - 1))), a);)";

// The nearest whole number, less 1 where that is above.
const char* const kFloor = R"(const V near = ROUND(a), less = CHOOSE(near > a, near - 1.0f, near);
  return (V)((I)less | ((I)a & (-0x7fffffff - 1)));)";

const char* const kCeil = R"(const V near = ROUND(a), more = CHOOSE(near < a, near + 1.0f, near);
  return (V)(((I)more & 0x7fffffff) | ((I)a & (-0x7fffffff - 1)));)";

}  // namespace

std::string Functions::vector_body(UnaryOp op, DType dtype, int lanes) {
  if (dtype != DType::F32 || !has_vectors(lanes)) return "";
  std::string body;
  switch (op) {
    case UnaryOp::Exp: body = replaced(kExp, "POLYNOMIAL", polynomial("r", kExpF32)); break;
    case UnaryOp::Sigmoid: body = kSigmoid; break;
    case UnaryOp::Tanh: body = kTanh; break;
    case UnaryOp::Erf:
      body = replaced(replaced(kErf, "NEAR", polynomial("s", kErfSmallF32)), "FAR",
                      polynomial("t", kErfLargeF32));
      break;
    case UnaryOp::Round: body = kRound; break;
    case UnaryOp::Floor: body = kFloor; break;
    case UnaryOp::Ceil: body = kCeil; break;
    default: return "";
  }
  // unary() also defines the function that is called.
  const auto call = [&](const char* word, UnaryOp callee) {
    if (body.find(word) == std::string::npos) return;
    const std::string name = unary(callee, dtype, lanes, "a");
    body = replaced(body, word, name.substr(0, name.find('(')));
  };
  call("EXP", UnaryOp::Exp);
  call("ROUND", UnaryOp::Round);
  const std::string floats = vector_type(dtype, lanes), integers = vector_type(DType::I32, lanes);
  body = replaced(replaced(body, "CHOOSE(", floats + "_choose("), "(V)", "(" + floats + ")");
  body = replaced(replaced(body, "const V ", "const " + floats + " "), "const I ", "const " + integers + " ");
  body = replaced(replaced(body, "(I)", "(" + integers + ")"), ", I)", ", " + integers + ")");
  if (begins(floats + "_choose")) {
    define(text("#if TC_VECTORS\nTC_INLINE ", floats, " ", floats, "_choose(", integers, " m, ", floats,
                " a, ", floats, " b) {\n  return (", floats, ")((m & (", integers, ")a) | (~m & (", integers,
                ")b));\n}\n#endif\n"));
  }
  return body;
}

}  // namespace tc::c
