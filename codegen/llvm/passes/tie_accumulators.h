// Chooses which operand RISC-V's vector multiply-adds overwrite.
#pragma once

#include <llvm/Pass.h>

namespace tc {

// A pass that has each multiply-add overwrite its accumulator (`vfmacc`). LLVM selects the form that
// overwrites a factor (`vfmadd`), and changes it if that factor is used again. At the last use of a factor
// the accumulator would move to another register, and a copy at the end of the loop would bring it back. If
// both factors are used again and the addend is computed before the loop, as in a polynomial, one operand has
// to be copied: the pass copies the addend, since a copy of a factor would wait for the factor.
llvm::Pass* create_tie_accumulators();

}  // namespace tc
