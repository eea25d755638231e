// Moves loop-invariant machine instructions out of loops, for in-order processors.
#pragma once

#include <llvm/Pass.h>

namespace tc {

// A pass that moves loop-invariant computations out of loops, in the place of LLVM's `early-machinelicm`. It
// differs in that it counts registers: a vector leaves a loop only where it and all vectors that are live in
// the loop, counted in groups (LMUL), fit the target's `vector_registers`. A value with which a sum begins
// stays where the sum begins, since each sum needs a copy of it. LLVM's pass takes every splat out of its
// loop and then spills it.
llvm::Pass* create_hoist_machine_invariants(int vector_registers);

}  // namespace tc
