// An order of a graph's groups in which less memory is in use at once than in the model's own.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ir/passes/group.h"

namespace tc {

// The groups, each behind those whose values it reads, in the best order that a search of bounded width
// finds; the given one where none is better. `bytes` tells the memory of a value. Inputs, constants and the
// model's outputs lie elsewhere and count nothing; views, and parts that are computed into their
// concatenation, lie in another value's memory.
std::vector<Group> order_for_memory(const Graph& graph, const std::vector<Group>& groups,
                                    const std::function<int64_t(ValueId)>& bytes);

}  // namespace tc
