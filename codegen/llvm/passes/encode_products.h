// Writes a vendor's instructions that LLVM does not know. Until here an instruction that LLVM knows, of the
// same shape and with the same registers, stood for each, so that LLVM orders it, allocates its registers and
// sets the vector unit's length and type as for its own.
#pragma once

#include <llvm/Pass.h>

#include "ir/target/target.h"

namespace tc {

llvm::Pass* create_encode_products(const Target& target);

}  // namespace tc
