// Rounding of floats to integers on Arm's microcontrollers.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Lowers LLVM's roundings of f32 (to nearest even, down, up, towards zero) to additions and subtractions that
// give the same result for every operand. Where the target has no instructions for them, LLVM would call
// functions of the C library. Where it has such instructions (Cortex-M33 and later), LLVM selects only the
// one that rounds in the current mode, which is to nearest even; the other roundings are lowered on these
// targets, too.
void expand_rounding(llvm::Function& function, const Target& target);

}  // namespace tc
