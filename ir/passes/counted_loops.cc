// Turns loops whose number of iterations is known before they begin into Scans.
#include "ir/ops/loop_condition.h"
#include "ir/ops/op.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

std::optional<Dim> trip_count(const Graph& graph, const Node& node) {
  if (node.inputs[0] == kNoValue) return std::nullopt;
  const Value& trips = graph[node.inputs[0]];
  if (trips.elements && trips.elements->size() == 1) return (*trips.elements)[0];
  if (trips.constant && trips.constant->count() == 1) return Dim(trips.constant->as_int(0));
  return std::nullopt;
}

}  // namespace

void counted_loops(Graph& graph) {
  std::vector<Node> nodes;
  for (Node& node : graph.nodes) {
    if (node.op->traits.control != OpTraits::Control::Loop) {
      nodes.push_back(std::move(node));
      continue;
    }
    auto body = std::make_shared<Graph>(*std::get<GraphPtr>(node.attributes.at("body")));
    const auto trips = trip_count(graph, node);
    if (!trips || has_attribute(node, "sizes") || !ends_by_its_count(graph, node, *body)) {
      nodes.push_back(std::move(node));
      continue;
    }
    // The iteration's number becomes a scanned input, after the states; the condition becomes a constant.
    Node numbers;
    numbers.op = find_op("Range");
    numbers.outputs = {graph.fresh_value(node.origin.node + "_iterations", DType::I64)};
    numbers.attributes["range"] = std::vector<Dim>{Dim(0), *trips, Dim(1)};
    numbers.origin = node.origin;
    infer_node(graph, numbers);
    const ValueId number = body->inputs[0];
    auto yes = std::make_shared<Tensor>(DType::Bool, std::vector<int64_t>{});
    yes->set_int(0, 1);
    (*body)[body->inputs[1]].constant = yes;
    const size_t states = body->inputs.size() - 2;
    body->inputs.erase(body->inputs.begin(), body->inputs.begin() + 2);
    body->inputs.push_back(number);
    body->outputs.erase(body->outputs.begin());
    Node scan;
    scan.op = find_op("Scan");
    scan.origin = node.origin;
    scan.outputs = node.outputs;
    scan.inputs.assign(node.inputs.begin() + 2, node.inputs.end());
    scan.inputs.insert(scan.inputs.begin() + static_cast<std::ptrdiff_t>(states), numbers.outputs[0]);
    scan.attributes["body"] = GraphPtr(body);
    scan.attributes["num_scan_inputs"] = int64_t{1};
    nodes.push_back(std::move(numbers));
    nodes.push_back(std::move(scan));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace tc
