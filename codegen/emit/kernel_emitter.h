// Emits a scheduled kernel as one function: the loop tree above the register tiles.
#pragma once

#include "codegen/emit/context.h"

namespace tc {

// Adds the kernel's function to the unit's module, under the module's name.
//
// Parallel loops at the top of the tree are divided among the threads in equal contiguous parts; one and
// those directly inside it are divided as one range, in which what stands beside the inner ones (their first
// and last iterations, on their own) counts as one iteration each. What stands beside parallel loops at the
// top and is not parallel runs on the last thread, whose parts are the smallest; where there are none, on
// thread 0. Nothing waits: the scheduler puts dependent parts into one iteration or into different kernels.
void emit_kernel(Unit& unit, const ScheduledKernel& scheduled);

}  // namespace tc
