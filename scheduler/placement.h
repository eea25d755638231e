// Where a kernel runs whose target has an accelerator, if that is not to be decided by predicted cycles.
#pragma once

#include <string>
#include <vector>

#include "scheduler/scheduler.h"

namespace tc {

enum class Placement {
  Predicted,    // where it is predicted to take fewer cycles
  Core,         // by the core
  Accelerator,  // by the target's accelerator
};

// default_schedule() of scheduler.h with the placement of the kernel. An Unsupported error where the
// accelerator cannot execute a kernel that is placed there.
Schedule placed_schedule(Kernel kernel, const Target& target, int threads,
                         const std::vector<std::string>& layout_lines, double tolerance, Placement placement);

}  // namespace tc
