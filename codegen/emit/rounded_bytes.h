// Expressions that round floats to bytes, as behind a sum of bytes, and what is known of the floats.
#pragma once

#include <optional>

#include "codegen/emit/context.h"
#include "ir/loop.h"

namespace tc {

// An expression that rounds a float to the nearest integer, adds a constant and cuts the result at ends that
// are bytes.
struct RoundedByte {
  ExprPtr number;             // f32, as it is before it is rounded
  DType type = DType::U8;     // U8 or I8
  int64_t added = 0;          // to the integer
  int64_t low = 0, high = 0;  // ends of the result, inside of the type's
  int64_t of_nan = 0;         // the result where the number is NaN
  bool may_be_nan = true;
};
std::optional<RoundedByte> rounded_byte(const Kernel& kernel, const Expr& expr);

// Whether a cast of an i32 to a byte gives the same number whatever the i32's value, since constants cut it
// before.
bool keeps_number(const Expr& cast);

// Whether a constant bounds the magnitude of f32: the larger of a smaller one, or the smaller of a larger
// one.
bool is_bounded_float(const Expr& expr);

// Vectors of 512 bits on x86: the upper end is that of the instruction that narrows. Null where it is not
// this one that the expression asks for.
llvm::Value* round_to_bytes_x86(Builder& builder, const Target& target, const RoundedByte& how,
                                llvm::Value* numbers);

}  // namespace tc
