// An order of a graph's groups with a lower peak of memory in use than the model's own order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ir/passes/group.h"

namespace tc {

// The groups, each after those whose values it reads, in the best order that a beam search finds, or in the
// given order where none is better. `bytes` tells the memory of a value. Inputs, constants and the model's
// outputs are not in the arena and do not count; views, and parts that are computed directly into their
// concatenation, share the memory of another value.
std::vector<Group> order_for_memory(const Graph& graph, const std::vector<Group>& groups,
                                    const std::function<int64_t(ValueId)>& bytes);

}  // namespace tc
