// BatchNormalization in training mode.
#include "ir/ops/rows.h"

namespace tc {
namespace {

// Statistics of the batch, in the precision of the stored ones where that is higher.
std::vector<Node> expand_training(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId x = node.inputs[0];
  const Shape shape = build.shape(x);
  std::vector<int64_t> axes = {0};
  for (size_t i = 2; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  const ValueId mean = build.add("ReduceMean", {x}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  const ValueId away = build.add("Sub", {x, mean});
  const ValueId variance =
      build.add("ReduceMean", {build.add("Mul", {away, away})}, {{"axes", axes}, {"keepdims", int64_t{0}}});
  const ValueId flat = build.add("Reshape", {mean}, {{"shape", Shape{shape[1]}}, {"allowzero", int64_t{1}}});
  if (output_wanted(node, 0)) {
    build.add_to("BatchNormalization", {x, node.inputs[1], node.inputs[2], flat, variance}, {node.outputs[0]},
                 {{"epsilon", float_attribute(node, "epsilon")}});
  }
  const double momentum = float_attribute(node, "momentum");
  for (size_t i : {size_t{1}, size_t{2}}) {
    if (!output_wanted(node, i)) continue;
    const ValueId old_value = node.inputs[i + 2];
    const DType type = build.dtype(old_value);
    const ValueId kept = build.add("Mul", {old_value, build.number(type, momentum)});
    const ValueId fresh =
        build.add("Mul", {build.cast(i == 1 ? flat : variance, type), build.number(type, 1 - momentum)});
    build.give(i, build.add("Add", {kept, fresh}));
  }
  return build.take();
}

}  // namespace

OpRow batch_normalization_training(const OpRow& inference) {
  OpRow row;
  row.name = "BatchNormalizationTraining";
  row.kind = OpRow::Kind::Expand;
  row.category = inference.category;
  row.doc =
      "BatchNormalization with training_mode 1: by the batch's own statistics, which are mixed into the stored ones.";
  row.minimum_inputs = row.maximum_inputs = 5;
  row.outputs = 3;
  row.attributes = {{"epsilon", 1e-5}, {"momentum", 0.9}};
  row.infer = inference.infer;
  row.expand = expand_training;
  return row;
}

}  // namespace tc
