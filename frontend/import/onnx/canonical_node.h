// Brings an imported node to the form that its row knows, infers it, and computes it where that is cheap.
#pragma once

#include "ir/graph.h"
#include "ir/ops/op.h"

namespace tc {

// Brings the node to its row's form and infers its outputs, which already exist. Model errors for attributes
// and inputs that the row does not take; an attribute of a wrong kind may be found at any step of this.
void make_canonical(Graph& graph, Node& node, const OnnxName& form);

// Computes small results that follow from constants and known shapes, so that later nodes can use them as
// conditions, axes and sizes. True where all outputs are computed.
bool compute_while_importing(Graph& graph, const Node& node);

}  // namespace tc
