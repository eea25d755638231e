// Sums that wait in memory while others go through a long epilogue, for processors that execute instructions
// in order.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Where an epilogue is a function of several operations, such as GELU, and the sums of a tile leave no
// registers for its values, stores each sum but the first where its result goes, and loads it when the
// results before it are there. Nothing else in the block may read or write that place in between.
void spill_sums(llvm::Function& function, const Target& target);

}  // namespace tc
