// Removes the branches that test a padded tensor's border where vectors do not fit the registers, for
// in-order processors (but RISC-V ones with Zicond): the code that a branch would skip is always executed,
// and where it should be skipped its loads and stores use memory that nothing else uses. The block becomes
// long enough to reorder, and what one block loads stays in registers through the next ones, since
// reduce_register_pressure loads again only within a block.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

void if_convert_borders(llvm::Function& function, const Target& target);

}  // namespace tc
