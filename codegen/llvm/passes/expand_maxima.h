// Replaces maxima of vectors that have to be NaN where an operand is, which takes four of RISC-V's
// instructions.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Replaces the calls of llvm.maximum. A chain of maxima, as over a window, carries the largest number and a
// sum of squares instead: the sum is NaN exactly where an element is, since no square is negative and
// infinities do not cancel. That takes two instructions per element, where comparing, testing for NaN,
// uniting the two conditions and selecting take four.
void expand_maxima(llvm::Function& function);

}  // namespace tc
