// Nodes that hold subgraphs (If, Loop, Scan) while they are imported.
#pragma once

#include <vector>

#include "frontend/import/onnx/scope.h"
#include "ir/graph.h"

namespace tc {

// An If whose condition is known takes its branch's nodes into this graph; false where it is not.
bool inline_branch(const tc_onnx::NodeProto& proto, const Node& node, NameScope& scope, int depth,
                   NodeImporter& importer);

// Imports the subgraphs among the attributes, which become attributes of the node, and what they capture its
// further inputs. Gives the forms of the outputs of an If.
std::vector<OutputForm> import_subgraphs(const tc_onnx::NodeProto& proto, Node& node, NameScope& scope,
                                         int depth, NodeImporter& importer);

}  // namespace tc
