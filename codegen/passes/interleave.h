// Interleaves chains of dependent operations.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// On an in-order core an operation that uses the result of the one before it waits for that one's latency.
// Long functions of vectors, such as an exponential, are chains of such operations. Where a block computes
// and stores several chains one after the other, their operations take turns: of as many chains as it takes
// for none to wait, at least two, as far as vector registers allow. Returns the blocks that it changed.
llvm::SmallPtrSet<const llvm::BasicBlock*, 4> interleave_chains(llvm::Function& function,
                                                                const Target& target);

}  // namespace tc
