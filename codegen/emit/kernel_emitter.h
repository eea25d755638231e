// Emits a scheduled kernel as one function: the loop tree above the register tiles.
#pragma once

#include "codegen/emit/context.h"

namespace tc {

// Adds the kernel's function to the unit's module, under the module's name.
//
// Parallel loops at the top of the tree are divided among the threads in equal contiguous parts. One such
// loop and the parallel loops directly inside it are divided as one range, in which the other nodes next to
// the inner loops (first and last iterations that were split off) count as one iteration each. Nodes at the
// top that are not parallel run on the last thread, whose parts of the parallel loops are the smallest;
// without parallel loops, on thread 0. No thread waits for another: the scheduler puts dependent parts into
// one iteration or into different kernels.
void emit_kernel(Unit& unit, const ScheduledKernel& scheduled);

}  // namespace tc
