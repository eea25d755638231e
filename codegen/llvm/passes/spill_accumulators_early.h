// Keeps accumulators in memory during long epilogues of other accumulators, on in-order cores with vectors
// and on all RISC-V cores with vectors.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Where an epilogue has many operations, such as that of GELU, and the accumulators of a tile leave no
// registers for its values: stores each accumulator except the first at the address of its result, and
// reloads it shortly before the end of the epilogue of the accumulator before it. Does so only if nothing
// else in the block reads or writes that address in between.
void spill_accumulators_early(llvm::Function& function, const Target& target);

}  // namespace tc
