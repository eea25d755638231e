// What follows a sum, on cores without vectors.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Where a block ends with stores of several vectors, computes and stores one lane after the other: the first
// lanes of all these vectors, then the second ones. LLVM divides a vector operation by operation, so that the
// intermediate results of all lanes wait in registers together; and lanes of the same number share constants.
void scalarise_epilogues(llvm::Function& function);

}  // namespace tc
