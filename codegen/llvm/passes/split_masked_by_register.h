// Splits masked loads and stores that are wider than AVX2's registers into one access for each register.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Splits a masked load or store into one access per register, where a constant part of its mask leaves a
// register without lanes, and omits the accesses without lanes. LLVM 19 splits such accesses itself, but
// where the mask is the conjunction of a condition's splat and a constant, it loads all of a register whose
// mask is false: it demands only the sign bits of the mask, replaces the constant's false lanes by true
// ones, and then sees a mask that is true. The bytes that it loads may not exist.
void split_masked_by_register(llvm::Function& function);

}  // namespace tc
