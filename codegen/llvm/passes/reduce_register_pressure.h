// Reorders straight-line code whose values do not fit the vector registers, for in-order processors.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// In each block that needs more vector registers than there are (counted in groups, LMUL), computes what a
// store needs right before the store, and loads a value again where it would have to wait in a register for
// a late use. Such a load costs no more than the reload of a spilled value, and saves the spill.
void reduce_register_pressure(llvm::Function& function, const Target& target);

}  // namespace tc
