// Removes the branches that test a padded tensor's border, for in-order processors without conditional
// moves. Each branch splits the code into blocks too short to reorder. Also, what one block loads stays in
// registers through the next ones, since fit_registers loads again only within a block.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Where a load reads either an element of a buffer or, at a border, a block of zeros, computes the address
// with a mask: LLVM would turn the choice into a branch.
void choose_addresses(llvm::Function& function, const Target& target);

// Where vectors do not fit the registers, always executes the code that a branch skips at a border; its
// loads and stores then access memory that nothing else uses.
void run_through_borders(llvm::Function& function, const Target& target);

}  // namespace tc
