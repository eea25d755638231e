// A Scan or a Loop while its loop of the plan is built.
#pragma once

#include <string>
#include <vector>

#include "frontend/pipeline/storages.h"
#include "ir/graph.h"
#include "ir/plan.h"

namespace tc {

// The body's inputs are the states, then slices of what is scanned. Its outputs are the next states, then
// what is collected, then the condition if the loop has one. The first state of a Loop is the number of the
// iteration.
struct PlanLoop {
  GraphPtr body;
  size_t states = 0, scans = 0;
  std::vector<ValueId> initial;  // values outside of the loop, for the body's inputs
  // Values outside of the loop for the final states and what is collected; kNoValue where nothing reads them.
  std::vector<ValueId> results;
  size_t first_capture = 0;  // index among the inputs of the node
  bool conditional = false;
  ValueId condition = kNoValue;                        // of the first iteration, outside of the loop
  std::vector<int64_t> in_directions, out_directions;  // 1: backwards
  PlanStep step;
  // Places of the body's inputs, of the states, and of the condition.
  std::vector<Place> formal, states_at;
  Place condition_at;

  // The slice that belongs to the current iteration.
  Place slice(const Place& whole, const Dim& bytes, bool backwards) const;
  bool wants(size_t output) const { return output < results.size() && results[output] != kNoValue; }
  bool is_backwards(size_t output) const { return out_directions[output - states] != 0; }
  const Value& value_of(ValueId id) const { return (*body)[id]; }
  // Whether iterations change the sizes of the state.
  bool changes(size_t state) const;
  // The end of the body's outputs that are collected.
  size_t collected_end() const { return body->outputs.size() - (conditional ? 1 : 0); }
};

// `symbol` is the size symbol that counts the iterations. The first iteration's number and condition of a
// Loop become constants of the graph.
PlanLoop scan_loop(const Graph& graph, const Node& node, const std::string& symbol);
PlanLoop plain_loop(Graph& graph, const Node& node, const std::string& symbol);

}  // namespace tc
