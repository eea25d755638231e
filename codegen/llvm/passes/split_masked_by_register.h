// Splits masked loads and stores that are wider than AVX2's registers into one access for each register.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Splits a masked load or store into one access for each register, where a constant part of its mask leaves a
// register without active lanes, and omits the accesses without active lanes. LLVM 19 splits such accesses
// itself. But where the mask is the conjunction of a splat of a condition and a constant, LLVM loads all
// lanes of a register whose mask is false: it needs only the sign bits of the mask, so it replaces the false
// lanes of the constant by true ones, and then takes the mask for true. The bytes that it loads may not
// exist.
void split_masked_by_register(llvm::Function& function);

}  // namespace tc
