// What the sizes that a graph computes are at most.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"

namespace tc {

// The bounds of the graph's data symbols that have one, over all other symbols. Internal error where one of
// them is that of another.
std::map<std::string, Dim> size_bounds(const Graph& graph);

}  // namespace tc
