// Code without branches at borders, for processors that execute instructions in order and have no conditional
// moves. Each branch splits the code into blocks too short to reorder; and what one block loads stays in
// registers through the others, since fit_registers loads again only within a block.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Where a load's address is a buffer's element or, at a border, zeros, computes it with a mask: LLVM would
// make a branch of the choice.
void choose_addresses(llvm::Function& function, const Target& target);

// Where vectors do not fit the registers, runs what a branch leaves out at a border as well, on memory that
// nothing else uses.
void run_through_borders(llvm::Function& function, const Target& target);

}  // namespace tc
