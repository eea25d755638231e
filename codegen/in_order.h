// The order of instructions for processors that execute them in order.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// Whether the target has vectors and runs instructions in the order of the code, so that this order is ours to choose.
bool runs_in_order(const Target& target);

// Moves loads so far ahead of what uses them that a core that runs in order does not wait for the second cache, as far as
// registers allow: a vector is loaded early only where all vectors that live meanwhile fit the target's registers, in
// groups (LMUL). Loads that only bring a line near are spread over their block, since a cache has few lines under way at a
// time. LLVM keeps this order where it is made: its own scheduler in front of register allocation, which knows neither, is off for such functions
// (`Unit::emit_once`). Where values do not fit the registers and no operand is broadcast, the order is LLVM's.
void order_for_core(llvm::Function& function, const Target& target);

}  // namespace tc
