// Vectors that LLVM's register allocator saved.
#pragma once

#include <llvm/Pass.h>

namespace tc {

// A pass that adds to `count` the instructions by which loops of a function save whole vector registers of
// RISC-V or Arm on the stack or bring them back, however often they run and however many registers they move.
// It has to come behind both allocators, that of vectors and that of scalars (`llvm::StackSlotColoringID`).
llvm::Pass* create_count_spills(int& count);

}  // namespace tc
