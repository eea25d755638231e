// Loads what a trip of a sum's loop reads first at the end of the trip before.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// On an in-order core each trip of a sum's loop begins by waiting for its first elements and weights:
// nothing of the trip can come before them. This pass has each trip end with these loads of the next one, as
// far as registers, counted in groups, allow; those of the first trip come before the loop. So that no load
// leaves its buffer, the last trip is peeled off where trips are few and code is short; elsewhere the last
// trip loads from its own addresses again. Addresses that each trip computes by multiplying its number
// become pointers that move by an addition.
void pipeline_operand_loads(llvm::Function& function, const Target& target);

}  // namespace tc
