// Interleaves chains of dependent operations, on in-order cores with vectors and on all RISC-V cores with
// vectors.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Each operation of a chain uses the result of the operation before it, so that an in-order core stalls for
// its latency. Long functions of vectors, such as an exponential, are chains. Where a block computes several
// chains one after the other, this pass interleaves as many of them as are needed to hide the latency, at
// least two, as far as their values fit the vector registers. Returns the blocks that it changed.
llvm::SmallPtrSet<const llvm::BasicBlock*, 4> interleave_chains(llvm::Function& function,
                                                                const Target& target);

}  // namespace tc
