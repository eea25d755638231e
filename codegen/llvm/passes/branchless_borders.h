// Where a load reads either an element of a buffer or, at the border of a padded tensor, a block of zeros,
// computes the address with a mask, for in-order RISC-V processors without Zicond: LLVM would turn the
// choice into a branch, which splits the code into blocks too short to reorder.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

void branchless_borders(llvm::Function& function, const Target& target);

}  // namespace tc
