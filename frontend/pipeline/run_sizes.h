// The sizes that a run computes, while a plan is built: their bounds, and the memory of what has none.
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

  // What a graph's steps know of sizes, from here to the end of them.
  struct Scope {
    std::map<std::string, Dim> bounds;
    std::map<std::string, int> segments;
    std::set<std::string> known;
    std::vector<SizeRelation> relations;
  };
  // The scope of a graph inside of the one that is there; gives that one back, for leave(). Relations of
  // sizes that are known already become steps.
  Scope enter(const Graph& graph, PlanSteps& steps);
  void leave(Scope outside) { scope_ = std::move(outside); }

  // What the bytes are at most for all sizes that have a bound: memory is planned for that, and touched as
  // far as it is used.
  Dim reserved(const Dim& bytes) const {
    return scope_.bounds.empty() ? bytes : largest(bytes, scope_.bounds);
  }
  // Whether the size has no bound.
  bool is_unbounded(const Dim& size) const;
  // Memory for so many bytes: in the arena, or in the segment that the last of the sizes without a bound
  // grows.
  int allocate(const std::string& name, const Dim& bytes);

  // From here on the size that is at `holder` has its value.
  void bind(const Graph& graph, const std::string& size, const Place& holder, const Origin& origin,
            PlanSteps& steps);
  // Memory of its own, which steps grow.
  int add_segment(const std::string& name);
  PlanStep grow_step(int storage, const Dim& bytes, const std::string& label);

  // Kernels take no more of a size that a run computes; false where it is none, or they take this much
  // already.
  bool limit(const std::string& size, int64_t most);
  // Gives the plan what is known of the sizes of its outputs, and the steps the limits.
  void finish(const Graph& graph, Plan& plan) const;

 private:
  void add_checks(PlanSteps& steps);
  static void apply_limits(PlanSteps& steps, const std::map<std::string, int64_t>& limits);

  Storages& storages_;
  Scope scope_;
  std::map<std::string, int64_t> limits_;  // of sizes, by kernels that take no more
};

}  // namespace tc
