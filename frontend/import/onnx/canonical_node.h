// What becomes of an imported node: the form that its row knows, inferred, and computed where that is cheap.
#pragma once

#include "ir/graph.h"
#include "ir/ops/op.h"

namespace tc {

// Brings the node, whose outputs exist, to its row's form and infers them. Model errors for attributes and
// inputs that the row does not take; attributes of a wrong kind may show themselves anywhere in there.
void make_canonical(Graph& graph, Node& node, const OnnxName& form);

// Small results of constants and of known shapes are computed at once, so that what follows (conditions,
// axes, sizes) reads them; true where all outputs are.
bool compute_while_importing(Graph& graph, const Node& node);

}  // namespace tc
