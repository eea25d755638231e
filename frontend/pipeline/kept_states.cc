// What artefacts without a runtime keep from one run to the next, in one memory before and after a run.
#include "frontend/pipeline/kept_states.h"

#include <algorithm>

#include "ir/error.h"

namespace tc {
namespace {

int number_of(const std::vector<PortInfo>& ports, const std::string& name) {
  const auto found =
      std::find_if(ports.begin(), ports.end(), [&](const PortInfo& port) { return port.name == name; });
  TC_CHECK(found != ports.end(), "for the state's input or output '", name, "'");
  return static_cast<int>(found - ports.begin());
}

}  // namespace

void keep_states(const std::vector<StateOption>& states, Storages& storages, Plan& plan) {
  for (const StateOption& state : states) {
    const int input = number_of(plan.inputs, state.input), output = number_of(plan.outputs, state.output);
    plan.states.push_back({state.name, input, output, state.initial});
    const int from = storages.find(Location::Kind::Input, input),
              to = storages.find(Location::Kind::Output, output);
    TC_CHECK(from >= 0 && to >= 0, "state '", state.name, "' has no memory");
    if (storages.may_replace(to, from)) continue;
    const PortInfo& port = plan.outputs[static_cast<size_t>(output)];
    const Dim bytes = element_count(port.shape) * Dim(static_cast<int64_t>(size_of(port.dtype)));
    storages.move_to_arena(to);
    const Place kept{storages.add(Location::Kind::Output, output, state.name, bytes), 0};
    plan.steps.push_back(storages.copy_step(kept, {to, 0}, bytes, "keep " + state.name));
  }
}

}  // namespace tc
