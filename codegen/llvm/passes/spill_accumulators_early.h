// Keeps sums in memory while others go through a long epilogue, for in-order processors.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Where an epilogue has many operations, as that of GELU, and the sums of a tile leave no registers for its
// values, stores each sum but the first at the address of its result, and loads it again when the epilogue of
// the sum before it is nearly done. Does so only where nothing else in the block reads or writes that address
// in between.
void spill_accumulators_early(llvm::Function& function, const Target& target);

}  // namespace tc
