// Software-pipelines the first loads of a sum's loop, on in-order cores with vectors and on all RISC-V cores
// with vectors.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Each iteration of a sum's loop begins with loads of elements and weights, for which an in-order core
// stalls, since nothing of the iteration can be executed before them. After this pass each iteration ends
// with these loads of the next iteration, as far as registers, counted in groups, allow; the loads of the
// first iteration precede the loop. So that no load leaves its buffer, the last iteration is peeled if
// iterations are few and the code is short; otherwise the last iteration loads from its own addresses again.
// Addresses that are computed from the number of the iteration by a multiplication become pointers that are
// incremented.
void pipeline_operand_loads(llvm::Function& function, const Target& target);

}  // namespace tc
