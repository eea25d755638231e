// Sizes that no machine of ours holds are refused while a model is compiled, not when it runs.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "ir/plan.h"

namespace tc {

// Bytes of this machine's memory: the limit where no other is given.
int64_t machine_memory();

// Throws an Unsupported error naming the node, or the input, where the value takes more than `limit` bytes. Sizes that
// depend on symbols are judged when they are known, by the runtime.
void check_memory(const Graph& graph, ValueId id, int64_t limit);

// The same of everything that a run of the plan on so many threads holds at once, besides inputs and results; the error
// names the largest tensors.
void check_memory(const Plan& plan, int threads, int64_t limit);

}  // namespace tc
