// Comparisons, logic, selection and casts.
#include <cmath>

#include "ir/narrow_float.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

// Whether two dimensions are equal, where that is known for all sizes.
std::optional<bool> known_equal(const Dim& a, const Dim& b) {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return false;
  const Dim& number = a.is_constant() ? a : b;
  // Dimensions of tensors are not negative.
  if (number.is_constant() && number.constant() < 0) return false;
  return std::nullopt;
}

// Whether a < b, where that is known for all sizes.
std::optional<bool> known_less(const Dim& a, const Dim& b) {
  const Dim difference = b - a;
  if (difference.is_constant()) return difference.constant() > 0;
  // Dimensions of tensors are not negative.
  if (a.is_constant() && a.constant() < 0 && b.is_symbol()) return true;
  if (b.is_constant() && b.constant() <= 0 && a.is_symbol()) return false;
  return std::nullopt;
}

std::optional<bool> negated(std::optional<bool> value) {
  return value ? std::optional<bool>(!*value) : std::nullopt;
}

std::optional<bool> known_logic(const std::string& op, const Dim& a, const Dim& b) {
  if (!a.is_constant() || !b.is_constant()) return std::nullopt;
  const bool x = a != Dim(0), y = b != Dim(0);
  return op == "And" ? x && y : op == "Or" ? x || y : x != y;
}

// What is known of the comparison or logical operator `op` of two elements.
std::optional<bool> known_result(const std::string& op, const Dim& a, const Dim& b) {
  if (op == "Equal") return known_equal(a, b);
  if (op == "Less") return known_less(a, b);
  if (op == "Greater") return known_less(b, a);
  if (op == "LessOrEqual") return negated(known_less(b, a));
  if (op == "GreaterOrEqual") return negated(known_less(a, b));
  return known_logic(op, a, b);
}

// Lets inference compute known elements: exporters choose branches by comparing shapes.
OpRow with_known_elements(OpRow row) {
  const std::string op = row.name;
  row.infer_elements = [op](InferContext& context) {
    const int last = op == "Not" ? 0 : 1;
    auto a = context.elements(0), b = context.elements(last);
    if (!a || !b || context.rank(0) > 1 || context.rank(last) > 1) return;
    const size_t count = a->size() == 1 ? b->size() : a->size();
    if ((a->size() != count && a->size() != 1) || (b->size() != count && b->size() != 1)) return;
    std::vector<Dim> result;
    for (size_t i = 0; i < count; ++i) {
      const Dim &x = (*a)[a->size() == 1 ? 0 : i], &y = (*b)[b->size() == 1 ? 0 : i];
      const auto known = op == "Not" ? known_logic("Xor", x, Dim(1)) : known_result(op, x, y);
      if (!known) return;
      result.push_back(Dim(*known ? 1 : 0));
    }
    context.set_elements(0, std::move(result));
  };
  return row;
}

OpRow where_row() {
  OpRow row = elementwise({"Where", 9, "select(a, b, c)", 3, "b where a is true, else c."});
  row.types = {{kBools, {0}}, {kAnyType, {1, 2}}};
  row.infer_elements = [](InferContext& context) {
    auto condition = context.elements(0), a = context.elements(1), b = context.elements(2);
    if (!condition || !a || !b) return;
    if (std::max({context.rank(0), context.rank(1), context.rank(2)}) > 1) return;
    const size_t count = std::max({condition->size(), a->size(), b->size()});
    auto at = [](const std::vector<Dim>& all, size_t i) { return all[all.size() == 1 ? 0 : i]; };
    for (const auto* all : {&*condition, &*a, &*b}) {
      if (all->size() != count && all->size() != 1) return;
    }
    std::vector<Dim> result;
    for (size_t i = 0; i < count; ++i) result.push_back(at(*condition, i) == Dim(0) ? at(*b, i) : at(*a, i));
    context.set_elements(0, std::move(result));
  };
  return row;
}

void infer_cast(InferContext& context, DType to) {
  choice_attribute(context.node(), "round_mode", {"up", "down", "nearest"});
  context.set_output(0, to, context.shape(0));
  if (is_float(to) || context.rank(0) > 1) return;
  auto elements = context.elements(0);
  if (!elements) return;
  if (to == DType::I64 || to == DType::I32) {
    context.set_elements(0, *elements);
  } else if (to == DType::Bool) {
    std::vector<Dim> result;
    for (const Dim& dim : *elements) {
      if (!dim.is_constant()) return;
      result.push_back(Dim(dim.constant() != 0 ? 1 : 0));
    }
    context.set_elements(0, result);
  }
}

