// A schedule in numbers that mean the same for every kernel and core, for cost models.
#pragma once

#include <vector>

#include "ir/target/target.h"
#include "scheduler/scheduler.h"

namespace tc {

// What all schedules of a kernel have in common: the sizes of its loops and buffers, its types, and the
// registers, units and caches of the core.
std::vector<double> kernel_features(const Kernel& kernel, const Target& target, int threads);

// `of_kernel` (kernel_features), then the schedule's loops (loop_features), then for each primitive how many
// lines of the trace are of it, and the sum of the logarithms of the numbers in them.
std::vector<double> candidate_features(const std::vector<double>& of_kernel, const Schedule& schedule);

}  // namespace tc
