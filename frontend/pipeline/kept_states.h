// What artefacts without a runtime keep from one run to the next, in one memory before and after a run.
#pragma once

#include <vector>

#include "frontend/pipeline/plan_builder.h"
#include "frontend/pipeline/storages.h"

namespace tc {

// Adds the states to a plan whose steps are all there, and makes it right where the input and the output of a
// state are in the same memory: an output that is written before the last step that reads the input is in the
// arena until the end of the run.
void keep_states(const std::vector<StateOption>& states, Storages& storages, Plan& plan);

}  // namespace tc
