// One kernel as a model of its own: to run, time and measure a schedule.
#pragma once

#include "frontend/pipeline/compile.h"
#include "ir/scheduled.h"
#include "ir/target/target.h"

namespace tc {

// A model whose inputs are the kernel's inputs and packed constants, in the order of its buffers,
// and whose outputs are the kernel's. An Unsupported error for a kernel with parameters: its
// shapes must be numbers.
CompiledModel compile_kernel(const ScheduledKernel& scheduled, const Target& target, int threads);

}  // namespace tc
