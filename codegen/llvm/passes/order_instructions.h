// Orders instructions for processors that execute them in the order of the code.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Moves loads so far ahead of their uses that an in-order core does not wait for the second-level cache, as
// far as registers allow: a vector is loaded early only where all vectors that are live meanwhile fit the
// target's registers, counted in groups (LMUL). Prefetches are spread over their block, since a cache has few
// lines in flight at a time. LLVM's own scheduler before register allocation, which considers neither, is off
// for such functions, so that this order is kept (`ModuleCompiler::emit_once`). A function whose values do
// not fit the registers, and in which no operand is broadcast, is not changed, and LLVM orders it. In the
// blocks of `interleaved`, stores keep their places.
void order_instructions(llvm::Function& function, const Target& target,
                        const llvm::SmallPtrSetImpl<const llvm::BasicBlock*>& interleaved);

}  // namespace tc
