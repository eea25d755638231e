// Two vectors of at most two registers as one, for RISC-V cores that run in order.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Joins the sums of a tile of two vectors where they are multiplied by the same elements: one load of an
// element, one multiply-add and one load of weights then serve both, and a tile takes half of the
// instructions. Where a sum ends, its halves are taken apart, so that what comes behind (the epilogue, stores
// to blocks of channels that lie apart) stays as it is.
void join_vectors(llvm::Function& function, const Target& target);

}  // namespace tc
