// Elementary functions as generated vector code: no library is called.
#pragma once

#include "codegen/llvm/emit/kernel_context.h"
#include "ir/loop.h"

namespace tc {

// The function of an f32 or f64 scalar or vector, at the builder's insertion point. Errors over the whole
// range, measured by tests/codegen/math_test.cc against long double and by
// tests/frontend/test_elementary_functions.py against mpmath, are at most 2 ULP for f32 (7 for erf on vectors
// of RISC-V, by tests/runtime/test_riscv_functions.py), 4 ULP for f64 and 40 ULP for a power of f64; special
// values (infinities, NaN, signed zeros, domain errors) are C's.
llvm::Value* emit_function(Builder& builder, const Target& target, UnaryOp op, llvm::Value* x);
llvm::Value* emit_function(Builder& builder, const Target& target, BinaryOp op, llvm::Value* x,
                           llvm::Value* y);

// e to the power of an f32 or f64 that is NaN or at most 40, and is the difference of two numbers: less work
// than for any number.
llvm::Value* emit_exp_of_nonpositive(Builder& builder, const Target& target, llvm::Value* x);

}  // namespace tc
