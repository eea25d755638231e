// Joins two vectors of at most two registers each into one, for in-order RISC-V cores.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Joins the two vectors of a tile's sums where both are multiplied by the same elements: one load of an
// element, one multiply-add and one load of weights then serve both, and a tile takes half of the
// instructions. At the end of a sum its halves are separated again, so that the code after it (the epilogue,
// stores to blocks of channels that are not adjacent) stays as it is.
void join_vectors(llvm::Function& function, const Target& target);

}  // namespace tc
