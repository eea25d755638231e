// Hoists loop-invariant machine instructions, on RISC-V cores with vectors.
#pragma once

#include <llvm/Pass.h>

namespace tc {

// A pass that replaces LLVM's `early-machinelicm` and, unlike it, counts registers: a vector is hoisted only
// if it and all vectors that are live in the loop, counted in groups (LMUL), fit the target's
// `vector_registers`. The initial value of an accumulator stays at the beginning of its sum, since each sum
// needs a copy of it. LLVM's pass hoists every splat and then spills it.
llvm::Pass* create_hoist_machine_invariants(int vector_registers);

}  // namespace tc
