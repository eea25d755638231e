// Outputs of a plan that may share the memory of an input.
#pragma once

#include <vector>

#include "ir/plan.h"

namespace tc {

// For each output the input whose memory it may share, or -1. Such an output begins as a copy of the input
// and has the input's shape: one step copies all of it, nothing writes the output before that step, and
// nothing reads the input after it. A run in which both are in the same memory leaves out the copy and writes
// only what changes. No two outputs share an input. Where a run chooses among versions of the steps by size,
// the pair is valid in all versions.
std::vector<int> inputs_in_place(const Plan& plan);

}  // namespace tc
