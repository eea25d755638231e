// What a sum's loop reads first, loaded by the trip before.
#pragma once

#include <llvm/IR/Function.h>

#include "ir/target/target.h"

namespace tc {

// On a core that runs in order each trip of a sum's loop begins by waiting for its first elements and
// weights: nothing of the trip can come before them. Has each trip end with these loads of the next one, as
// far as registers, counted in groups, allow, and a first trip's come before the loop. So that none leaves
// its buffer, the last trip is peeled off where trips are few and code is short, and reads its own again
// elsewhere. Addresses that each trip multiplies its number for become pointers that move by an addition.
void preload_sums(llvm::Function& function, const Target& target);

}  // namespace tc
