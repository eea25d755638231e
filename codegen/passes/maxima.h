// Maxima that are NaN where an operand is, for vectors of in-order cores.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Replaces llvm.maximum by other instructions. A chain of maxima, as over a window, carries the largest
// number and a sum of squares: the sum is NaN just where an element is, since no square is negative, so that
// infinities do not cancel. That takes two instructions per element; a comparison, a test for NaN, their
// union and a selection are four.
void expand_maxima(llvm::Function& function);

}  // namespace tc
