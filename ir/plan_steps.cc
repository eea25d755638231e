// The numbering of a plan's steps.
#include "ir/plan_steps.h"

namespace tc {
namespace {

void append(std::vector<const PlanStep*>& found, const PlanSteps& steps) {
  for (const PlanStep& step : steps) {
    found.push_back(&step);
    append(found, step.body);
    append(found, step.otherwise);
  }
}

}  // namespace

std::vector<const PlanStep*> all_steps(const PlanSteps& steps) {
  std::vector<const PlanStep*> found;
  append(found, steps);
  return found;
}

std::vector<const PlanStep*> all_steps(const Plan& plan) { return all_steps(plan.steps); }

}  // namespace tc
