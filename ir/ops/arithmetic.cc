// Arithmetic of elements, with broadcasting.
#include <cmath>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// Computes known shape elements through an integer op; an operand of one element is broadcast.
void propagate(InferContext& context, const std::function<Dim(const Dim&, const Dim&)>& combine) {
  auto a = context.elements(0), b = context.elements(1);
  if (!a || !b || is_float(context.dtype(0))) return;
  if (context.rank(0) > 1 || context.rank(1) > 1) return;
  const size_t count = std::max(a->size(), b->size());
  if ((a->size() != count && a->size() != 1) || (b->size() != count && b->size() != 1)) return;
  std::vector<Dim> result;
  for (size_t i = 0; i < count; ++i) {
    result.push_back(combine((*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]));
  }
  context.set_elements(0, std::move(result));
}

OpRow with_elements(OpRow row, std::function<Dim(const Dim&, const Dim&)> combine) {
  row.infer_elements = [combine](InferContext& context) { propagate(context, combine); };
  return row;
}

// Truncating integer division, as in the loop IR.
Dim divided(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    if (b.constant() == 0 || (b.constant() == -1 && a.constant() == INT64_MIN)) return 0;
    return a.constant() / b.constant();
  }
  return floor_div(a, b);
}

// The remainder with the sign of the dividend, and the one with the sign of the divisor; a symbolic dividend
// is never negative.
Dim rest_of_dividend(const Dim& a, const Dim& b) {
  if (b == Dim(0) || b == Dim(-1)) return 0;
  return a.is_constant() && b.is_constant() ? Dim(a.constant() % b.constant()) : mod(a, b);
}
Dim rest_of_divisor(const Dim& a, const Dim& b) {
  const Dim rest = rest_of_dividend(a, b);
  if (!b.is_constant() || b == Dim(0)) return rest;
  if (!rest.is_constant()) return b.constant() < 0 ? mod(a * Dim(-1), b) * Dim(-1) : rest;
  return rest != Dim(0) && (rest.constant() < 0) != (b.constant() < 0) ? rest + b : rest;
}

// Ops of any number of operands, combined from the left.
OpRow variadic(const std::string& name, const std::string& formula, const std::string& doc) {
  OpRow row = elementwise({name, 1, formula, 1, doc});
  row.maximum_inputs = -1;
  row.forwards = forwards_only_input;
  return row;
}

OpRow mod_row() {
  OpRow row = elementwise({"Mod", 10, "mod(a, b)", 2,
                           "Remainder with the sign of the divisor; of the dividend where `fmod` is 1."});
  row.attributes = {{"fmod", int64_t{0}}};
  row.cases = {{{{"fmod", int64_t{1}}}, "fmod(a, b)"}};
  row.infer_elements = [](InferContext& context) {
    propagate(context, int_attribute(context.node(), "fmod") ? rest_of_dividend : rest_of_divisor);
  };
  return row;
}

// The power 1/2: the square root, except that it is 0 for -0 and infinity for -infinity.
ExprPtr power_of_half(const ExprPtr& base) {
  const double infinity = std::numeric_limits<double>::infinity();
  const ExprPtr root = unary(UnaryOp::Sqrt, binary(BinaryOp::Add, base, constant(base->dtype, 0)));
  return select(binary(BinaryOp::Eq, base, constant(base->dtype, -infinity)), constant(base->dtype, infinity),
                root);
}

// The power for an exponent that is known, or null.
ExprPtr power_of_constant(const ExprPtr& base, const ExprPtr& exponent) {
  if (exponent->kind != Expr::Kind::Const || !is_float(base->dtype)) return nullptr;
  const double e = is_float(exponent->dtype) ? exponent->number : static_cast<double>(exponent->integer);
  ExprPtr one = constant(base->dtype, 1);
  if (e == 1) return base;
  if (e == 2) return binary(BinaryOp::Mul, base, base);
  if (e == 3) return binary(BinaryOp::Mul, binary(BinaryOp::Mul, base, base), base);
  if (e == 0.5) return power_of_half(base);
  if (e == -0.5) return binary(BinaryOp::Div, one, power_of_half(base));
  if (e == -1) return binary(BinaryOp::Div, one, base);
  return nullptr;
}

// Powers of integers are exact where the exponent is a whole number. Else they are computed in f64 and
// truncated, after a correction for results that should be whole (4 to the power 0.5) but are rounded to
// slightly less.
ExprPtr power(const ExprPtr& base, const ExprPtr& exponent) {
  if (ExprPtr simple = power_of_constant(base, exponent)) return simple;
  if (is_float(base->dtype)) {
    ExprPtr e = exponent->dtype == base->dtype ? exponent : cast(base->dtype, exponent);
    return binary(BinaryOp::Pow, base, e);
  }
  if (exponent->dtype == base->dtype) return binary(BinaryOp::Pow, base, exponent);
  ExprPtr whole =
      cast(base->dtype, binary(BinaryOp::Pow, cast(DType::I64, base), cast(DType::I64, exponent)));
  if (!is_float(exponent->dtype)) return whole;
  ExprPtr real = binary(BinaryOp::Pow, cast(DType::F64, base), cast(DType::F64, exponent));
  ExprPtr nudged = binary(BinaryOp::Mul, real, constant(DType::F64, 1 + 0x1p-50));
  return select(binary(BinaryOp::Eq, unary(UnaryOp::Floor, exponent), exponent), whole,
                cast(base->dtype, nudged));
}

