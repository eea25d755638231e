// Scalarises the epilogues of sums, on cores without vectors.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Where a block ends with stores of several vectors, computes and stores the first lane of all these vectors,
// then the second lane of all, and so on. LLVM would scalarise one operation after the other, so that the
// intermediate results of all lanes are live at the same time. Besides, the same lane of several vectors uses
// the same constants, which are then loaded once.
void scalarise_epilogues(llvm::Function& function);

}  // namespace tc
