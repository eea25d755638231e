// When ONNX's Loop ends.
#pragma once

#include "ir/graph.h"

namespace tc {

// Whether only its count ends the Loop `node` of the graph: its condition is true at first, and each
// iteration of the body returns it unchanged or returns true.
bool ends_by_its_count(const Graph& graph, const Node& node, const Graph& body);

}  // namespace tc
