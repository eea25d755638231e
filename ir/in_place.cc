// Outputs of a plan that may share the memory of an input.
#include "ir/in_place.h"

#include <map>
#include <set>
#include <string>

#include "ir/plan_steps.h"

namespace tc {
namespace {

// Whether the step copies all of an input to an output of the same shape. `sizes` gives the symbols that have
// a fixed value wherever the step runs.
bool copies_whole(const Plan& plan, const PlanStep& step, const std::map<std::string, Dim>& sizes) {
  if (step.kind != PlanStep::Kind::Copy) return false;
  const Location &to = step.locations.at(0), &from = step.locations.at(1);
  if (to.kind != Location::Kind::Output || from.kind != Location::Kind::Input) return false;
  const PortInfo &after = plan.outputs.at(static_cast<size_t>(to.index)),
                 &before = plan.inputs.at(static_cast<size_t>(from.index));
  return to.offset == Dim(0) && from.offset == Dim(0) && after.dtype == before.dtype &&
         after.shape == before.shape &&
         step.bytes == element_count(before.shape).substitute(sizes) * Dim(size_of(before.dtype));
}

// The pairs of `inputs_in_place` for steps that make up a whole run.
std::vector<int> pairs_of(const Plan& plan, const PlanSteps& steps, std::map<std::string, Dim> sizes) {
  const bool chooses = steps.size() == 1 && steps[0].kind == PlanStep::Kind::If && !steps[0].sizes.empty();
  if (chooses) {
    std::vector<int> pairs = pairs_of(plan, steps[0].otherwise, sizes);
    for (const auto& [symbol, size] : steps[0].sizes) {
      std::set<std::string> names;
      symbol.collect_symbols(names);
      for (const std::string& name : names) sizes.insert_or_assign(name, size);
    }
    const std::vector<int> version = pairs_of(plan, steps[0].body, sizes);
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (pairs[i] != version[i]) pairs[i] = -1;
    }
    return pairs;
  }
  std::map<int, const PlanStep*> first_of_output, last_of_input;
  for (const PlanStep* step : all_steps(steps)) {
    for (const Location& location : step->locations) {
      if (location.kind == Location::Kind::Output) first_of_output.try_emplace(location.index, step);
      if (location.kind == Location::Kind::Input) last_of_input[location.index] = step;
    }
  }
  std::vector<int> result(plan.outputs.size(), -1);
  // Copies within loops and branches do not count: they run more than once or not at all.
  for (const PlanStep& step : steps) {
    if (!copies_whole(plan, step, sizes)) continue;
    const int output = step.locations[0].index, input = step.locations[1].index;
    if (first_of_output.at(output) == &step && last_of_input.at(input) == &step)
      result[static_cast<size_t>(output)] = input;
  }
  return result;
}

}  // namespace

std::vector<int> inputs_in_place(const Plan& plan) { return pairs_of(plan, plan.steps, {}); }

}  // namespace tc
