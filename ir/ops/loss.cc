// Losses of classifiers: the negative logarithm of the probability of each sample's class.
#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// Inputs: scores [batch, classes, …], classes [batch, …], weights [classes].
void infer_loss(InferContext& context) {
  const Shape& scores = context.shape(0);
  if (scores.size() < 2)
    context.error("the input has shape ", str(scores), "; [batch, classes, …] is needed");
  const DType type = context.dtype(0), index = context.dtype(1);
  if (!is_float(type)) context.error("input 0 has type ", name_of(type), "; a float type is needed");
  if (index != DType::I64 && index != DType::I32)
    context.error("input 1 has type ", name_of(index), "; i32 or i64 is needed");
  Shape samples = scores;
  samples.erase(samples.begin() + 1);
  need_shape(context, 1, samples);
  if (context.has_input(2)) {
    if (context.dtype(2) != type)
      context.error("input 2 has type ", name_of(context.dtype(2)), "; ", name_of(type), " is needed");
    need_shape(context, 2, {scores[1]});
  }
  const bool none = choice_attribute(context.node(), "reduction", {"mean", "none", "sum"}) == "none";
  context.set_output(0, type, none ? samples : Shape{});
  context.set_output(1, type, scores);
}

// A number for each sample: the weight of its class, 0 where it is ignored. kNoValue: all are 1.
ValueId sample_weights(NodeBuilder& build, const Node& node, ValueId ignored, ValueId safe) {
  const DType type = build.dtype(node.inputs[0]);
  ValueId weights = kNoValue;
  if (input_given(node, 2)) weights = build.add("Gather", {node.inputs[2], safe}, {{"axis", int64_t{0}}});
  if (ignored == kNoValue) return weights;
  const ValueId kept = weights == kNoValue ? build.number(type, 1) : weights;
  return build.add("Where", {ignored, build.number(type, 0), kept});
}

std::vector<Node> expand_log_likelihood(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId classes = build.cast(node.inputs[1], DType::I64);
  const DType type = build.dtype(node.inputs[0]);
  ValueId ignored = kNoValue, safe = classes;
  if (has_attribute(node, "ignore_index")) {
    // The label of an ignored sample need not be a valid class.
    ignored = build.add("Equal", {classes, build.integer(DType::I64, int_attribute(node, "ignore_index"))});
    safe = build.add("Where", {ignored, build.integer(DType::I64, 0), classes});
  }
  const std::map<std::string, Attribute> axis = {{"axes", std::vector<int64_t>{1}}};
  const ValueId chosen = build.add("GatherElements", {node.inputs[0], build.add("Unsqueeze", {safe}, axis)},
                                   {{"axis", int64_t{1}}});
  ValueId loss = build.add("Neg", {build.add("Squeeze", {chosen}, axis)});
  const ValueId weights = sample_weights(build, node, ignored, safe);
  if (weights != kNoValue) loss = build.add("Mul", {weights, loss});
  // The loss of an ignored sample may be infinite, so it is replaced, not multiplied by 0.
  if (ignored != kNoValue) loss = build.add("Where", {ignored, build.number(type, 0), loss});
  const std::string reduction = string_attribute(node, "reduction");
  const std::map<std::string, Attribute> all = {{"keepdims", int64_t{0}}};
  if (reduction == "sum") loss = build.add("ReduceSum", {loss}, all);
  if (reduction == "mean" && weights == kNoValue) loss = build.add("ReduceMean", {loss}, all);
  if (reduction == "mean" && weights != kNoValue) {
    // `weights` has a number per sample; the loss is divided by their sum.
    loss = build.add("Div", {build.add("ReduceSum", {loss}, all), build.add("ReduceSum", {weights}, all)});
  }
  build.give(0, loss);
  return build.take();
}

std::vector<Node> expand_cross_entropy(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId logarithms = build.add("LogSoftmax", {node.inputs[0]}, {{"axis", int64_t{1}}});
  build.give(1, logarithms);
  if (!output_wanted(node, 0)) return build.take();
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = logarithms;
  build.add_to("NegativeLogLikelihoodLoss", inputs, {node.outputs[0]}, node.attributes);
  return build.take();
}

OpRow loss_row(const std::string& name, const std::string& doc, int outputs,
               std::vector<Node> (*expand)(Graph&, const Node&)) {
  OpRow row;
  row.name = name;
  row.kind = OpRow::Kind::Expand;
  row.category = "loss";
  row.doc = doc;
  row.onnx = {{name, 12}};
  row.minimum_inputs = 2;
  row.maximum_inputs = 3;
  row.outputs = outputs;
  row.attributes = {{"ignore_index", int64_t{-1}}, {"reduction", std::string("mean")}};
  row.infer = infer_loss;
  row.expand = expand;
  return row;
}

}  // namespace

void register_loss_ops(OpTable& table) {
  table.add(loss_row("NegativeLogLikelihoodLoss",
                     "The negated logarithm at each sample's class, weighted and summed or averaged.", 1,
                     expand_log_likelihood));
  table.add(loss_row("SoftmaxCrossEntropyLoss",
                     "NegativeLogLikelihoodLoss of the logarithm of the softmax over axis 1.", 2,
                     expand_cross_entropy));
}

}  // namespace tc
