// Chooses which operand RISC-V's vector multiply-adds overwrite.
#pragma once

#include <llvm/Pass.h>

namespace tc {

// A pass that lets each multiply-add overwrite the sum that it adds to (`vfmacc`). LLVM selects the form that
// overwrites a factor (`vfmadd`) and changes it where that factor is used again; at a factor's last use the
// sum would move to another register, and a copy would bring it back at the end of the loop. Where both
// factors are used again and the addend is computed before the loop, as in a polynomial, one of them has to
// be copied: the copied one is the addend, since a copy of a factor would wait for the factor.
llvm::Pass* create_tie_accumulators();

}  // namespace tc
