// Chooses the address of a load without a branch, on RISC-V cores with vectors but without Zicond. At the
// border of a padded tensor a load reads either an element of a buffer or a block of zeros. This pass
// computes the address with a mask: LLVM would lower the `select` of the address to a branch, and the basic
// blocks between branches are too short to schedule.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

void branchless_borders(llvm::Function& function, const Target& target);

}  // namespace tc
