// Computes while compiling: constant nodes, batch normalisation into weights.
#include <cmath>
#include <cstring>
#include <set>

#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

constexpr int64_t kMostFilled = int64_t{1} << 28;
constexpr double kMostOperations = 1 << 24;

// ConstantOfShape and Expand of one element: no need to interpret.
TensorPtr filled(const Graph& graph, const Node& node) {
  const Value& out = graph[node.outputs[0]];
  if (node.op->name != "ConstantOfShape" || node.outputs.size() != 1) return nullptr;
  if (element_count(*out.shape).constant() > kMostFilled) return nullptr;
  auto tensor = std::make_shared<Tensor>(out.dtype, constant_shape(*out.shape));
  auto found = node.attributes.find("value");
  if (found == node.attributes.end()) return tensor;
  const auto* value = std::get_if<TensorPtr>(&found->second);
  if (!value || (*value)->dtype != out.dtype || (*value)->count() != 1) return nullptr;
  const size_t size = (*value)->bytes.size();
  for (size_t at = 0; at < tensor->bytes.size(); at += size) std::memcpy(tensor->bytes.data() + at, (*value)->bytes.data(), size);
  return tensor;
}

struct ScaleShift {
  std::vector<double> scale, shift;
};

std::optional<ScaleShift> scale_shift(const Graph& graph, const Node& node) {
  std::vector<TensorPtr> parameters;
  for (int i = 1; i <= 4; ++i) {
    if (!graph[node.inputs[i]].constant) return std::nullopt;
    parameters.push_back(graph[node.inputs[i]].constant);
  }
  const double epsilon = float_attribute(node, "epsilon");
  ScaleShift result;
  for (int64_t c = 0; c < parameters[0]->count(); ++c) {
    const double scale = parameters[0]->as_double(c) / std::sqrt(parameters[3]->as_double(c) + epsilon);
    result.scale.push_back(scale);
    result.shift.push_back(parameters[1]->as_double(c) - parameters[2]->as_double(c) * scale);
  }
  return result;
}

// Scales the weights' output channels, and the bias with them.
void fold_into(Graph& graph, Node& convolution, const ScaleShift& by, const std::string& name) {
  const Tensor& weights = *graph[convolution.inputs[1]].constant;
  auto scaled = std::make_shared<Tensor>(weights);
  const int64_t channels = static_cast<int64_t>(by.scale.size());
  const bool transposed = convolution.op->name == "ConvTranspose";
  const int64_t groups = int_attribute(convolution, "group");
  const int64_t axis1 = weights.shape[1];
  int64_t inner = 1;
  for (size_t i = 2; i < weights.shape.size(); ++i) inner *= weights.shape[i];
  for (int64_t i = 0; i < weights.count(); ++i) {
    int64_t channel = i / (inner * axis1);
    if (transposed) channel = channel / (weights.shape[0] / groups) * axis1 + i / inner % axis1;
    scaled->set(i, weights.as_double(i) * by.scale[channel]);
  }
  auto bias = std::make_shared<Tensor>(weights.dtype, std::vector<int64_t>{channels});
  const bool had = convolution.inputs.size() > 2 && convolution.inputs[2] != kNoValue;
  for (int64_t c = 0; c < channels; ++c) {
    const double old = had ? graph[convolution.inputs[2]].constant->as_double(c) : 0.0;
    bias->set(c, old * by.scale[c] + by.shift[c]);
  }
  convolution.inputs.resize(3, kNoValue);
  convolution.inputs[1] = graph.add_constant(name + "_weights", scaled);
  convolution.inputs[2] = graph.add_constant(name + "_bias", bias);
}

std::vector<Node> as_scale_and_shift(Graph& graph, const Node& node, const ScaleShift& by) {
  const Value out = graph[node.outputs[0]];
  std::vector<int64_t> shape(out.shape->size() - 1, 1);
  shape[0] = static_cast<int64_t>(by.scale.size());
  auto scale = std::make_shared<Tensor>(out.dtype, shape), shift = std::make_shared<Tensor>(out.dtype, shape);
  for (int64_t c = 0; c < shape[0]; ++c) {
    scale->set(c, by.scale[c]);
    shift->set(c, by.shift[c]);
  }
  Node product = node, sum = node;
  product.op = find_op("Mul");
  sum.op = find_op("Add");
  product.attributes.clear();
  sum.attributes.clear();
  product.inputs = {node.inputs[0], graph.add_constant(out.name + "_scale", scale)};
  product.outputs = {graph.fresh_value(out.name + "_scaled", out.dtype, out.shape)};
  sum.inputs = {product.outputs[0], graph.add_constant(out.name + "_shift", shift)};
  sum.outputs = {node.outputs[0]};
  return {product, sum};
}

}  // namespace

