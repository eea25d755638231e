// Reorders basic blocks whose values do not fit the vector registers, on in-order cores with vectors and on
// all RISC-V cores with vectors.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Changes each block that needs more vector registers than there are (counted in groups, LMUL): moves the
// computation of a stored value next to its store, and loads a value again where it would have to stay in a
// register until a late use. Such a load costs no more than the reload of a spilled value, and the spill is
// saved.
void reduce_register_pressure(llvm::Function& function, const Target& target);

}  // namespace tc
