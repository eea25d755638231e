// Recognises expressions that requantise: they round floats to bytes and clamp them to bounds, as the
// epilogue of a sum of bytes does.
#pragma once

#include <optional>

#include "codegen/llvm/emit/kernel_context.h"
#include "ir/loop.h"

namespace tc {

// An expression that rounds a float to the nearest integer, adds a constant and clamps the result to bounds
// that are bytes.
struct RoundedByte {
  ExprPtr number;             // f32, as it is before it is rounded
  DType type = DType::U8;     // U8 or I8
  int64_t added = 0;          // to the integer
  int64_t low = 0, high = 0;  // bounds of the result, within the type's
  int64_t of_nan = 0;         // the result where the number is NaN
  bool may_be_nan = true;
};
std::optional<RoundedByte> rounded_byte(const Kernel& kernel, const Expr& expr);

// Whether a cast of an i32 to a byte never changes the number, since constants clamp it before.
bool keeps_number(const Expr& cast);

// Whether constants bound the magnitude of the f32: it is clamped from both sides.
bool is_bounded_float(const Expr& expr);

}  // namespace tc
