// One kernel as a model of its own.
#include "frontend/pipeline/kernel_module.h"

#include "codegen/backend/table.h"
#include "ir/kernel_plan.h"

namespace tc {

CompiledModel compile_kernel(const ScheduledKernel& scheduled, const Target& target, int threads) {
  CompiledModel model;
  model.target = target;
  model.plan = plan_of_kernel(scheduled, target);
  model.backend = &default_backend();
  model.objects = model.backend->compile(model.plan, target, threads);
  return model;
}

}  // namespace tc
