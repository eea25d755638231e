// Inference and lowering of nodes by their rows: by the row's own functions or, where it has none, by its
// equation.
#include <algorithm>

#include "ir/ops/equation.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

// Attributes of nodes that a case of equations may ask for.
bool has_value(const Node& node, const std::string& name, const Attribute& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return int_attribute(node, name) == *number;
  const auto* text = std::get_if<std::string>(&value);
  TC_CHECK(text, "an integer or a text for attribute '", name, "' of a case");
  return string_attribute(node, name) == *text;
}

const std::string& equation_of(const Node& node) {
  const auto found =
      std::find_if(node.op->cases.begin(), node.op->cases.end(), [&](const EquationCase& candidate) {
        return std::all_of(
            candidate.attributes.begin(), candidate.attributes.end(),
            [&](const auto& attribute) { return has_value(node, attribute.first, attribute.second); });
      });
  const std::string& result = found == node.op->cases.end() ? node.op->equation : found->equation;
  TC_CHECK(!result.empty(), "functions or an equation of ", node.op->name);
  return result;
}

// The number of the input that the formula calls by this name, or -1.
int input_named(const std::string& name, int inputs) {
  for (int i = 0; i < inputs; ++i) {
    if (operand_name(static_cast<size_t>(i)) == name) return i;
  }
  return -1;
}

void infer_formula(InferContext& context, const Formula& formula) {
  const int inputs = context.input_count();
  std::vector<Shape> shapes;
  for (int i = 0; i < inputs; ++i) shapes.push_back(context.shape(i));
  const auto type = type_of(formula, [&](const Formula& leaf) -> std::optional<DType> {
    const int input = input_named(leaf.name, inputs);
    return input < 0 ? std::nullopt : std::optional<DType>(context.dtype(input));
  });
  context.set_output(0, type.value_or(context.dtype(0)), context.broadcast(shapes));
}

void lower_formula(LowerContext& context, const Formula& formula) {
  const Node& node = context.node();
  const auto space = context.space("i", *context.output_value(0).shape);
  std::map<std::string, ExprPtr> operands;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int input = static_cast<int>(i);
    operands[operand_name(i)] =
        context.read(input, context.broadcast_index(context.shape(input), space.position));
  }
  std::map<std::string, double> numbers = {{"count", static_cast<double>(node.inputs.size())}};
  for (const AttributeRow& attribute : node.op->attributes) {
    if (std::holds_alternative<double>(attribute.fallback))
      numbers[attribute.name] = float_attribute(node, attribute.name);
  }
  const DType type = LowerContext::compute_type(context.dtype(0));
  context.assign("e", space.iterators, context.output(0), space.position,
                 build_formula(formula, operands, numbers, type, node.inputs.size()));
}

// Sums of products are called "macc", as in "multiply and accumulate".
const char* statement_name(const Equation& equation) {
  const bool product =
      equation.value->kind == Formula::Kind::Binary && equation.value->binary == BinaryOp::Mul;
  return equation.reduction == Reduction::None             ? "e"
         : equation.reduction == Reduction::Sum && product ? "macc"
                                                           : "reduce";
}

}  // namespace

void infer_by_row(InferContext& context) {
  const OpRow& row = *context.node().op;
  if (row.infer) {
    row.infer(context);
  } else {
    const std::string& text = equation_of(context.node());
    const auto parsed = parsed_once(text);
    parsed->equation ? static_cast<void>(infer_equation(context, text))
                     : infer_formula(context, *parsed->formula);
  }
  if (row.infer_elements) row.infer_elements(context);
}

void lower_by_row(LowerContext& context) {
  const OpRow& row = *context.node().op;
  if (row.lower) return row.lower(context);
  const std::string& text = equation_of(context.node());
  const auto parsed = parsed_once(text);
  if (!parsed->equation) return lower_formula(context, *parsed->formula);
  lower_equation(context, text, statement_name(*parsed->equation), context.output(0));
}

bool has_lowering(const OpRow& row) {
  return row.lower || (row.kind == OpRow::Kind::Compute && !row.equation.empty());
}

}  // namespace tc
