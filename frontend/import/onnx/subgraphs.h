// Nodes that hold subgraphs (If, Loop, Scan) while they are imported.
#pragma once

#include <vector>

#include "frontend/import/onnx/scope.h"
#include "ir/graph.h"

namespace tc {

// Imports the nodes of an If's branch into this graph where the condition is known; false where it is not.
bool inline_branch(const tc_onnx::NodeProto& proto, const Node& node, NameScope& scope, int depth,
                   NodeImporter& importer);

// Imports the subgraphs among the attributes: they become attributes of the node, and the values that they
// capture become further inputs of it. Returns the forms of an If's outputs.
std::vector<OutputForm> import_subgraphs(const tc_onnx::NodeProto& proto, Node& node, NameScope& scope,
                                         int depth, NodeImporter& importer);

}  // namespace tc
