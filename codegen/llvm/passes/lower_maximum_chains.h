// Replaces llvm.maximum of vectors, whose result is NaN where an operand is and which takes four RISC-V
// instructions, by less where several maxima follow each other.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Replaces the calls of llvm.maximum. A chain of maxima, as over a window, carries the largest number and a
// sum of squares instead: the sum is NaN exactly where an element is, since no square is negative and
// infinities do not cancel. That takes two instructions per element, where comparing, testing for NaN,
// uniting the two conditions and selecting take four.
void lower_maximum_chains(llvm::Function& function);

}  // namespace tc
