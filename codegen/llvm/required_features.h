// Features of the processor that code for a target may use, by LLVM's names, separated by spaces.
#pragma once

#include <string>

#include "ir/plan.h"
#include "ir/target/target.h"

namespace tc {

class ModuleCompiler;

// CPU features that code for the target may use, separated by spaces: an artefact, and the lease of a
// device, demand them of a machine.
std::string target_features(const Target& target);

// The features that this plan's kernels need; those of a matrix unit only where a kernel uses it.
std::string plan_features(const Plan& plan, const Target& target);

// The features of the target of `compiler` that generated code may use; those of a matrix unit only
// `with_matrices`.
std::string required_features(const ModuleCompiler& compiler, bool with_matrices);

}  // namespace tc
