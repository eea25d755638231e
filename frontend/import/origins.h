// Where the content of a value comes from.
#pragma once

#include <set>

#include "ir/graph.h"

namespace tc {

// The inputs and captures of the graph from which the content of `value` is computed. Content that follows
// from shapes alone depends on none of them.
std::set<ValueId> given_values_of(const Graph& graph, ValueId value);

}  // namespace tc
