// Replaces machine instructions that stand for a vendor's instructions which LLVM does not know. Until this
// pass, an instruction that LLVM knows, with operands of the same shape in the same registers, stands for
// each of them, so that LLVM schedules it, allocates its registers and inserts `vsetvli` as for any other
// instruction.
#pragma once

#include <llvm/Pass.h>

#include "ir/target/target.h"

namespace tc {

llvm::Pass* create_encode_products(const Target& target);

}  // namespace tc
