// The numbering of a plan's steps: the steps inside a loop or branch come after the loop or branch itself.
#pragma once

#include <vector>

#include "ir/plan.h"

namespace tc {

// All steps of the plan by number, which is how profiles name them: each step is followed by the steps of its
// body, then by those of its `otherwise`.
std::vector<const PlanStep*> all_steps(const Plan& plan);
std::vector<const PlanStep*> all_steps(const PlanSteps& steps);

}  // namespace tc
