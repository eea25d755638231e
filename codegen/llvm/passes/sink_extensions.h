// Sinks the extensions of the factors of long products, on Arm's microcontrollers.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Extends the 32-bit factors of a 64-bit product in the block of the product, wherever they were extended
// before. LLVM selects instructions block by block: only if both extensions are in the product's block does
// it select one instruction (`smull`, `smmul`, `smmla`), and only then are the live values 32 bits wide.
void sink_extensions(llvm::Function& function);

}  // namespace tc
