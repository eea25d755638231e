// Plans of one kernel.
#include "ir/kernel_plan.h"

#include "ir/error.h"
#include "ir/scratch.h"

namespace tc {

PortInfo port_of(const Buffer& buffer) {
  PortInfo port;
  port.name = buffer.name;
  port.dtype = buffer.dtype;
  for (const Affine& size : buffer.shape) port.shape.push_back(size.constant());
  return port;
}

Plan plan_of_kernel(const ScheduledKernel& scheduled, const Target& target,
                    const std::function<PlanConstant(const Buffer&)>& constant) {
  if (!scheduled.kernel.parameters.empty())
    fail(ErrorKind::Unsupported, "kernel '", scheduled.kernel.name, "' has symbolic sizes ('",
         scheduled.kernel.parameters[0].value.str(), "'); bind them to numbers with shapes=");
  Plan plan;
  plan.model = scheduled.kernel.name;
  plan.target = target.name;
  plan.kernels.push_back(scheduled);
  PlanStep call;
  call.kernel = 0;
  call.label = scheduled.kernel.name;
  const auto place = [&call](Location::Kind kind, size_t index) {
    Location location;
    location.kind = kind;
    location.index = static_cast<int>(index);
    call.locations.push_back(location);
  };
  for_each_argument(plan.kernels[0].kernel, [&](Buffer& buffer, size_t) {
    if (buffer.scope == Scope::Output) {
      place(Location::Kind::Output, plan.outputs.size());
      plan.outputs.push_back(port_of(buffer));
    } else if (buffer.scope == Scope::Constant && constant) {
      place(Location::Kind::Constant, plan.constants.size());
      plan.constants.push_back(constant(buffer));
    } else {
      buffer.scope = Scope::Input;
      place(Location::Kind::Input, plan.inputs.size());
      plan.inputs.push_back(port_of(buffer));
    }
  });
  if (!constant) plan.kernels[0].kernel.packings.clear();
  plan.steps.push_back(std::move(call));
  plan.scratch_bytes = scratch_bytes(scheduled);
  plan.provenance = "one kernel";
  return plan;
}

}  // namespace tc
