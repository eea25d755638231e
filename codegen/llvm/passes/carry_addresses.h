// Addresses that loops carry from trip to trip, on targets with addresses of 32 bits.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Strength reduction of addresses. The emitter computes an address from all loop variables, in 64 bits. Where
// a loop moves an address by the same distance on every trip, a pointer that the loop adds to takes its
// place, one for all addresses that are a constant distance apart. Where nothing else needs the loop's
// variable, it counts down to zero. Loops that would carry more than a few pointers are left alone.
void carry_addresses(llvm::Function& function);

}  // namespace tc
