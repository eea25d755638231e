// The scalar operators of the loop IR on LLVM values, lane by lane: their meaning is ir/loop.h's.
#pragma once

#include "codegen/llvm/emit/kernel_context.h"
#include "ir/loop.h"

namespace tc {

// All functions take scalars or vectors (both operands alike) of the types of value_type and give
// the same shape back. `dtype` is the operands' type.
class Arithmetic {
 public:
  Arithmetic(Builder& builder, const Target& target) : builder_(builder), target_(target) {}

  llvm::Value* unary(UnaryOp op, DType dtype, llvm::Value* a);
  llvm::Value* binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  // Conversions: float to integer truncates and saturates, NaN gives 0; to bool is `!= 0`; integers
  // wrap; to f16, bf16 and narrower floats rounds once, to nearest even.
  llvm::Value* cast(DType from, DType to, llvm::Value* a);
  // From now on casts from f32 to bf16 may give zero for subnormal results, as the target's instructions do.
  void let_bfloats_flush(bool may) { bfloats_flush_ = may; }
  // accumulator (op) value; with Reduction::None the value.
  llvm::Value* combine(Reduction reduction, DType dtype, llvm::Value* accumulator, llvm::Value* value);
  llvm::Constant* identity(Reduction reduction, DType dtype, int lanes);
  // All lanes of a vector combined; reassociates.
  llvm::Value* reduce(Reduction reduction, DType dtype, llvm::Value* vector);

  // Max or min where a NaN operand gives NaN.
  llvm::Value* extremum(bool maximum, DType dtype, llvm::Value* a, llvm::Value* b);

 private:
  // arithmetic.cc
  llvm::Value* integer_binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* float_binary(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  llvm::Value* compare(BinaryOp op, DType dtype, llvm::Value* a, llvm::Value* b);
  // For a reduction: the larger of both, NaN where either is NaN.
  llvm::Value* max_of_many(DType dtype, llvm::Value* value, llvm::Value* accumulator);
  // The larger of both, or the second where the first is NaN.
  llvm::Value* larger_number(DType dtype, llvm::Value* value, llvm::Value* number);
  // The remainder with the sign of the dividend, exact.
  llvm::Value* fmod(llvm::Value* a, llvm::Value* b);
  llvm::Constant* same(llvm::Value* like, double value);
  llvm::Constant* same_int(llvm::Value* like, int64_t value);

  // conversions.cc: cast() and its parts.
  bool avoids_truncating_conversions(llvm::Value* a) const;
  llvm::Value* truncate(llvm::Value* a);
  llvm::Value* float_to_integer_by_sum(DType to, llvm::Value* a);
  llvm::Value* float_to_short_integer(DType to, llvm::Value* a);
  llvm::Value* low_bits_of_rounded(llvm::Value* a);
  llvm::Value* round_to_integer(llvm::Value* a);
  llvm::Value* float_to_half(llvm::Value* a);
  llvm::Value* half_to_float(llvm::Value* a);
  llvm::Value* float_to_bfloat(llvm::Value* a);
  llvm::Value* float_to_bfloat_by_instruction(llvm::Value* a);
  llvm::Value* short_integer(DType dtype, llvm::Value* a);
  llvm::Value* to_short_integer(DType from, DType to, llvm::Value* a);
  // f64 to f32 rounding to odd, so that a second rounding to fewer bits is right.
  llvm::Value* double_to_float_odd(llvm::Value* a);

  Builder& builder_;
  const Target& target_;
  bool bfloats_flush_ = false;
};

// A vector whose lane i is vectors[i], reduced; there are as many vectors as lanes, a power of two.
// Reassociates. Each step combines two vectors, where Arithmetic::reduce would combine parts of one.
llvm::Value* reduce_each(Arithmetic& arithmetic, Builder& builder, Reduction reduction, DType dtype,
                         llvm::SmallVector<llvm::Value*, 16> vectors);

}  // namespace tc
