// Products of vectors in pieces of assembly whose sums nothing reads, on Arm's microcontrollers.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Removes from each piece of products (codegen/llvm/units/cortex_m_vectors.cc) the instructions that add to a
// sum that nothing reads, and the loads for them: the last tile of a map has fewer results than the others.
// LLVM removes such instructions where they are not in a piece of assembly.
void drop_unused_products(llvm::Function& function);

}  // namespace tc
