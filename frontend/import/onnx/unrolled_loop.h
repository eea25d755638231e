// Loops over sequences and optionals, which graphs do not have: the iterations are imported one after the
// other.
#pragma once

#include "frontend/import/onnx/scope.h"

namespace tc {

// Whether the node cannot become a Loop of the graph: it carries a sequence or an optional, or its body has
// operators on these.
bool needs_unrolling(const tc_onnx::NodeProto& node, NameScope& scope);
// DependsOnData where the number of iterations or a condition is not known.
void unroll_loop(const tc_onnx::NodeProto& node, NameScope& scope, int depth, NodeImporter& importer);

}  // namespace tc
