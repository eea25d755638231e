// Instructions of the RISC-V vector extension that LLVM's own operations do not give: sums of short products, and floats rounded to bytes.
#pragma once

#include <optional>

#include "codegen/context.h"
#include "ir/loop.h"

namespace tc {

// Whether values of so many lanes are vectors of RISC-V whose floats take at most eight registers.
bool has_riscv_vectors(const Target& target, int lanes);

// Sums of 32 bits plus products of two numbers of 16 bits, one of which may be the same for all lanes: a scalar.
llvm::Value* add_short_products(Builder& builder, const Target& target, llvm::Value* sums, llvm::Value* a, llvm::Value* b);

// An expression that rounds a float to the nearest integer, adds a constant and cuts the result at ends that are bytes.
struct RoundedByte {
  ExprPtr number;               // f32, as it is before it is rounded
  DType type = DType::U8;       // U8 or I8
  int64_t added = 0;            // to the integer
  int64_t low = 0, high = 0;    // ends of the result, inside of the type's
  int64_t of_nan = 0;           // the result where the number is NaN
  bool may_be_nan = true;
};
std::optional<RoundedByte> rounded_byte(const Kernel& kernel, const Expr& expr);
llvm::Value* round_to_bytes(Builder& builder, const Target& target, const RoundedByte& how, llvm::Value* numbers);

// Rounds f32 whose magnitudes a constant bounds; null where `expr`, which is rounded, is not such a one.
bool is_bounded_float(const Expr& expr);
llvm::Value* round_bounded(Builder& builder, llvm::Value* numbers);

}  // namespace tc