// The operand of `pow(x, 1)`.
ValueId forwards_first_power(const Graph& graph, const Node& node) {
  const TensorPtr& power = graph[node.inputs.at(1)].constant;
  return power && power->count() == 1 && power->as_double(0) == 1 ? forwards_same_shape(graph, node)
                                                                  : kNoValue;
}

OpRow pow_row() {
  OpRow row = elementwise({"Pow", 7, "pow(a, b)", 2, "a to the power b, in the type of a."});
  row.forwards = forwards_first_power;
  row.types = {{kNumbers, {}, false}};
  row.lower = [](LowerContext& context) {
    auto space = context.space("i", *context.output_value(0).shape);
    ExprPtr a = context.read(0, context.broadcast_index(context.shape(0), space.position));
    ExprPtr b = context.read(1, context.broadcast_index(context.shape(1), space.position));
    context.assign("e", space.iterators, context.output(0), space.position, power(a, b));
  };
  return row;
}

OpRow clip_row() {
  OpRow row = elementwise(
      {"Clip", 6, "max(min(a, c), b)", 3, "The element brought into [b, c]; either end may be left out."});
  row.minimum_inputs = 1;
  row.attributes = {{"min", -std::numeric_limits<double>::infinity()},
                    {"max", std::numeric_limits<double>::infinity()}};
  row.onnx = {{"Clip", 1}, {"Clip", 11}};
  row.infer = [](InferContext& context) {
    for (int i : {1, 2}) need_one_element(context, i, text("bound ", i));
    infer_same(context);
  };
  row.lower = [](LowerContext& context) {
    auto space = context.space("i", *context.output_value(0).shape);
    ExprPtr value = context.read(0, space.position);
    for (int i : {1, 2}) {
      const char* name = i == 1 ? "min" : "max";
      ExprPtr bound;
      if (context.has_input(i)) {
        bound = context.read(i, std::vector<Affine>(context.shape(i).size(), Affine(0)));
      } else if (has_attribute(context.node(), name)) {
        bound = constant(value->dtype, float_attribute(context.node(), name));
      }
      if (bound) value = binary(i == 1 ? BinaryOp::Max : BinaryOp::Min, value, bound);
    }
    context.assign("e", space.iterators, context.output(0), space.position, value);
  };
  return row;
}

// Whether the amounts of a shift are constants and all are at least 0 and less than the type's bits.
bool shifts_within(const Value& amounts) {
  if (!amounts.constant) return false;
  const int64_t width = bits_of(amounts.dtype);
  for (int64_t i = 0; i < amounts.constant->count(); ++i) {
    if (amounts.constant->as_int(i) < 0 || amounts.constant->as_int(i) >= width) return false;
  }
  return true;
}

// In the loop IR, shifts by all bits or more give 0. The operator's specification wants -1 for a negative
// number shifted right, which a shift by all bits but one gives.
OpRow shift_row() {
  OpRow row =
      elementwise({"BitShift", 11, "shl(a, b)", 2,
                   "Shift by b bits to `direction` LEFT or RIGHT; by a negative number, or all bits or more, "
                   "nothing but the sign remains to the right, and 0 to the left."});
  row.attributes = {{"direction", std::string("LEFT"), true, "", one_of({"LEFT", "RIGHT"})}};
  row.lower = [](LowerContext& context) {
    auto space = context.space("i", *context.output_value(0).shape);
    const ExprPtr a = context.read(0, context.broadcast_index(context.shape(0), space.position));
    ExprPtr b = context.read(1, context.broadcast_index(context.shape(1), space.position));
    const bool left = string_attribute(context.node(), "direction") == "LEFT";
    if (!left && is_signed(a->dtype) && !shifts_within(context.input_value(1))) {
      const ExprPtr most = int_constant(a->dtype, bits_of(a->dtype) - 1);
      const ExprPtr within = binary(BinaryOp::And, binary(BinaryOp::Ge, b, int_constant(a->dtype, 0)),
                                    binary(BinaryOp::Le, b, most));
      b = select(within, b, most);
    }
    context.assign("e", space.iterators, context.output(0), space.position,
                   binary(left ? BinaryOp::Shl : BinaryOp::Shr, a, b));
  };
  return row;
}

OpRow wide_product_row() {
  OpRow row = elementwise({"WideProduct", 1, "i64(a) * i64(b)", 2,
                           "Product, in 64 bits, of two integers of 32 bits; the compiler makes it."});
  row.onnx.clear();
  row.types = {{{"i32", [](DType type) { return type == DType::I32; }}}};
  return row;
}

