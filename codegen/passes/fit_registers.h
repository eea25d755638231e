// Straight-line code whose values do not fit the vector registers, for processors that execute instructions
// in order.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// In each block that needs more vector registers than there are, in groups (LMUL), computes what a store
// needs right before it, and loads again what would have to wait in a register for a late use: a load of what
// is read costs no more than one of what was saved, and nothing is saved.
void fit_registers(llvm::Function& function, const Target& target);

}  // namespace tc
