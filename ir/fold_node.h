// Computes one node whose inputs are constants.
#pragma once

#include "ir/graph.h"

namespace tc {

// The most operations that folding spends on one node while compiling.
constexpr double kMaxFoldedOperations = 1 << 24;

// Computes the outputs of one node whose inputs are all constant, where that takes at most
// `most_operations`; they become constants. False, and nothing changed, where it does not apply.
bool fold_node(Graph& graph, const Node& node, double most_operations);

}  // namespace tc
