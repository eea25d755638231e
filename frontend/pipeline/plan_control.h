// Steps of a plan for nodes that hold subgraphs, and for the sizes that nodes compute.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "frontend/pipeline/layout.h"
#include "frontend/pipeline/plan_loop.h"
#include "frontend/pipeline/run_sizes.h"
#include "frontend/pipeline/storages.h"

namespace tc {

// One graph being lowered: the model's, or a subgraph's.
struct PlanFrame {
  Graph* graph = nullptr;
  Layouts layouts;
  std::vector<std::optional<Place>> places;
  std::map<ValueId, std::pair<ValueId, Dim>> aliases;  // of a concat's part: the whole, byte offset
  bool repeated = false;                               // a loop of the plan is around its steps
};

Dim bytes_of(const Value& value);
// Bytes of the value in the layout that it has.
Dim stored_bytes(const PlanFrame& frame, ValueId id);
// Whether the product of the dimensions before `axis` is 1, so that parts along it are contiguous.
bool outermost(const Shape& shape, int64_t axis);
// The distance in bytes between neighbours along the axis; 0 where a blocked layout cannot be divided there.
Dim stride_bytes(const PlanFrame& frame, ValueId id, int64_t axis);
// The same along a dimension of a value whose size is known, also of blocked layouts, whose blocks are not
// next to each other then; 0 for a dimension of the blocks or before them.
int64_t row_bytes(const PlanFrame& frame, ValueId id, size_t axis);

class ControlSteps {
 public:
  virtual ~ControlSteps() = default;

 protected:
  void control(PlanFrame& frame, const Node& node, PlanSteps& steps);

  // The memory of a value, allocated on first use.
  virtual Place place_of(PlanFrame& frame, ValueId id) = 0;
  // The steps of a subgraph. `finish` adds further steps at the end, where the sizes that the subgraph
  // computes are still known.
  virtual PlanSteps body_steps(PlanFrame& frame, const std::function<void(PlanSteps&)>& finish) = 0;

  Storages storages_;
  RunSizes sizes_{storages_};

 private:
  PlanFrame enter(PlanFrame& outer, Graph& body, const std::vector<Place>& formal, const Node& node,
                  size_t first_capture);
  void branch(PlanFrame& frame, const Node& node, PlanSteps& steps);
  Place result_place(PlanFrame& frame, const Node& node, size_t output);
  void bind_sizes(PlanFrame& frame, const Node& node, PlanSteps& steps);

  void loop(PlanFrame& frame, const Node& node, PlanLoop& loop, PlanSteps& steps);
  void enter_states(PlanFrame& frame, PlanLoop& loop, PlanSteps& steps);
  void enter_collected(PlanFrame& frame, const Node& node, PlanLoop& loop, PlanSteps& steps);
  static bool has_own_sizes(const Graph& graph, const Node& node, const Value& result);
  void place_collected(PlanFrame& frame, const PlanLoop& loop, PlanFrame& inner);
  void copy_collected(PlanFrame& frame, PlanLoop& loop, PlanFrame& inner, PlanSteps& steps);
  void copy_states(PlanLoop& loop, PlanFrame& inner, PlanSteps& steps);
  void leave_states(PlanFrame& frame, const PlanLoop& loop, PlanSteps& steps);
  // A block in a segment of its own, which steps grow. The first such step, added here, gives it `bytes`.
  Place grown(const std::string& name, const Dim& bytes, PlanSteps& steps);
  bool is_grown(const Place& place) const { return own_segments_.count(place.storage) > 0; }

  std::set<int> own_segments_;  // storages
  int loops_ = 0;
};

}  // namespace tc
