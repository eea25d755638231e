// Products of bytes that a target's vectors sum up several at once in each lane of 32 bits.
#pragma once

#include "ir/target/target.h"

namespace tc {

// How many: 4, or 0 where kernels had better multiply one at a time.
int byte_products(const Target& target);

}  // namespace tc
