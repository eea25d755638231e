// Computes constant nodes while compiling.
#include <cstring>

#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

constexpr int64_t kMostFilled = int64_t{1} << 28;
constexpr double kMostOperations = 1 << 24;

// Tensors of one value: no need to interpret.
TensorPtr filled(const Graph& graph, const Node& node) {
  const Value& out = graph[node.outputs[0]];
  if (!node.op->traits.fill || node.outputs.size() != 1) return nullptr;
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

// Transposes by moving elements: weights may be large for the interpreter.
TensorPtr transposed(const Tensor& in, const std::vector<int64_t>& order) {
  std::vector<int64_t> shape, strides;
  std::vector<int64_t> in_strides(in.shape.size(), 1);
  for (size_t i = in.shape.size(); i > 1; --i) in_strides[i - 2] = in_strides[i - 1] * in.shape[i - 1];
  for (int64_t axis : order) {
    shape.push_back(in.shape[axis]);
    strides.push_back(in_strides[axis]);
  }
  auto out = std::make_shared<Tensor>(in.dtype, shape);
  const size_t size = static_cast<size_t>(size_of(in.dtype));
  std::vector<int64_t> at(shape.size(), 0);
  int64_t from = 0;
  const int64_t count = out->count();
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(out->bytes.data() + static_cast<size_t>(i) * size, in.bytes.data() + static_cast<size_t>(from) * size, size);
    for (size_t d = shape.size(); d > 0; --d) {
      from += strides[d - 1];
      if (++at[d - 1] < shape[d - 1]) break;
      from -= strides[d - 1] * shape[d - 1];
      at[d - 1] = 0;
    }
  }
  return out;
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
  if (node.op->kind == OpRow::Kind::View || node.op->traits.reinterprets) {
    auto tensor = std::make_shared<Tensor>(*graph[node.inputs[0]].constant);
    tensor->shape = constant_shape(*graph[node.outputs[0]].shape);
    tensor->dtype = graph[node.outputs[0]].dtype;
    graph[node.outputs[0]].constant = tensor;
    return true;
  }
  if (node.op->traits.movement == OpTraits::Movement::Permute && node.inputs.size() == 1) {
    const Tensor& in = *graph[node.inputs[0]].constant;
    std::vector<int64_t> order = has_attribute(node, "perm") ? ints_attribute(node, "perm") : std::vector<int64_t>();
    if (order.empty()) {
      for (size_t d = in.shape.size(); d > 0; --d) order.push_back(static_cast<int64_t>(d) - 1);
    }
    graph[node.outputs[0]].constant = transposed(in, order);
    return true;
  }
  double elements = 0;
  for (ValueId id : node.outputs) elements += static_cast<double>(element_count(*graph[id].shape).constant());
  if (elements > most_operations) return false;
  std::vector<ValueId> arguments;
  graph.nodes.push_back(node);
  const Kernel kernel = lower_group(graph, {static_cast<int>(graph.nodes.size()) - 1}, node.outputs, &arguments);
  graph.nodes.pop_back();
  if (!kernel.parameters.empty()) return false;   // a number that a size decides
  if (flop_count(kernel, {}) > most_operations) return false;
  std::map<std::string, Tensor> buffers;
  for_each_argument(kernel, [&](const Buffer& buffer, size_t argument) {
    const Value& value = graph[arguments.at(argument)];
    buffers[buffer.name] = buffer.scope == Scope::Output ? Tensor(value.dtype, constant_shape(*value.shape)) : *value.constant;
  });
  interpret(kernel, {}, buffers, true);
  for_each_argument(kernel, [&](const Buffer& buffer, size_t argument) {
    if (buffer.scope != Scope::Output) return;
    graph[arguments.at(argument)].constant = std::make_shared<const Tensor>(std::move(buffers[buffer.name]));
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

}  // namespace tc
