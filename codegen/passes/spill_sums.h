// Keeps sums in memory while others go through a long epilogue, for in-order processors.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Where an epilogue has many operations, as that of GELU, and the sums of a tile leave no registers for its
// values, stores each sum but the first at the address where its result will be stored, and loads it again
// shortly before the epilogue of the sum before it ends. Nothing else in the block may read or write that
// address in between.
void spill_sums(llvm::Function& function, const Target& target);

}  // namespace tc
