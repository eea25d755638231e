// Instructions of the RISC-V vector extension that LLVM's generic operations do not express: sums of short
// products, floats rounded to bytes, and estimates of reciprocals.
#pragma once

#include "codegen/llvm/emit/kernel_context.h"
#include "codegen/llvm/emit/requantise_pattern.h"

namespace tc {

// Whether the target has RISC-V's vectors, and so many floats fit a group of eight registers, the largest.
bool has_riscv_vectors(const Target& target, int lanes);

// Sums of 32 bits plus products of two numbers of 16 bits by the row's instruction. One of the numbers may be
// the same for all lanes: a scalar.
llvm::Value* add_short_products(Builder& builder, const Target& target, const NarrowProduct& row,
                                llvm::Value* sums, llvm::Value* a, llvm::Value* b);

// Sums of 16 bits plus products of a byte, the same for all lanes, and unsigned bytes (`short_product`).
llvm::Value* add_byte_product(Builder& builder, const Target& target, const NarrowProduct& row,
                              llvm::Value* sums, llvm::Value* byte, llvm::Value* bytes);

// Sums plus products by the instruction that the row encodes, of operands that fill its registers: `first` is
// in place of rs1, `second` of rs2. The operands may be vectors of any type of the right size. Where the row
// also has a name of LLVM's, that instruction stands for it (passes/encode_products.h).
llvm::Value* add_encoded_products(Builder& builder, const Target& target, const NarrowProduct& row,
                                  llvm::Value* sums, llvm::Value* first, llvm::Value* second);

// Integers of 32 bits plus multiples of others by a scalar.
llvm::Value* add_multiple(Builder& builder, const Target& target, llvm::Value* sum, llvm::Value* value,
                          llvm::Value* factor);

// The bytes that the expression `how` makes of these numbers.
llvm::Value* round_to_bytes_riscv(Builder& builder, const Target& target, const RoundedByte& how,
                                  llvm::Value* numbers);

// Reciprocals of f32, whose relative error is below 2^-7 (`vfrec7`).
llvm::Value* estimate_reciprocal(Builder& builder, const Target& target, llvm::Value* numbers);

// Rounds f32 whose magnitude is bounded (`is_bounded_float`).
llvm::Value* round_bounded(Builder& builder, llvm::Value* numbers);

}  // namespace tc
