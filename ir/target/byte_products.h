// Sums of products of bytes: a target's vectors add several products to each lane of 32 bits in one step.
#pragma once

#include "ir/target/target.h"

namespace tc {

// How many products of bytes kernels add up at a time: 4, or 0 where multiplying them one at a time is
// better.
int byte_products(const Target& target);

// Whether one instruction does so in vectors of `lanes` lanes: such instructions multiply signed bytes by
// unsigned ones.
bool has_byte_instruction(const Target& target, int64_t lanes, DType a, DType b);

}  // namespace tc
