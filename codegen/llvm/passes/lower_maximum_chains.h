// Lowers llvm.maximum of vectors for RISC-V. Its result is NaN if an operand is NaN, for which LLVM needs
// four instructions.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Lowers all calls of llvm.maximum. In a chain of maxima, such as the maximum over a window, each maximum is
// an operand of the next one. A chain of three or more is lowered to maxima that ignore NaN and to a sum of
// the squares of the elements, which is NaN exactly if an element is NaN: squares are not negative, so that
// infinities do not cancel. That takes two instructions per element, where comparing, testing for NaN,
// combining both conditions and selecting take four. Shorter chains are lowered to these four.
void lower_maximum_chains(llvm::Function& function);

}  // namespace tc
