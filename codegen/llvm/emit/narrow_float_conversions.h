// Conversions between f32 and floats of 8 and 4 bits (ir/narrow_float.h) on LLVM values.
#pragma once

#include "codegen/llvm/emit/kernel_context.h"
#include "ir/dtype.h"

namespace tc {

// Both take scalars or vectors and give the same shape back; narrow floats are integers of 8 bits.
class NarrowFloats {
 public:
  explicit NarrowFloats(Builder& builder) : builder_(builder) {}
  llvm::Value* to_float(DType from, llvm::Value* a);
  llvm::Value* from_float(DType to, llvm::Value* a);

 private:
  // f8e8m0.
  llvm::Value* exponent_to_float(llvm::Value* a);
  llvm::Value* float_to_exponent(llvm::Value* a);

  Builder& builder_;
};

}  // namespace tc
