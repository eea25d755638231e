// Divides joins and sums of many tensors into several steps.
#include <algorithm>
#include <memory>

#include "ir/ops/op.h"
#include "ir/ops/rows.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

// Operands of one kernel: scheduling time grows with the square of their number and is 0.1 s for this many.
constexpr size_t kMaxJoined = 128;

// Operands of one Sum, Max or Min: each is a level of the kernel's expression tree, which is walked
// recursively.
constexpr size_t kMaxCombined = 64;

// The operator that combines some of the node's operands in the same way as the node combines all of them;
// null where there is none.
const OpRow* combining(const Node& node) {
  for (const char* name : {"Sum", "Max", "Min"}) {
    if (node.op == find_op(name)) return node.op;
  }
  return node.op == find_op("Mean") ? find_op("Sum") : nullptr;
}

// Splits the node into several, each of which has the previous one's result as its first operand, so that the
// order of the operands stays.
void divide_combination(Graph& graph, Node node, std::vector<Node>& nodes) {
  const ValueId result = node.outputs[0];
  const DType type = graph[result].dtype;
  const std::string name = graph[result].name + "_part";
  const std::vector<ValueId> operands = node.inputs;
  const bool is_mean = node.op != combining(node);
  std::vector<ValueId> taken;
  for (size_t i = 0; i < operands.size(); ++i) {
    taken.push_back(operands[i]);
    const bool is_last = i + 1 == operands.size();
    if (taken.size() < kMaxCombined && !is_last) continue;
    Node part = node;
    part.op = combining(node);
    part.inputs = taken;
    if (!is_last || is_mean) part.outputs = {graph.fresh_value(name, type)};
    taken = {part.outputs[0]};
    nodes.push_back(std::move(part));
  }
  if (!is_mean) return;
  auto count = std::make_shared<Tensor>(type, std::vector<int64_t>{});
  count->set(0, static_cast<double>(operands.size()));
  node.op = find_op("Div");
  node.inputs = {taken[0], graph.add_constant(name + "s", std::move(count))};
  nodes.push_back(std::move(node));
}

bool is_divided(const Graph& graph, const Node& node, int64_t axis) {
  if (node.op->traits.movement != OpTraits::Movement::Join || node.inputs.size() <= kMaxJoined) return false;
  // Operands that are adjacent in memory need no kernel.
  const Shape& shape = *graph[node.outputs[0]].shape;
  return std::any_of(shape.begin(), shape.begin() + axis, [](const Dim& size) { return size != Dim(1); });
}

}  // namespace

void divide_joins(Graph& graph) {
  std::vector<Node> nodes;
  for (Node& node : std::vector<Node>(std::move(graph.nodes))) {
    if (node.inputs.size() > kMaxCombined && combining(node) != nullptr) {
      divide_combination(graph, std::move(node), nodes);
      continue;
    }
    const bool join = node.op->traits.movement == OpTraits::Movement::Join;
    const int64_t rank = join ? static_cast<int64_t>(graph[node.outputs[0]].shape->size()) : 0;
    const int64_t given = join ? int_attribute(node, "axis") : 0, axis = given < 0 ? given + rank : given;
    while (is_divided(graph, node, axis)) {
      std::vector<ValueId> joined;
      for (size_t begin = 0; begin < node.inputs.size(); begin += kMaxJoined) {
        Node part = node;
        const auto first = node.inputs.begin() + static_cast<std::ptrdiff_t>(begin);
        part.inputs.assign(
            first, first + static_cast<std::ptrdiff_t>(std::min(kMaxJoined, node.inputs.size() - begin)));
        Shape shape = *graph[part.inputs[0]].shape;
        for (size_t i = 1; i < part.inputs.size(); ++i)
          shape[axis] = shape[axis] + (*graph[part.inputs[i]].shape)[axis];
        const Value& whole = graph[node.outputs[0]];
        part.outputs = {graph.fresh_value(std::string(whole.name) + "_part", DType(whole.dtype), shape)};
        joined.push_back(part.outputs[0]);
        nodes.push_back(std::move(part));
      }
      node.inputs = std::move(joined);
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace tc
