// A Scan or a Loop while its loop of the plan is built.
#pragma once

#include <string>
#include <vector>

#include "frontend/pipeline/storages.h"
#include "ir/graph.h"
#include "ir/plan.h"

namespace tc {

// The body's inputs are states, then slices of what is scanned; its outputs the next states, then what is
// collected, then the condition of a loop that has one. The number of the iteration is the first state of a
// Loop.
struct PlanLoop {
  GraphPtr body;
  size_t states = 0, scans = 0;
  std::vector<ValueId> initial;  // values outside for the body's inputs
  // Values outside for the states and what is collected, kNoValue where nobody wants them.
  std::vector<ValueId> results;
  size_t first_capture = 0;  // among the inputs of the node
  bool conditional = false;
  ValueId condition = kNoValue;                        // outside, of the first iteration
  std::vector<int64_t> in_directions, out_directions;  // 1: backwards
  PlanStep step;
  // Places of the body's inputs, of the states, and of the condition.
  std::vector<Place> formal, states_at;
  Place condition_at;

  // The element of this iteration.
  Place slice(const Place& whole, const Dim& bytes, bool backwards) const;
  bool wants(size_t output) const { return output < results.size() && results[output] != kNoValue; }
  bool is_backwards(size_t output) const { return out_directions[output - states] != 0; }
  const Value& value_of(ValueId id) const { return (*body)[id]; }
  // Iterations change the sizes of the state.
  bool changes(size_t state) const;
  // Outputs of the body that are collected.
  size_t collected_end() const { return body->outputs.size() - (conditional ? 1 : 0); }
};

// `symbol` counts its iterations. A Loop's first number and condition become constants of the graph.
PlanLoop scan_loop(const Graph& graph, const Node& node, const std::string& symbol);
PlanLoop plain_loop(Graph& graph, const Node& node, const std::string& symbol);

}  // namespace tc
