// Computes one node whose inputs are constants.
#include "ir/fold_node.h"

#include <cstring>
#include <optional>

#include "ir/error.h"
#include "ir/held_constants.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

constexpr int64_t kMaxFilled = int64_t{1} << 28;

void give(Graph& graph, ValueId id, Tensor tensor) {
  graph[id].constant = held(std::make_shared<const Tensor>(std::move(tensor)), graph[id].name);
}

double bytes_of_outputs(const Graph& graph, const Node& node) {
  double bytes = 0;
  for (ValueId id : node.outputs)
    bytes += static_cast<double>(element_count(*graph[id].shape).constant()) *
             static_cast<double>(size_of(graph[id].dtype));
  return bytes;
}

// The output of a node that fills a tensor with one value: it need not be interpreted.
std::optional<Tensor> filled(const Graph& graph, const Node& node) {
  const Value& out = graph[node.outputs[0]];
  if (!node.op->traits.fill || node.outputs.size() != 1) return std::nullopt;
  if (element_count(*out.shape).constant() > kMaxFilled) return std::nullopt;
  Tensor tensor(out.dtype, constant_shape(*out.shape));
  auto found = node.attributes.find("value");
  if (found == node.attributes.end()) return tensor;
  const auto* value = std::get_if<TensorPtr>(&found->second);
  if (!value || (*value)->dtype != out.dtype || (*value)->count() != 1) return std::nullopt;
  const size_t size = (*value)->bytes.size();
  for (size_t at = 0; at < tensor.bytes.size(); at += size)
    std::memcpy(tensor.bytes.data() + at, (*value)->bytes.data(), size);
  return tensor;
}

// Transposes by moving elements: weights may be too large for the interpreter.
Tensor transposed(const Tensor& in, const std::vector<int64_t>& order) {
  std::vector<int64_t> shape, strides;
  std::vector<int64_t> in_strides(in.shape.size(), 1);
  for (size_t i = in.shape.size(); i > 1; --i) in_strides[i - 2] = in_strides[i - 1] * in.shape[i - 1];
  for (int64_t axis : order) {
    shape.push_back(in.shape[axis]);
    strides.push_back(in_strides[axis]);
  }
  Tensor out(in.dtype, shape);
  const size_t size = static_cast<size_t>(size_of(in.dtype));
  std::vector<int64_t> at(shape.size(), 0);
  int64_t from = 0;
  const int64_t count = out.count();
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(out.bytes.data() + static_cast<size_t>(i) * size,
                in.bytes.data() + static_cast<size_t>(from) * size, size);
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
  if (node.op->kind == OpRow::Kind::Control || node.op->kind == OpRow::Kind::Expand ||
      !has_lowering(*node.op))
    return false;
  for (ValueId id : node.inputs) {
    if (id != kNoValue && !graph[id].constant) return false;
  }
  for (ValueId id : node.outputs) {
    if (id == kNoValue || !graph[id].shape || !is_constant(*graph[id].shape)) return false;
  }
  // An output that is too large to hold while compiling is computed when the model runs.
  if (!may_hold(bytes_of_outputs(graph, node))) return false;
  if (std::optional<Tensor> tensor =
          most_operations >= kMaxFoldedOperations ? filled(graph, node) : std::nullopt) {
    give(graph, node.outputs[0], std::move(*tensor));
    return true;
  }
  if (node.op->kind == OpRow::Kind::View || node.op->traits.reinterprets) {
    Tensor tensor = *graph[node.inputs[0]].constant;
    tensor.shape = constant_shape(*graph[node.outputs[0]].shape);
    tensor.dtype = graph[node.outputs[0]].dtype;
    give(graph, node.outputs[0], std::move(tensor));
    return true;
  }
  if (node.op->traits.movement == OpTraits::Movement::Permute && node.inputs.size() == 1) {
    const Tensor& in = *graph[node.inputs[0]].constant;
    std::vector<int64_t> order =
        has_attribute(node, "perm") ? ints_attribute(node, "perm") : std::vector<int64_t>();
    if (order.empty()) {
      for (size_t d = in.shape.size(); d > 0; --d) order.push_back(static_cast<int64_t>(d) - 1);
    }
    give(graph, node.outputs[0], transposed(in, order));
    return true;
  }
  double elements = 0;
  for (ValueId id : node.outputs) elements += static_cast<double>(element_count(*graph[id].shape).constant());
  if (elements > most_operations) return false;
  std::vector<ValueId> arguments;
  graph.nodes.push_back(node);
  const Kernel kernel =
      lower_group(graph, {static_cast<int>(graph.nodes.size()) - 1}, node.outputs, &arguments);
  graph.nodes.pop_back();
  if (!kernel.parameters.empty()) return false;  // a number that a size decides
  const double operations = flop_count(kernel, {});
  if (operations > most_operations || !may_compute(operations + elements)) return false;
  std::map<std::string, Tensor> buffers;
  for_each_argument(kernel, [&](const Buffer& buffer, size_t argument) {
    const Value& value = graph[arguments.at(argument)];
    buffers[buffer.name] =
        buffer.scope == Scope::Output ? Tensor(value.dtype, constant_shape(*value.shape)) : *value.constant;
  });
  interpret(kernel, {}, buffers, true);
  for_each_argument(kernel, [&](const Buffer& buffer, size_t argument) {
    if (buffer.scope != Scope::Output) return;
    give(graph, arguments.at(argument), std::move(buffers[buffer.name]));
  });
  return true;
}

}  // namespace tc
