// Extensions of the factors of long products on Arm's microcontrollers.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Extends the factors of a product of 64 bits from 32 bits in the block of the product, whatever block
// extended them before. LLVM selects instructions block by block: only where it sees both extensions is the
// product one instruction (`smull`, `smmul`, `smmla`), and only factors of 32 bits wait in registers.
void sink_extensions(llvm::Function& function);

}  // namespace tc
