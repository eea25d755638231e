// One kernel to LLVM IR, assembly and object code.
#include "codegen/codegen.h"

#include "codegen/kernel_emitter.h"
#include "codegen/machine.h"

namespace tc {

std::string kernel_llvm_ir(const ScheduledKernel& kernel, const Target& target,
                           const std::string& name) {
  Unit unit(target, name);
  emit_kernel(unit, kernel);
  unit.optimise();
  return unit.text();
}

std::string kernel_assembly(const ScheduledKernel& kernel, const Target& target,
                            const std::string& name) {
  Unit unit(target, name);
  emit_kernel(unit, kernel);
  unit.optimise();
  return unit.assembly();
}

Bytes kernel_object(const ScheduledKernel& kernel, const Target& target, const std::string& name) {
  Unit unit(target, name);
  emit_kernel(unit, kernel);
  unit.optimise();
  return unit.object();
}

}  // namespace tc
