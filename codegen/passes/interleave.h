// Chains of operations that wait for one another, made to run beside each other.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// On a core that runs in order, an operation whose operand the one before it computes waits for as long as
// the unit takes; long functions of vectors, such as an exponential, are chains of such operations. Where a
// block stores several of them one behind the other, brings so many in turns that none waits, at least two,
// as far as vector registers allow. Returns the blocks that it changed.
llvm::SmallPtrSet<const llvm::BasicBlock*, 4> interleave_chains(llvm::Function& function,
                                                                const Target& target);

}  // namespace tc
