// Loop-invariant code on machine instructions, for processors that execute them in order.
#pragma once

#include <llvm/Pass.h>

namespace tc {

// A pass that takes computations of the same value out of loops, in the place of LLVM's `early-machinelicm`.
// It differs in that it counts registers: a vector leaves a loop only where all vectors that live in it, in
// groups (LMUL), fit the target's `vector_registers` with it, and a value that a sum begins with stays where
// the sum begins, since each sum needs a copy of it. LLVM's takes every splat out and then keeps it on the
// stack.
llvm::Pass* create_loop_invariants(int vector_registers);

}  // namespace tc
