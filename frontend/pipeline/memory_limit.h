// Refuses models that need more memory than they may have, while they are compiled rather than when they run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/plan.h"

namespace tc {

// Bytes of memory that this process may have: the machine's, or what its control groups leave of them.
int64_t machine_memory();

// Throws an Unsupported error naming the node, or the input, where the value takes more than `limit` bytes.
// The runtime checks sizes that depend on symbols, when they are known.
void check_memory(const Graph& graph, ValueId id, int64_t limit);

// Bytes that a run of the plan on so many threads needs in addition to inputs and results; nothing where they
// depend on symbols.
struct MemoryNeed {
  int64_t constants, working;
  int64_t total() const { return constants + working; }
};
std::optional<MemoryNeed> memory_need(const Plan& plan, int threads);

// Bytes that a model may use. `constants` is the size of a separate memory for constants, or 0 where they are
// part of `memory`.
struct MemoryLimits {
  int64_t memory, constants;
};
// Whether a run of the plan on so many threads stays within the limits. Also true where that depends on
// symbols.
bool fits(const Plan& plan, int threads, const MemoryLimits& limits);

// Throws an Unsupported error that names what is too large: the step at which most memory is in use, the
// tensors in use at that step, and the largest constants. The plan is the one that needs the least memory,
// which is told as well. `constant_names` are the names of the plan's constants.
[[noreturn]] void refuse_memory(const Plan& plan, const std::vector<std::string>& constant_names, int threads,
                                const MemoryLimits& limits);

}  // namespace tc
