// How much memory kernels and plans need in addition to their tensors. The answer is the same for every back
// end.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/plan.h"
#include "ir/scheduled.h"

namespace tc {

// Byte offsets of the kernel's Stack buffers in the scratch memory, by buffer index, and their total size
// under index -1. Symbolic sizes take the parameters' maximum.
std::map<int, int64_t> scratch_layout(const Kernel& kernel);

// Bytes of per-thread scratch memory that the kernel's Stack buffers need for the largest sizes; 0 where each
// call sizes it (scratch_by_sizes).
int64_t scratch_bytes(const ScheduledKernel& kernel);
// The same for these values of the kernel's parameters.
Dim sized_scratch(const Kernel& kernel, const std::vector<Dim>& parameters);

// The maximum over the plan's kernels and what the plan itself states (Plan::scratch_bytes).
int64_t plan_scratch_bytes(const Plan& plan);
// The same for thread 0, without what it has in the arena.
int64_t first_scratch_bytes(const Plan& plan);

// The memory of a run without a runtime: the plan's arena, which has a fixed size, followed by the scratch
// memory of its only thread and by what the model keeps from one run to the next.
constexpr int64_t kBareArenaAlignment = 64;
int64_t bare_arena_bytes(const Plan& plan);
int64_t bare_scratch_offset(const Plan& plan);              // in it
std::vector<int64_t> bare_state_offsets(const Plan& plan);  // of the plan's states in it, and its end
int64_t state_bytes(const Plan& plan, const KeptState& state);

// What such a run returns.
enum class BareStatus : uint8_t {
  Done,
  Null,        // an argument is a null pointer
  Misaligned,  // an input's or output's address is no multiple of its element size, or the arena's of 64
  WrongSize,   // the run computed a size that the model cannot have; the outputs are invalid
};

// Byte offsets of the plan's constants in one block, each a multiple of its alignment, and the block's
// size at the end.
std::vector<int64_t> constant_offsets(const std::vector<PlanConstant>& constants);

}  // namespace tc
