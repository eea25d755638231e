// A Scan while its loop of the plan is built.
#pragma once

#include <string>
#include <vector>

#include "frontend/pipeline/storages.h"
#include "ir/graph.h"
#include "ir/plan.h"

namespace tc {

// Places of the body's inputs: states first, then slices of what is scanned.
struct ScanLoop {
  const Node& node;
  GraphPtr body;
  size_t states = 0, scans = 0;
  std::vector<int64_t> in_directions, out_directions;   // 1: backwards
  PlanStep step;
  std::vector<Place> states_at;
  std::vector<Place> formal;

  // The element of this iteration.
  Place slice(const Place& whole, const Dim& bytes, bool backwards) const;
  bool wants(size_t output) const { return output < node.outputs.size() && node.outputs[output] != kNoValue; }
  bool is_backwards(size_t output) const { return out_directions[output - states] != 0; }
  const Value& value_of(ValueId id) const { return (*body)[id]; }
};

// `symbol` counts its iterations.
ScanLoop scan_loop(const Graph& graph, const Node& node, const std::string& symbol);

}  // namespace tc
