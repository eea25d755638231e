// An order of a graph's groups with a lower peak of memory in use than the model's own order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ir/graph.h"
#include "ir/passes/group.h"

namespace tc {

// The blocks of memory that each group writes and reads; values in the same block count once. A block is
// numbered by one of its values.
struct BlockUses {
  std::vector<std::vector<int>> makes, reads;  // by group: blocks
  std::vector<std::vector<int>> waits_for;     // by group: groups
  std::vector<int64_t> size;                   // by block
};

// `bytes` tells the memory of a value. Inputs, constants and the model's outputs are not in the arena and do
// not count; views, and parts that are computed directly into their concatenation, share the memory of
// another value.
BlockUses block_uses(const Graph& graph, const std::vector<Group>& groups,
                     const std::function<int64_t(ValueId)>& bytes);

// The groups, each after those whose values it reads, in the best order that a beam search finds, or in the
// given order where none is better.
std::vector<Group> order_for_memory(const Graph& graph, const std::vector<Group>& groups,
                                    const std::function<int64_t(ValueId)>& bytes);

}  // namespace tc
