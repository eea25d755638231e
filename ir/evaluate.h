// Runs a graph node by node through the interpreter: the reference result of a model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/tensor.h"

namespace tc {

struct EvaluateOptions {
  // Round every value to its element type when it is stored; else a kernel keeps floats in f64 until
  // its end.
  bool round_to_storage = false;
  // Run the copies that replace views where memory cannot be shared, instead of sharing memory.
  bool copy_views = false;
};

// The outputs by name, for inputs by name. Shapes must have been inferred; symbols get their sizes from the
// inputs. Control flow runs as the operators define it. Shape errors name inputs that do not fit.
std::map<std::string, Tensor> evaluate(const Graph& graph, const std::map<std::string, Tensor>& inputs,
                                       const EvaluateOptions& options = {});

// One node with known inputs (null for those left out): its outputs in order, null for those unused.
// `symbols` gives the sizes of symbolic dimensions. The node is no composite.
std::vector<TensorPtr> evaluate_node(const Graph& graph, const Node& node,
                                     const std::vector<TensorPtr>& inputs,
                                     const std::map<std::string, int64_t>& symbols,
                                     const EvaluateOptions& options = {});

}  // namespace tc
