// The order of instructions for processors that execute them in order.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Whether the order of the code is ours to choose: the target has vectors, and runs instructions in the order
// of the code or has registers in groups (`counts_registers`).
bool orders_code(const Target& target);

// Moves loads so far ahead of what uses them that a core that runs in order does not wait for the second
// cache, as far as registers allow: a vector is loaded early only where all vectors that live meanwhile fit
// the target's registers, in groups (LMUL). Loads that only bring a line near are spread over their block,
// since a cache has few lines under way at a time. LLVM keeps this order where it is made: its own scheduler
// in front of register allocation, which knows neither, is off for such functions (`Unit::emit_once`). Where
// values do not fit the registers and no operand is broadcast, the order is LLVM's. Stores keep their places
// in the blocks of `interleaved`.
void order_for_core(llvm::Function& function, const Target& target,
                    const llvm::SmallPtrSetImpl<const llvm::BasicBlock*>& interleaved);

}  // namespace tc
