// Plans of one kernel: to run, time and measure a schedule.
#pragma once

#include <functional>

#include "ir/plan.h"
#include "ir/scheduled.h"
#include "ir/target/target.h"

namespace tc {

// The port of a buffer whose sizes are numbers.
PortInfo port_of(const Buffer& buffer);

// The plan that calls the kernel once: its inputs are the kernel's Input buffers in order, its outputs the
// Output buffers, and its constants what `constant` makes of the Constant buffers. Without `constant` the
// Constant buffers, packed, are inputs too, and inputs are in the order of the kernel's buffers. Throws an
// Unsupported error for a kernel with parameters: its shapes must be numbers.
Plan plan_of_kernel(const ScheduledKernel& scheduled, const Target& target,
                    const std::function<PlanConstant(const Buffer&)>& constant = nullptr);

}  // namespace tc
