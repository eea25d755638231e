// How much memory kernels and plans work in beside their tensors: a question about them alone, whoever writes
// their code.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/plan.h"
#include "ir/scheduled.h"

namespace tc {

// Byte offsets of the kernel's Stack buffers in the scratch memory, by buffer index, and their sum
// under -1. Symbolic sizes take the parameters' maximum.
std::map<int, int64_t> scratch_layout(const Kernel& kernel);

// Bytes of per-thread scratch that the kernel's Stack buffers need for the largest sizes; 0 where each call's
// sizes tell.
int64_t scratch_bytes(const ScheduledKernel& kernel);
// The same for these values of the kernel's parameters.
Dim sized_scratch(const Kernel& kernel, const std::vector<Dim>& parameters);

// The same of the plan's most demanding kernel, or what the plan says where that is more.
int64_t plan_scratch_bytes(const Plan& plan);
// The same of thread 0, beside what it has in the arena.
int64_t first_scratch_bytes(const Plan& plan);

// What a run without a runtime works in: the plan's arena, which has a fixed size, and behind it the scratch
// of its one thread.
constexpr int64_t kBareArenaAlignment = 64;
int64_t bare_arena_bytes(const Plan& plan);
int64_t bare_scratch_offset(const Plan& plan);  // in it

// What such a run gives.
enum class BareStatus : uint8_t {
  Done,
  Null,        // an argument is a null pointer
  Misaligned,  // an input or output does not lie at a multiple of its elements' size, the arena at one of 64
  WrongSize,   // the values of a run give a size that the model cannot have; what the outputs hold is lost
};

// Byte offsets of the plan's constants in one block, each aligned to 64, and the block's size at the end.
std::vector<int64_t> constant_offsets(const std::vector<PlanConstant>& constants);

}  // namespace tc