bool fold_node(Graph& graph, const Node& node, double most_operations) {
  if (node.op->kind == OpRow::Kind::Control || node.op->kind == OpRow::Kind::Expand || !node.op->lower) return false;
  for (ValueId id : node.inputs) {
    if (id != kNoValue && !graph[id].constant) return false;
  }
  for (ValueId id : node.outputs) {
    if (id == kNoValue || !graph[id].shape || !is_constant(*graph[id].shape)) return false;
  }
  if (TensorPtr tensor = most_operations >= kMostOperations ? filled(graph, node) : nullptr) {
    graph[node.outputs[0]].constant = tensor;
    return true;
  }
  if (node.op->kind == OpRow::Kind::View) {
    auto tensor = std::make_shared<Tensor>(*graph[node.inputs[0]].constant);
    tensor->shape = constant_shape(*graph[node.outputs[0]].shape);
    graph[node.outputs[0]].constant = tensor;
    return true;
  }
  double elements = 0;
  for (ValueId id : node.outputs) elements += static_cast<double>(element_count(*graph[id].shape).constant());
  if (elements > most_operations) return false;
  std::vector<ValueId> arguments;
  graph.nodes.push_back(node);
  const Kernel kernel = lower_group(graph, {static_cast<int>(graph.nodes.size()) - 1}, node.outputs, &arguments);
  graph.nodes.pop_back();
  if (flop_count(kernel, {}) > most_operations) return false;
  std::map<std::string, Tensor> buffers;
  auto for_arguments = [&](const std::function<void(const Buffer&, Value&)>& visit) {
    size_t argument = 0;
    for (const Buffer& buffer : kernel.buffers) {
      if (buffer.scope != Scope::Local) visit(buffer, graph[arguments.at(argument++)]);
    }
  };
  for_arguments([&](const Buffer& buffer, Value& value) {
    buffers[buffer.name] = buffer.scope == Scope::Output ? Tensor(value.dtype, constant_shape(*value.shape)) : *value.constant;
  });
  interpret(kernel, {}, buffers, true);
  for_arguments([&](const Buffer& buffer, Value& value) {
    if (buffer.scope == Scope::Output) value.constant = std::make_shared<const Tensor>(std::move(buffers[buffer.name]));
  });
  return true;
}

void fold_constants(Graph& graph) {
  std::vector<Node> old = std::move(graph.nodes);
  graph.nodes.clear();
  std::vector<Node> kept;
  for (Node& node : old) {
    if (!fold_node(graph, node, kMostOperations)) kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
}

void fold_batch_norm(Graph& graph) {
  const std::set<ValueId> outputs(graph.outputs.begin(), graph.outputs.end());
  const std::vector<int> producers = graph.producers();
  const std::vector<std::vector<int>> consumers = graph.consumers();
  std::vector<Node> nodes;
  std::map<int, size_t> moved;     // old index of a node -> its place in `nodes`
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node node = graph.nodes[i];
    moved[static_cast<int>(i)] = nodes.size();
    if (node.op->name != "BatchNormalization" || node.outputs.size() != 1) {
      nodes.push_back(node);
      continue;
    }
    const auto by = scale_shift(graph, node);
    if (!by) {
      nodes.push_back(node);
      continue;
    }
    const ValueId in = node.inputs[0];
    const int maker = producers[in];
    bool foldable = maker >= 0 && consumers[in].size() == 1 && !outputs.count(in);
    if (foldable) {
      const Node& before = nodes[moved[maker]];
      const bool has_bias = before.inputs.size() > 2 && before.inputs[2] != kNoValue;
      foldable = (before.op->name == "Conv" || before.op->name == "ConvTranspose") && graph[before.inputs[1]].constant &&
                 (!has_bias || graph[before.inputs[2]].constant);
    }
    if (foldable) {
      Node& convolution = nodes[moved[maker]];
      fold_into(graph, convolution, *by, graph[node.outputs[0]].name);
      convolution.outputs[0] = node.outputs[0];
    } else {
      for (Node& part : as_scale_and_shift(graph, node, *by)) nodes.push_back(std::move(part));
    }
  }
  graph.nodes = std::move(nodes);
}

}  // namespace tc
