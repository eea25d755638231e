// Where the content of a value comes from.
#pragma once

#include <set>

#include "ir/graph.h"

namespace tc {

// The values that the graph is given (its inputs and captures) from which the content of `value` is computed.
// What follows from shapes is computed from nothing.
std::set<ValueId> given_values_of(const Graph& graph, ValueId value);

}  // namespace tc
