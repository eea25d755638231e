// A plan's code: run(), bind() and the descriptor of runtime/abi.h.
#pragma once

#include <string>
#include <vector>

#include "codegen/llvm/module_compiler.h"
#include "ir/plan.h"

namespace tc {

// Names of what the objects of one model share; all but the descriptor are hidden.
struct PlanNames {
  std::string descriptor;
  std::string constants() const { return descriptor + "_constants"; }
  std::string kernel(size_t index) const { return descriptor + "_kernel_" + std::to_string(index); }
  // A kernel that has versions for longer vectors: the code for machines that none of these fits.
  static std::string any(const std::string& kernel) { return kernel + "_any"; }
  // The kernel's version for vectors of so many bits.
  std::string version(size_t index, int bits) const { return kernel(index) + "_" + std::to_string(bits); }
};

struct WeightsFile;

// Adds run(), bind() and the descriptor to the compiler's module. `features` is the list that the runtime
// checks. The constants are in that file beside the artefact, or, where it is null, under a symbol.
void emit_plan(ModuleCompiler& compiler, const Plan& plan, const PlanNames& names,
               const std::string& features, const WeightsFile* weights = nullptr);

// For a system without a runtime: adds `int PREFIX_run(inputs..., outputs..., arena)`, which returns a
// BareStatus (ir/scratch.h), and the block `PREFIX_arena` in place of what emit_plan() adds. Where the plan
// has states, run() keeps these in the arena, and `int PREFIX_reset(arena)` gives them their first values.
// The plan must have no symbols, and no step that asks the runtime for something.
void emit_bare_plan(ModuleCompiler& compiler, const Plan& plan, const PlanNames& names,
                    const std::string& prefix);

}  // namespace tc
