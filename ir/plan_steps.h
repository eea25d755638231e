// The steps of a plan with their numbers: those of loops and branches follow the step itself.
#pragma once

#include <vector>

#include "ir/plan.h"

namespace tc {

// All steps of the plan by number, which is how profiles name them: each step is followed by its body,
// then by what it does otherwise.
std::vector<const PlanStep*> all_steps(const Plan& plan);
std::vector<const PlanStep*> all_steps(const PlanSteps& steps);

}  // namespace tc
