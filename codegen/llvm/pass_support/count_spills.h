// Counts the vectors that LLVM's register allocator spilled.
#pragma once

#include <llvm/Pass.h>

namespace tc {

// A pass that adds to `count` the number of instructions in loops that spill whole vector registers of
// RISC-V or Arm to the stack or reload them; each counts once, however often it runs and however many
// registers it moves. It has to run after both allocators, that of vectors and that of scalars
// (`llvm::StackSlotColoringID`).
llvm::Pass* create_count_spills(int& count);

}  // namespace tc
