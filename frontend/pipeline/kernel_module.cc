// One kernel as a model of its own.
#include "frontend/pipeline/kernel_module.h"

#include "ir/error.h"

namespace tc {
namespace {

PortInfo port_of(const Buffer& buffer) {
  PortInfo port;
  port.name = buffer.name;
  port.dtype = buffer.dtype;
  for (const Affine& size : buffer.shape) port.shape.push_back(size.constant());
  return port;
}

}  // namespace

CompiledModel compile_kernel(const ScheduledKernel& scheduled, const Target& target, int threads) {
  if (!scheduled.kernel.parameters.empty())
    fail(ErrorKind::Unsupported, "kernel '", scheduled.kernel.name, "' has symbolic sizes ('",
         scheduled.kernel.parameters[0].value.str(), "'); bind them to numbers with shapes=");
  CompiledModel model;
  model.target = target;
  Plan& plan = model.plan;
  plan.model = scheduled.kernel.name;
  plan.target = target.name;
  plan.kernels.push_back(scheduled);
  PlanStep call;
  call.kind = PlanStep::Kind::Call;
  call.kernel = 0;
  call.label = scheduled.kernel.name;
  for_each_argument(plan.kernels[0].kernel, [&](Buffer& buffer, size_t) {
    Location location;
    if (buffer.scope == Scope::Output) {
      location.kind = Location::Kind::Output;
      location.index = static_cast<int>(plan.outputs.size());
      plan.outputs.push_back(port_of(buffer));
    } else {
      buffer.scope = Scope::Input;
      location.kind = Location::Kind::Input;
      location.index = static_cast<int>(plan.inputs.size());
      plan.inputs.push_back(port_of(buffer));
    }
    call.locations.push_back(location);
  });
  plan.kernels[0].kernel.packings.clear();
  plan.steps.push_back(std::move(call));
  plan.scratch_bytes = scratch_bytes(scheduled);
  plan.provenance = "one kernel";
  model.objects = model_objects(plan, target, kUnnamedDescriptor, threads);
  return model;
}

}  // namespace tc
