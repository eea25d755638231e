// Upper bounds of the sizes that a graph computes.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"

namespace tc {

// The bounds of those data symbols of the graph that have one, in terms of all other symbols. Internal error
// where bounds depend on each other in a cycle.
std::map<std::string, Dim> size_bounds(const Graph& graph);

}  // namespace tc
