// Operators that ONNX Runtime's optimiser produces and may save to files: a convolution or a product fused
// with the sum and the activation after it, and quantised operators whose channels come last.
#include <algorithm>
#include <map>

#include "ir/ops/quantised_rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

using Attributes = std::map<std::string, Attribute>;

OpRow optimised(const std::string& name, const std::string& category, const std::string& doc,
                const InputCount& inputs) {
  OpRow row;
  row.name = name;
  row.kind = OpRow::Kind::Expand;
  row.category = category;
  row.doc = doc;
  row.onnx = {{name, 1, nullptr, "com.microsoft"}};
  row.minimum_inputs = inputs.minimum;
  row.maximum_inputs = inputs.maximum;
  return row;
}

// The attributes of the node that the row `of` has.
Attributes attributes_of(const Node& node, const std::string& of) {
  Attributes result;
  for (const auto& [name, value] : node.attributes) {
    if (find_op(of)->attribute(name)) result[name] = value;
  }
  return result;
}

// --- FusedConv ----------------------------------------------------------------------------------------

// An activation that can be fused into a convolution; its parameters are in the order of `activation_params`.
struct Activation {
  const char* name;
  std::vector<const char*> numbers;
};
const Activation kActivations[] = {{"Relu", {}},
                                   {"Tanh", {}},
                                   {"Sigmoid", {}},
                                   {"HardSwish", {}},
                                   {"LeakyRelu", {"alpha"}},
                                   {"Clip", {"min", "max"}},
                                   {"HardSigmoid", {"alpha", "beta"}}};

const Activation* activation_of(const Node& node) {
  const std::string name = string_attribute(node, "activation");
  const auto found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                  [&](const Activation& each) { return name == each.name; });
  return found == std::end(kActivations) ? nullptr : found;
}

// Inputs: X, W, B, and Z, which is added before the activation.
void infer_fused_conv(InferContext& context) {
  const Activation* activation = activation_of(context.node());
  const size_t given = floats_attribute(context.node(), "activation_params").size();
  if (given != (activation ? activation->numbers.size() : 0)) {
    context.error("activation_params has ", given, " numbers; activation '",
                  string_attribute(context.node(), "activation"), "' takes ",
                  activation ? activation->numbers.size() : 0);
  }
  std::vector<int> inputs = {0, 1};
  if (context.has_input(2)) inputs.push_back(2);
  const Shape shape = shape_as(context, "Conv", inputs, context.dtype(0));
  need_shape(context, 3, shape);
  context.set_output(0, context.dtype(0), shape);
}

std::vector<Node> expand_fused_conv(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  std::vector<ValueId> inputs = {node.inputs[0], node.inputs[1]};
  if (input_given(node, 2)) inputs.push_back(node.inputs[2]);
  ValueId value = build.add("Conv", inputs, attributes_of(node, "Conv"));
  if (input_given(node, 3)) value = build.add("Add", {value, node.inputs[3]});
  if (const Activation* activation = activation_of(node)) {
    const std::vector<double> numbers = floats_attribute(node, "activation_params");
    Attributes attributes;
    for (size_t i = 0; i < numbers.size(); ++i) attributes[activation->numbers[i]] = numbers[i];
    value = build.add(activation->name, {value}, attributes);
  }
  build.give(0, value);
  return build.take();
}

OpRow fused_convolution(const OpTable& table) {
  OpRow row = optimised("FusedConv", "convolution",
                        "Convolution, a sum with a further operand, and an activation.", {2, 4});
  row.types = {{kFloats}};
  row.attributes = table.rows.at("Conv").attributes;
  std::vector<std::string> names = {""};
  for (const Activation& each : kActivations) names.emplace_back(each.name);
  row.attributes.push_back({"activation", std::string(), false, "", one_of(names)});
  row.attributes.push_back({"activation_params", std::vector<double>()});
  row.infer = infer_fused_conv;
  row.expand = expand_fused_conv;
  return row;
}

// --- FusedGemm ----------------------------------------------------------------------------------------

OpRow fused_product(const OpTable& table) {
  OpRow row = optimised("FusedGemm", "matrix product", "Gemm and an activation.", {2, 3});
  row.types = {{kFloats}};
  row.attributes = table.rows.at("Gemm").attributes;
  row.attributes.push_back({"activation", std::string(), false, "",
                            one_of({"", "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Elu", "HardSigmoid", "Selu",
                                    "Softplus", "Softsign", "ThresholdedRelu"})});
  for (const char* name : {"alpha", "beta", "gamma"})
    row.attributes.push_back({text("activation_", name), 0.0});
  row.infer = table.rows.at("Gemm").infer;
  row.expand = [](Graph& graph, const Node& node) {
    NodeBuilder build(graph, node);
    ValueId value = build.add("Gemm", node.inputs, attributes_of(node, "Gemm"));
    const std::string activation = string_attribute(node, "activation");
    if (!activation.empty()) {
      Attributes attributes;
      for (const char* name : {"alpha", "beta", "gamma"}) {
        const std::string ours = text("activation_", name);
        if (has_attribute(node, ours) && find_op(activation)->attribute(name))
          attributes[name] = float_attribute(node, ours);
      }
      value = build.add(activation, {value}, attributes);
    }
    build.give(0, value);
    return build.take();
  };
  return row;
}

// --- channels last ------------------------------------------------------------------------------------

// A row like the row `as`, but with the channels of input 0 and of the result last.
OpRow with_channels_last(const OpTable& table, const OnnxName& name, const std::string& as,
                         const std::string& doc) {
  const OpRow& plain = table.rows.at(as);
  OpRow row =
      optimised(text("ChannelsLast", as), plain.category, doc, {plain.minimum_inputs, plain.maximum_inputs});
  row.onnx = {name};
  row.types = plain.types;
  row.attributes = plain.attributes;
  row.attributes.push_back(
      {"channels_last", int64_t{name.name == "QLinearConv" ? 0 : 1}, false, "", from_to(0, 1)});
  row.infer = [as](InferContext& context) {
    const bool last = int_attribute(context.node(), "channels_last") != 0, convolution = as == "QLinearConv";
    const Shape shape = convolution ? shape_as(context, "Conv", {0, 3}, DType::I32, last)
                                    : shape_as(context, as, {0}, context.dtype(0), last);
    context.set_output(0, context.dtype(convolution ? 7 : 0), shape);
  };
  row.expand = [as](Graph& graph, const Node& node) {
    NodeBuilder build(graph, node);
    const bool last = int_attribute(node, "channels_last") != 0;
    const int64_t rank = static_cast<int64_t>(build.shape(node.inputs[0]).size());
    std::vector<ValueId> inputs = node.inputs;
    if (last) inputs[0] = build.add("Transpose", {inputs[0]}, {{"perm", channels_to_front(rank)}});
    ValueId value = build.add(as, inputs, attributes_of(node, as));
    if (last) value = build.add("Transpose", {value}, {{"perm", channels_to_back(rank)}});
    build.give(0, value);
    return build.take();
  };
  return row;
}

}  // namespace

void register_optimised_ops(OpTable& table) {
  table.add(fused_convolution(table));
  table.add(fused_product(table));
  table.add(with_channels_last(table, {"QLinearConv", 1, checked_scales({1, 4, 6}), "com.microsoft"},
                               "QLinearConv",
                               "QLinearConv of a tensor whose channels come last, if `channels_last`."));
  table.add(with_channels_last(table, {"NhwcMaxPool", 1, nullptr, "com.microsoft"}, "MaxPool",
                               "MaxPool of a tensor whose channels come last."));
}

}  // namespace tc
