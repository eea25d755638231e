// Chooses which operand RISC-V's vector multiply-adds overwrite.
#pragma once

#include <llvm/Pass.h>

namespace tc {

// A pass that lets each multiply-add overwrite the sum that it adds to (`vfmacc`). LLVM selects the form that
// overwrites a factor (`vfmadd`) and changes it where that factor is used again; at a factor's last use the
// sum would move to another register, and a copy would bring it back at the end of the loop.
llvm::Pass* create_sums_in_place();

}  // namespace tc
