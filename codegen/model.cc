// All objects of a model, kernels compiled in parallel.
#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "codegen/codegen.h"
#include "codegen/constants.h"
#include "codegen/kernel_emitter.h"
#include "codegen/matrix_plan.h"
#include "codegen/plan_emitter.h"

namespace tc {
namespace {

Bytes plan_object(const Plan& plan, const Target& target, const PlanNames& names) {
  Unit unit(target, names.descriptor + "_plan");
  const bool with_matrices = std::any_of(plan.kernels.begin(), plan.kernels.end(), uses_matrix_unit);
  emit_plan(unit, plan, names, required_features(unit, with_matrices));
  unit.optimise();
  return unit.object();
}

Bytes hidden_kernel_object(const ScheduledKernel& kernel, const Target& target,
                           const std::string& name) {
  Unit unit(target, name);
  emit_kernel(unit, kernel);
  unit.module().getFunction(name)->setVisibility(llvm::GlobalValue::HiddenVisibility);
  unit.optimise();
  return unit.object();
}

}  // namespace

std::vector<Bytes> model_objects(const Plan& plan, const Target& target,
                                 const std::string& descriptor_symbol, int threads) {
  const PlanNames names{descriptor_symbol};
  // Object 0 is the plan, the last one the constants, between them the kernels in order.
  const size_t count = plan.kernels.size() + 1;
  std::vector<Bytes> objects(count);
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        objects[i] = i == 0 ? plan_object(plan, target, names)
                            : hidden_kernel_object(plan.kernels[i - 1], target, names.kernel(i - 1));
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> workers;
  const size_t wanted = static_cast<size_t>(std::max(1, threads));
  for (size_t i = 1; i < std::min(wanted, count); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  // The first in order, so that the same fault gives the same error.
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  objects.push_back(constants_object(plan.constants, target, names.constants()));
  return objects;
}

}  // namespace tc
