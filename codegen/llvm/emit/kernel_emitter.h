// Emits a scheduled kernel as one function: the loop tree above the register tiles.
#pragma once

#include "codegen/llvm/emit/kernel_context.h"

namespace tc {

// Adds the kernel's function to the compiler's module, under the module's name.
//
// Each thread runs a contiguous part of every parallel loop at the top of the tree; the parts are as equal as
// they can be, and the last thread's is the smallest. Nested parallel loops are one range of iterations, of
// which each thread runs a part; code next to the inner loops (first and last iterations that were split off)
// counts as one iteration of the range. What is at the top and not parallel runs on the last thread, or on
// thread 0 where the kernel has no parallel loop. No thread waits for another,
// since the scheduler puts parts that depend on each other into one iteration or into different kernels.
void emit_kernel(ModuleCompiler& compiler, const ScheduledKernel& scheduled);

}  // namespace tc
