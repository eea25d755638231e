// Products of bytes that a target's vectors sum up several at once in each lane of 32 bits.
#pragma once

#include "ir/target/target.h"

namespace tc {

// How many: 4, or 0 where kernels had better multiply one at a time.
int byte_products(const Target& target);

// Whether one instruction multiplies and adds so many in vectors of so many lanes: of numbers with a sign
// times others without.
bool has_byte_instruction(const Target& target, int64_t lanes, DType a, DType b);

}  // namespace tc
