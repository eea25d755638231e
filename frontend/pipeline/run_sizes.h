// While a plan is built: the sizes that its run will compute, their bounds, and memory for tensors whose
// sizes have none.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frontend/pipeline/storages.h"
#include "ir/graph.h"
#include "ir/plan.h"

namespace tc {

class RunSizes {
 public:
  explicit RunSizes(Storages& storages) : storages_(storages) {}

  // What is known of sizes while the steps of one graph are built.
  struct Scope {
    std::map<std::string, Dim> bounds;
    std::map<std::string, int> segments;
    std::set<std::string> known;
    std::vector<SizeRelation> relations;
  };
  // Begins the scope of a graph inside of the current scope, which it returns for leave(). Relations between
  // sizes that are known already become steps.
  Scope enter(const Graph& graph, PlanSteps& steps);
  void leave(Scope outside) { scope_ = std::move(outside); }

  // The bytes with every bounded size at its bound. Memory is planned for that; pages that a run does not use
  // are never touched.
  Dim reserved(const Dim& bytes) const {
    return scope_.bounds.empty() ? bytes : largest(bytes, scope_.bounds);
  }
  // Whether the size has no bound.
  bool is_unbounded(const Dim& size) const;
  // Memory for so many bytes: in the arena, or, where they depend on sizes without a bound, in the segment
  // that grows when the last of these is bound.
  int allocate(const std::string& name, const Dim& bytes);

  // Adds the step that reads the size from `holder`; from that step on the size is known.
  void bind(const Graph& graph, const std::string& size, const Place& holder, const Origin& origin,
            PlanSteps& steps);
  // A new segment for one block, which steps grow.
  int add_segment(const std::string& name);
  PlanStep grow_step(int storage, const Dim& bytes, const std::string& label);

  // Notes that kernels accept a size that a run computes only up to `most`; false where a limit at least as
  // low is known already.
  bool limit(const std::string& size, int64_t most);
  // Gives the plan what is known of its outputs' sizes, and gives its steps the limits.
  void finish(const Graph& graph, Plan& plan) const;

 private:
  void add_checks(PlanSteps& steps);
  static void apply_limits(PlanSteps& steps, const std::map<std::string, int64_t>& limits);

  Storages& storages_;
  Scope scope_;
  std::map<std::string, int64_t> limits_;  // the most of each size that kernels accept
};

}  // namespace tc
