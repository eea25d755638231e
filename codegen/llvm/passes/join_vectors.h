// Joins two vectors of at most two registers each into one, on RISC-V cores with vectors.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Joins two vector accumulators of a tile that are multiplied by the same elements: one load of an element,
// one multiply-add and one load of weights then serve both, so that the tile takes half as many instructions.
// After the sum the two are separated again, so that the code after it (the epilogue, stores to blocks of
// channels that are not adjacent) stays as it is.
void join_vectors(llvm::Function& function, const Target& target);

}  // namespace tc
