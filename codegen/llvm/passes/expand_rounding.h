// Rounding of floats to whole numbers on Arm's microcontrollers.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Replaces LLVM's roundings of f32 (to even, down, up, towards zero), which would call a function of the C
// library where the target has no instructions for them, by sums that have the same result for every number.
// On targets that do have such instructions (Cortex-M33 and later), LLVM selects only the one that rounds by
// the current mode, which is to even; the other roundings become sums there as well.
void expand_rounding(llvm::Function& function, const Target& target);

}  // namespace tc
