// Emits a scheduled kernel as one function: the loop tree above the register tiles.
#pragma once

#include "codegen/context.h"

namespace tc {

// Adds the kernel's function to the unit's module, under the module's name.
//
// Parallel loops at the top of the tree are divided among the threads in equal contiguous parts; two
// perfectly nested ones are divided as one range. What stands beside them at the top and is not
// parallel runs on the last thread, whose parts are the smallest; where there are none, on thread 0.
// Nothing waits: the scheduler puts dependent parts into one iteration or into different kernels.
void emit_kernel(Unit& unit, const ScheduledKernel& scheduled);

}  // namespace tc
