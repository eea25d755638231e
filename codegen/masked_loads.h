// Masked loads wider than AVX2's registers.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Masked loads whose upper half no lane reads become loads of the lower half. LLVM 19 splits the others itself, and where the mask is
// the splat of a condition and a constant it reads an upper half without lanes as a whole (it takes the sign bits alone of the
// constant's lanes as needed, makes 1 of 0, and then finds a mask that is true everywhere): bytes that may not be there.
void narrow_masked_loads(llvm::Function& function);

}  // namespace tc
