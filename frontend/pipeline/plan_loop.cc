// A Scan or a Loop while its loop of the plan is built.
#include "frontend/pipeline/plan_loop.h"

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

std::vector<int64_t> directions_of(const Node& node, const char* name, size_t count) {
  std::vector<int64_t> result(count, 0);
  if (!has_attribute(node, name)) return result;
  const auto given = ints_attribute(node, name);
  std::copy_n(given.begin(), std::min(given.size(), count), result.begin());
  return result;
}

TensorPtr scalar(DType dtype, int64_t value) {
  auto tensor = std::make_shared<Tensor>(dtype, std::vector<int64_t>{});
  tensor->set_int(0, value);
  return tensor;
}

bool is_true(const Value& value) {
  return value.constant && value.constant->count() == 1 && value.constant->as_int(0) != 0;
}

// Whether something may end the loop before its trip count does.
bool has_condition(const Graph& graph, const Node& node, const Graph& body) {
  const bool first = node.inputs[1] == kNoValue || is_true(graph[node.inputs[1]]);
  return !first || (body.outputs[0] != body.inputs[1] && !is_true(body[body.outputs[0]]));
}

PlanLoop loop_of(const Node& node, const std::string& symbol) {
  PlanLoop loop;
  loop.body = std::make_shared<Graph>(*std::get<GraphPtr>(node.attributes.at("body")));
  loop.step.kind = PlanStep::Kind::Loop;
  loop.step.symbol = symbol;
  loop.step.label = printable(node.origin.node);
  return loop;
}

}  // namespace

Place PlanLoop::slice(const Place& whole, const Dim& bytes, bool backwards) const {
  const Dim t = Dim::symbol(step.symbol);
  return {whole.storage, whole.offset + (backwards ? *step.trip - Dim(1) - t : t) * bytes};
}

bool PlanLoop::changes(size_t state) const {
  std::set<std::string> names;
  for (const Dim& dim : *value_of(body->inputs[state]).shape) dim.collect_symbols(names);
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return body->data_symbols.count(name) > 0; });
}

PlanLoop scan_loop(const Graph& graph, const Node& node, const std::string& symbol) {
  PlanLoop loop = loop_of(node, symbol);
  loop.scans = static_cast<size_t>(int_attribute(node, "num_scan_inputs"));
  loop.states = loop.body->inputs.size() - loop.scans;
  loop.first_capture = loop.states + loop.scans;
  loop.initial.assign(node.inputs.begin(),
                      node.inputs.begin() + static_cast<std::ptrdiff_t>(loop.first_capture));
  loop.results = node.outputs;
  loop.in_directions = directions_of(node, "scan_input_directions", loop.scans);
  loop.out_directions =
      directions_of(node, "scan_output_directions", loop.body->outputs.size() - loop.states);
  loop.step.trip = (*graph[node.inputs[loop.states]].shape)[0];
  return loop;
}

PlanLoop plain_loop(Graph& graph, const Node& node, const std::string& symbol) {
  PlanLoop loop = loop_of(node, symbol);
  Graph& body = *loop.body;
  loop.states = body.inputs.size() - 1;
  loop.first_capture = body.inputs.size();
  loop.conditional = has_condition(graph, node, body);
  // The number of the iteration becomes a state; the condition is true in every iteration.
  body[body.inputs[1]].constant = scalar(DType::Bool, 1);
  NodeBuilder build(body, node);
  const ValueId next = build.add("Add", {body.inputs[0], build.integer(DType::I64, 1)});
  for (Node& made : build.take()) body.nodes.push_back(std::move(made));
  body.inputs.erase(body.inputs.begin() + 1);
  if (loop.conditional) body.outputs.push_back(body.outputs[0]);
  body.outputs[0] = next;
  loop.initial = {graph.add_constant("first_iteration", scalar(DType::I64, 0))};
  loop.initial.insert(loop.initial.end(), node.inputs.begin() + 2,
                      node.inputs.begin() + static_cast<std::ptrdiff_t>(loop.first_capture));
  if (loop.conditional) {
    loop.condition =
        node.inputs[1] == kNoValue ? graph.add_constant("goes_on", scalar(DType::Bool, 1)) : node.inputs[1];
  }
  loop.results = {kNoValue};
  loop.results.insert(loop.results.end(), node.outputs.begin(), node.outputs.end());
  loop.out_directions.assign(loop.collected_end() - loop.states, 0);
  if (node.inputs[0] == kNoValue) return loop;
  const auto trip = known_elements(graph[node.inputs[0]]);
  TC_CHECK(trip && trip->size() == 1, "for ", node.origin.str(), ": its trip count");
  loop.step.trip = (*trip)[0];
  return loop;
}

}  // namespace tc
