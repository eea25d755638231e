// The functions of the pass table; each says in one sentence what it does (see pass.cc).
#pragma once

#include "ir/graph.h"

namespace tc {

// Values of half types become float32, with casts behind graph inputs and before graph outputs.
void promote_half(Graph& graph);

// Until no node of kind Expand is left. The new nodes' shapes are inferred.
void expand_composites(Graph& graph);

// Nodes whose inputs are constants and whose work is bounded (results up to 2^28 elements for fills
// and copies, 2^24 operations otherwise).
void fold_constants(Graph& graph);

// Computes the outputs of one node whose inputs are all constant, where that takes at most
// `most_operations`; they become constants. False, and nothing changed, where it does not apply.
bool fold_node(Graph& graph, const Node& node, double most_operations);

// Readers take the source; where the node makes a graph output it stays.
void eliminate(Graph& graph);

// BatchNormalization with constant parameters: into Conv and ConvTranspose weights (computed in
// double) where nothing else reads their result, else into Mul and Add by per-channel constants.
void fold_batch_norm(Graph& graph);

void dead_code(Graph& graph);

// Constants that a subgraph captures become constants of the subgraph.
void sink_constants(Graph& graph);

}  // namespace tc
