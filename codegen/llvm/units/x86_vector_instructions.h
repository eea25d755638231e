// Instructions of x86's vectors that LLVM's generic operations do not express: floats rounded to bytes.
#pragma once

#include "codegen/llvm/emit/kernel_context.h"
#include "codegen/llvm/emit/requantise_pattern.h"

namespace tc {

// The bytes that the expression `how` makes of these numbers, for vectors of 512 bits, where the narrowing
// instruction clamps at the upper bound. Null where the expression has another upper bound.
llvm::Value* round_to_bytes_x86(Builder& builder, const Target& target, const RoundedByte& how,
                                llvm::Value* numbers);

}  // namespace tc
