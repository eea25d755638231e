// Largest elements where NaN has to win, for vectors of cores that run in order.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Puts instructions in the place of llvm.maximum. Of a chain, as a window's, the largest number and a sum of
// squares are carried: the sum is NaN just where an element is, since no square is negative, so that
// infinities do not cancel. That is two instructions for an element, where a comparison, a test for NaN,
// their union and a selection are four.
void expand_maxima(llvm::Function& function);

}  // namespace tc
