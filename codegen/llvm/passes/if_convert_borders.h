// If-converts the branches that test the border of a padded tensor, where vectors do not fit the registers,
// on in-order cores with vectors and on all RISC-V cores with vectors, except RISC-V cores with Zicond. The
// code that a branch would skip is always executed; when it would have been skipped, its loads and stores
// access memory that nothing else uses. The resulting block is long enough to schedule, and what one block
// loads stays in registers for the next ones, since reduce_register_pressure loads again only within a block.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

void if_convert_borders(llvm::Function& function, const Target& target);

}  // namespace tc