// The power of two that a magnitude is rounded to.
ExprPtr cast_to_exponent(const ExprPtr& value, const CastRules& rules) {
  const DType type = value->dtype;
  ExprPtr magnitude = unary(UnaryOp::Abs, value);
  if (rules.saturate) {
    const ExprPtr inside = binary(BinaryOp::Min, magnitude, constant(type, largest_number(DType::F8E8M0)));
    magnitude = select(unary(UnaryOp::IsInf, magnitude), magnitude, inside);
  }
  if (rules.round_mode == "nearest") return cast(DType::F8E8M0, magnitude);
  const ExprPtr nearest = cast(type, cast(DType::F8E8M0, magnitude));
  const bool up = rules.round_mode == "up";
  const ExprPtr wrong = binary(up ? BinaryOp::Lt : BinaryOp::Gt, nearest, magnitude);
  return cast(DType::F8E8M0,
              select(wrong, binary(BinaryOp::Mul, nearest, constant(type, up ? 2 : 0.5)), nearest));
}

CastRules rules_of(const Node& node) {
  return {int_attribute(node, "saturate") != 0, string_attribute(node, "round_mode")};
}

void lower_cast(LowerContext& context) {
  auto space = context.space("i", *context.output_value(0).shape);
  ExprPtr value = context.read(0, space.position);
  const DType to = context.output_value(0).dtype;
  // The value must be rounded to the stored type first, because a local buffer of f16 keeps f32.
  if (value->dtype != to) value = cast_to(to, value, rules_of(context.node()));
  if (LowerContext::compute_type(to) != to) value = cast(LowerContext::compute_type(to), value);
  context.assign("e", space.iterators, context.output(0), space.position, value);
}

OpRow cast_row() {
  OpRow row =
      elementwise({"Cast", 1, "a", 1, "The element in another type `to`; floats are truncated to integers."});
  row.equation = "to(a)";
  row.forwards = forwards_same_shape;
  row.onnx = {{"Cast", 1, dtype_attribute("to")}};
  row.attributes = {{"to", std::string(), true, "text of the element type"},
                    {"saturate", int64_t{1}},
                    {"round_mode", std::string("up")}};
  row.infer = [](InferContext& context) {
    infer_cast(context, dtype_from_name(string_attribute(context.node(), "to")));
  };
  row.lower = lower_cast;
  return row;
}

OpRow cast_like_row() {
  OpRow row = elementwise({"CastLike", 15, "a", 2, "The element in the type of b."});
  row.equation = "type_of_b(a)";
  row.types.clear();
  row.attributes = {{"saturate", int64_t{1}}, {"round_mode", std::string("up")}};
  row.infer = [](InferContext& context) { infer_cast(context, context.dtype(1)); };
  row.lower = lower_cast;
  return row;
}

// False for signed integers of less than 8 bits, which are stored sign-extended in a byte.
bool fills_byte(DType type) { return bits_of(type) >= 8 || !is_integer(type) || !is_signed(type); }

// A cast between integers of equal width keeps the bits. Between a float and a signed integer of 4 bits the
// bits go through u4.
std::vector<Node> expand_bit_cast(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const DType from = build.dtype(node.inputs[0]), to = graph[node.outputs[0]].dtype;
  if (!is_float(from) && !is_float(to)) {
    build.add_to("Cast", node.inputs, node.outputs, {{"to", std::string(name_of(to))}});
    return build.take();
  }
  if (fills_byte(from) && fills_byte(to)) return {};
  TC_CHECK(bits_of(from) == 4, "a float of 4 bits for ", name_of(from), " and ", name_of(to));
  const std::map<std::string, Attribute> plain = {{"to", std::string(name_of(DType::U4))}};
  if (is_float(from)) {
    build.add_to("Cast", {build.add("BitCast", node.inputs, plain)}, node.outputs,
                 {{"to", std::string(name_of(to))}});
  } else {
    build.add_to("BitCast", {build.add("Cast", node.inputs, plain)}, node.outputs,
                 {{"to", std::string(name_of(to))}});
  }
  return build.take();
}

