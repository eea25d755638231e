// Plans with versions by size: one plan with separate steps for certain sizes; a run takes the steps for its
// sizes.
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

// Shape error for versions that do not fit a model whose open sizes have these ranges: a size that is not
// open or out of its range, a version that never runs because an earlier one covers its sizes, or too many
// versions. `model` is the name of the model in the error.
void check_size_versions(const std::vector<Sizes>& versions,
                         const std::map<std::string, std::pair<int64_t, int64_t>>& open,
                         const std::string& model);

// One of several graphs of the same model.
struct SizedGraph {
  Sizes sizes;
  Graph graph;
};

// Replaces equal constants of several graphs by one tensor.
class SharedTensors {
 public:
  void share(Graph& graph);

 private:
  TensorPtr shared(const TensorPtr& tensor);

  std::set<const Tensor*> known_;  // tensors that stand for all that equal them
  std::map<size_t, std::vector<TensorPtr>> by_hash_;
};

// The plan of `graph` with the steps of each version in it; a run takes those of the first version whose
// sizes it has. Kernels and constants that several versions use exist once, and arena and segments are as
// large as the largest version's. Unsupported error where outputs of a version have sizes that only a run
// tells, or other sizes than those of the general plan.
BuiltPlan build_plan_with_versions(Graph graph, std::vector<SizedGraph> versions,
                                   const BuildOptions& options);

}  // namespace tc
