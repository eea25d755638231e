// Masked loads and stores wider than AVX2's registers.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Splits masked loads and stores of which a register has no lane, by registers, and leaves out those without
// lanes. LLVM 19 splits them itself, and where the mask is the splat of a condition and a constant it loads
// all of a register whose mask is false: it demands only the sign bits of the mask, replaces the constant's
// false lanes by true ones, and then sees a mask that is true. The bytes may not be there.
void split_masked_accesses(llvm::Function& function);

}  // namespace tc
