// Vectors that LLVM's register allocator saved.
#pragma once

#include <llvm/Pass.h>

namespace tc {

// A pass that adds to `count` the whole vector registers of RISC-V which loops of a function save on the stack or bring back: instructions of
// the code, however often they run. It has to come behind both allocators, that of vectors and that of scalars (`llvm::StackSlotColoringID`).
llvm::Pass* create_count_spills(int& count);

}  // namespace tc
