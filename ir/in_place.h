// Outputs of a plan that may lie in the memory of an input.
#pragma once

#include <vector>

#include "ir/plan.h"

namespace tc {

// For each output the input whose memory it may be given, or -1. Such an output begins as a copy of the input
// and has its shape: one step copies all of it, nothing writes the output before that step, and nothing reads
// the input after it. A run on one memory for both leaves the copy out, and what is left of the work is to
// write what changes. No two outputs have one input. Where a run chooses among versions by size, all of them
// have the pair.
std::vector<int> inputs_in_place(const Plan& plan);

}  // namespace tc
