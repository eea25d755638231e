// Interleaves chains of dependent operations.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// On an in-order core an operation that uses the result of the one before it waits for that one's latency.
// Long functions of vectors, such as an exponential, are chains of such operations. Where a block computes
// several chains one after the other, this puts one operation of each after the other. It takes as many
// chains together as keep each of them from waiting (two or more), and no more than fit the vector registers.
// Returns the blocks that it changed.
llvm::SmallPtrSet<const llvm::BasicBlock*, 4> interleave_chains(llvm::Function& function,
                                                                const Target& target);

}  // namespace tc
