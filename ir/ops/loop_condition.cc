#include "ir/ops/loop_condition.h"

#include <vector>

#include "ir/ops/op.h"

namespace tc {
namespace {

// The value from which a value of one element comes, looking through views.
ValueId source_of(const Graph& graph, ValueId id) {
  const std::vector<int> producers = graph.producers();
  while (producers[static_cast<size_t>(id)] >= 0) {
    const Node& node = graph.nodes[static_cast<size_t>(producers[static_cast<size_t>(id)])];
    if (node.op->kind != OpRow::Kind::View) break;
    id = node.inputs.at(0);
  }
  return id;
}

bool is_true(const Value& value) {
  return value.constant && value.constant->count() == 1 && value.constant->as_int(0) != 0;
}

}  // namespace

bool ends_by_its_count(const Graph& graph, const Node& node, const Graph& body) {
  if (node.inputs[1] != kNoValue && !is_true(graph[source_of(graph, node.inputs[1])])) return false;
  const ValueId next = source_of(body, body.outputs[0]);
  return next == body.inputs[1] || is_true(body[next]);
}

}  // namespace tc
