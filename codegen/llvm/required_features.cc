// Which CPU features code for a target may use.
#include <algorithm>

#include "codegen/llvm/emit/kernel_context.h"
#include "codegen/llvm/required_features.h"
#include "codegen/llvm/emit/matrix_plan.h"
#include "codegen/llvm/artefact/plan_emitter.h"
#include "ir/target/tables.h"

namespace tc {

// Whether instructions that LLVM does not know need the feature: those of the matrix unit, or products of the
// lanes of vectors, which any kernel may have.
static bool has_encoded(const Target& target, const std::string& feature, bool with_matrices) {
  const auto needs = [&](const NarrowProduct& row) {
    return row.encoding.opcode != 0 && row.feature == feature;
  };
  const std::vector<MatrixUnit::Format>& formats = target.matrix.formats;
  const std::vector<const NarrowProduct*>& lanes = target.lane_products;
  return (with_matrices && std::any_of(formats.begin(), formats.end(),
                                       [&](const auto& each) { return needs(*each.instruction); })) ||
         std::any_of(lanes.begin(), lanes.end(), [&](const auto* each) { return needs(*each); });
}

std::string required_features(const ModuleCompiler& compiler, bool with_matrices) {
  std::vector<std::string> names;
  switch (compiler.target().arch) {
    case Arch::X86_64: names = targets::x86_features(); break;
    case Arch::AArch64: names = targets::aarch64_features(); break;
    case Arch::ArmM: names = targets::cortex_m_features(); break;
    case Arch::RiscV64:
      names = {"m", "a", "f", "d", "c"};
      for (const std::string& name : targets::riscv_features()) names.push_back(name);
      break;
    case Arch::RiscV32:
      names = {"m", "f", "c"};
      for (const std::string& name : targets::riscv32_features()) names.push_back(name);
      break;
  }
  const Target& target = compiler.target();
  std::string result;
  for (const std::string& name : names) {
    const bool needed = targets::is_encoded_feature(target.arch, name)
                            ? has_encoded(target, name, with_matrices)
                            : compiler.has_feature(name);
    if (!needed) continue;
    if (!with_matrices && targets::needs_tile_unit(compiler.target().arch, name)) continue;
    result += (result.empty() ? "" : " ") + name;
  }
  return result;
}

std::string plan_features(const Plan& plan, const Target& target) {
  const bool with_matrices = std::any_of(plan.kernels.begin(), plan.kernels.end(), uses_matrix_unit);
  return required_features(ModuleCompiler(target, "features"), with_matrices);
}

std::string target_features(const Target& target) {
  return required_features(ModuleCompiler(target, "features"), target.matrix.registers > 0);
}

}  // namespace tc
