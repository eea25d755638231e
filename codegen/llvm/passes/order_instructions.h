// Schedules instructions, on in-order cores with vectors and on all RISC-V cores with vectors.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Moves loads so far ahead of their uses that an in-order core does not stall for the second-level cache, as
// far as registers allow: a vector is loaded early only if all vectors that are live meanwhile fit the
// target's registers, counted in groups (LMUL). Prefetches are spread over their block, since a cache has few
// outstanding misses. LLVM's scheduler before register allocation considers neither, and is off for such
// functions, so that this order is kept (`ModuleCompiler::emit_once`). A function whose values do not fit the
// registers, and in which no operand is broadcast, is left to LLVM's scheduler. In the blocks of
// `interleaved`, stores stay where they are.
void order_instructions(llvm::Function& function, const Target& target,
                        const llvm::SmallPtrSetImpl<const llvm::BasicBlock*>& interleaved);

}  // namespace tc