// Whether the operation with this constant leaves every element as it is. For floats only -0 does so in a
// sum, since -0 + 0 is 0, and only 0 in a difference.
bool is_neutral(BinaryOp op, const Tensor& number) {
  const double value = number.as_double(0);
  if (op == BinaryOp::Mul || op == BinaryOp::Div) return value == 1;
  return value == 0 && (!is_float(number.dtype) || std::signbit(value) == (op == BinaryOp::Add));
}

// The operand of `x + -0`, `-0 + x`, `x - 0`, `x * 1`, `1 * x`, `x / 1`.
ValueId forwards_other_operand(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 2) return kNoValue;
  const BinaryOp op = node.op->traits.binary.value();
  const bool commutes = op == BinaryOp::Add || op == BinaryOp::Mul;
  const Value& out = graph[node.outputs[0]];
  for (size_t i : {size_t{0}, size_t{1}}) {
    if (i == 0 && !commutes) continue;
    const TensorPtr& number = graph[node.inputs[i]].constant;
    const Value& other = graph[node.inputs[1 - i]];
    if (!number || number->count() != 1 || !is_neutral(op, *number)) continue;
    if (other.shape && out.shape && *other.shape == *out.shape) return node.inputs[1 - i];
  }
  return kNoValue;
}

}  // namespace

void register_arithmetic_ops(OpTable& table) {
  auto binary_row = [&](const char* name, const char* formula, const char* doc,
                        std::function<Dim(const Dim&, const Dim&)> combine) {
    OpRow row = elementwise({name, 7, formula, 2, doc});
    row.forwards = forwards_other_operand;
    table.add(with_elements(row, std::move(combine)));
  };
  binary_row("Add", "a + b", "Sum.", [](const Dim& a, const Dim& b) { return a + b; });
  binary_row("Sub", "a - b", "Difference.", [](const Dim& a, const Dim& b) { return a - b; });
  binary_row("Mul", "a * b", "Product.", [](const Dim& a, const Dim& b) { return a * b; });
  binary_row("Div", "a / b", "Quotient; truncated for integers.", divided);
  table.add(mod_row());
  table.add(pow_row());
  table.add(clip_row());
  table.add(shift_row());
  table.add(wide_product_row());

  table.add(with_elements(variadic("Max", "max(a, b, …)", "Largest of the operands."),
                          [](const Dim& a, const Dim& b) { return max(a, b); }));
  table.add(with_elements(variadic("Min", "min(a, b, …)", "Smallest of the operands."),
                          [](const Dim& a, const Dim& b) { return min(a, b); }));
  table.add(variadic("Sum", "add(a, b, …)", "Sum of the operands."));
  OpRow mean = variadic("Mean", "add(a, b, …) / count", "Mean of the operands.");
  mean.types = {{kFloats}};
  table.add(std::move(mean));

  const ElementwiseRow rows[] = {
      {"Neg", 1, "-a", 1, "Negated element."},
      {"Abs", 1, "abs(a)", 1, "Magnitude."},
      {"Sign", 9, "sign(a)", 1, "-1, 0 or 1."},
      {"Floor", 1, "floor(a)", 1, "Largest integer that is not larger."},
      {"Ceil", 1, "ceil(a)", 1, "Smallest integer that is not smaller."},
      {"Round", 11, "round(a)", 1, "Nearest integer, halves to even."},
      {"Reciprocal", 1, "1 / a", 1, "1 / a."},
      {"Sqrt", 1, "sqrt(a)", 1, "Square root."},
      {"Exp", 1, "exp(a)", 1, "e to the power a."},
      {"Log", 1, "log(a)", 1, "Natural logarithm."},
      {"Sin", 7, "sin(a)", 1, "Sine."},
      {"Cos", 7, "cos(a)", 1, "Cosine."},
      {"Tan", 7, "tan(a)", 1, "Tangent."},
      {"Asin", 7, "asin(a)", 1, "Inverse sine."},
      {"Acos", 7, "acos(a)", 1, "Inverse cosine."},
      {"Atan", 7, "atan(a)", 1, "Inverse tangent."},
      {"Sinh", 9, "sinh(a)", 1, "Hyperbolic sine."},
      {"Cosh", 9, "cosh(a)", 1, "Hyperbolic cosine."},
      {"Asinh", 9, "asinh(a)", 1, "Inverse hyperbolic sine."},
      {"Acosh", 9, "acosh(a)", 1, "Inverse hyperbolic cosine."},
      {"Atanh", 9, "atanh(a)", 1, "Inverse hyperbolic tangent."},
      {"Erf", 9, "erf(a)", 1, "Gauss error function."},
      {"BitwiseAnd", 18, "and(a, b)", 2, "Bitwise and."},
      {"BitwiseOr", 18, "or(a, b)", 2, "Bitwise or."},
      {"BitwiseXor", 18, "xor(a, b)", 2, "Bitwise exclusive or."},
      {"BitwiseNot", 18, "bitnot(a)", 1, "Bitwise complement."},
  };
  for (const ElementwiseRow& row : rows) table.add(elementwise(row));
  for (const char* name : {"Div", "Exp", "Log", "Mod", "Pow", "Reciprocal", "Sqrt"}) {
    table.rows.at(name).traits.finite_at_zero = false;
  }
}

}  // namespace tc
