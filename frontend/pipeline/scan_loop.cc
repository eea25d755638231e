// A Scan while its loop of the plan is built.
#include "frontend/pipeline/scan_loop.h"

#include <algorithm>

namespace tc {
namespace {

std::vector<int64_t> directions_of(const Node& node, const char* name, size_t count) {
  std::vector<int64_t> result(count, 0);
  if (!has_attribute(node, name)) return result;
  const auto given = ints_attribute(node, name);
  std::copy_n(given.begin(), std::min(given.size(), count), result.begin());
  return result;
}

}  // namespace

Place ScanLoop::slice(const Place& whole, const Dim& bytes, bool backwards) const {
  const Dim t = Dim::symbol(step.symbol);
  return {whole.storage, whole.offset + (backwards ? *step.trip - Dim(1) - t : t) * bytes};
}

ScanLoop scan_loop(const Graph& graph, const Node& node, const std::string& symbol) {
  ScanLoop loop{node, std::make_shared<Graph>(*std::get<GraphPtr>(node.attributes.at("body"))), 0, 0, {}, {}, {}, {}, {}};
  loop.scans = static_cast<size_t>(int_attribute(node, "num_scan_inputs"));
  loop.states = loop.body->inputs.size() - loop.scans;
  loop.in_directions = directions_of(node, "scan_input_directions", loop.scans);
  loop.out_directions = directions_of(node, "scan_output_directions", loop.body->outputs.size() - loop.states);
  loop.step.kind = PlanStep::Kind::Loop;
  loop.step.symbol = symbol;
  loop.step.label = node.origin.node;
  loop.step.trip = (*graph[node.inputs[loop.states]].shape)[0];
  return loop;
}

}  // namespace tc
