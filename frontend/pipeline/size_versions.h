// Plans with versions by size: one plan whose run takes the steps that were planned for the sizes that it
// has.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "frontend/pipeline/plan_builder.h"
#include "ir/graph.h"

namespace tc {

// Numbers for some of a model's open sizes.
using Sizes = std::map<std::string, int64_t>;

// "tokens = 1, batch = 2"
std::string text_of(const Sizes& sizes);

// Shape error for versions that a model whose open sizes have these ranges cannot have: a size that is not
// open or out of its range, a version that never runs because an earlier one takes its sizes, or too many.
// `model` is what the error calls it.
void check_size_versions(const std::vector<Sizes>& versions,
                         const std::map<std::string, std::pair<int64_t, int64_t>>& open,
                         const std::string& model);

// One of several graphs of the same model.
struct SizedGraph {
  Sizes sizes;
  Graph graph;
};

// Gives constants of graphs that are equal one tensor.
class SharedTensors {
 public:
  void share(Graph& graph);

 private:
  TensorPtr shared(const TensorPtr& tensor);

  std::set<const Tensor*> known_;  // those that are kept
  std::map<size_t, std::vector<TensorPtr>> by_hash_;
};

// The plan of `graph`, and in it the steps of each version where a run has its sizes: those of the first that
// does. Kernels and constants that several use are there once, and the arena and the segments are those of
// the larger one. Unsupported error where the versions' outputs have sizes that only a run tells, or other
// sizes than the general plan's.
BuiltPlan build_plan_with_versions(Graph graph, std::vector<SizedGraph> versions,
                                   const BuildOptions& options);

}  // namespace tc