OpRow bit_cast_row() {
  OpRow row;
  row.name = "BitCast";
  row.category = "elementwise";
  row.doc = "The bits of the element as another type `to` of the same width.";
  row.onnx = {{"BitCast", 26, dtype_attribute("to")}};
  row.attributes = {{"to", std::string(), true, "text of the element type"}};
  row.traits.reinterprets = true;
  row.forwards = forwards_same_shape;
  row.infer = [](InferContext& context) {
    const DType from = context.dtype(0), to = dtype_from_name(string_attribute(context.node(), "to"));
    if (bits_of(from) != bits_of(to)) {
      context.error("the operand is ", name_of(from), ", of ", bits_of(from), " bits, and ", name_of(to),
                    " has ", bits_of(to), "; as many are needed");
    }
    context.set_output(0, to, context.shape(0));
  };
  // The kernel reads the operand's memory as the result's type.
  row.lower = [](LowerContext& context) {
    auto space = context.space("i", *context.output_value(0).shape);
    context.kernel().buffers[static_cast<size_t>(context.input(0))].dtype = context.output_value(0).dtype;
    context.assign("e", space.iterators, context.output(0), space.position,
                   context.read_buffer(context.input(0), space.position));
  };
  row.expand = expand_bit_cast;
  return row;
}

OpRow is_inf_row() {
  OpRow row = elementwise(
      {"IsInf", 10, "isinf(a)", 1, "True for infinities of the signs asked for.", {}, ResultType::Bool});
  row.attributes = {{"detect_positive", int64_t{1}}, {"detect_negative", int64_t{1}}};
  const std::map<std::string, Attribute> neither = {{"detect_positive", int64_t{0}},
                                                    {"detect_negative", int64_t{0}}};
  row.cases = {{neither, "and(and(isinf(a), a < 0), a > 0)"},
               {{{"detect_positive", int64_t{0}}}, "and(isinf(a), a < 0)"},
               {{{"detect_negative", int64_t{0}}}, "and(isinf(a), a > 0)"}};
  return row;
}

}  // namespace

ExprPtr cast_to(DType type, ExprPtr value, const CastRules& rules) {
  if (bits_of(type) < 8 && !is_float(type) && is_float(value->dtype))
    return cast(type, cast(DType::I32, value));
  if (!is_narrow_float(type)) return cast(type, value);
  // Integers that f32 does not represent exactly are larger than the type's largest number anyway.
  if (!is_float(value->dtype)) value = cast(DType::F32, value);
  if (type == DType::F8E8M0) return cast_to_exponent(value, rules);
  if (rules.saturate) {
    const double most = largest_number(type);
    value = binary(BinaryOp::Max, binary(BinaryOp::Min, value, constant(value->dtype, most)),
                   constant(value->dtype, -most));
  }
  return cast(type, value);
}

void register_compare_ops(OpTable& table) {
  const ElementwiseRow rows[] = {
      {"Equal", 1, "a == b", 2, "True where equal.", {}, ResultType::Bool},
      {"Greater", 1, "a > b", 2, "True where a is larger.", {}, ResultType::Bool},
      {"GreaterOrEqual", 12, "a >= b", 2, "True where a is not smaller.", {}, ResultType::Bool},
      {"Less", 1, "a < b", 2, "True where a is smaller.", {}, ResultType::Bool},
      {"LessOrEqual", 12, "a <= b", 2, "True where a is not larger.", {}, ResultType::Bool},
      {"And", 1, "and(a, b)", 2, "Logical and.", {}, ResultType::Bool},
      {"Or", 1, "or(a, b)", 2, "Logical or.", {}, ResultType::Bool},
      {"Xor", 1, "xor(a, b)", 2, "Logical exclusive or.", {}, ResultType::Bool},
      {"Not", 1, "not(a)", 1, "Logical negation.", {}, ResultType::Bool},
  };
  for (const ElementwiseRow& row : rows) table.add(with_known_elements(elementwise(row)));
  table.add(
      elementwise({"IsNaN", 9, "isnan(a)", 1, "True where the element is no number.", {}, ResultType::Bool}));
  table.add(is_inf_row());
  table.add(where_row());
  table.add(cast_row());
  table.add(cast_like_row());
  table.add(bit_cast_row());
}

}  // namespace tc
