// What the statements of a kernel tell about the sign of an expression; uses no LLVM.
#pragma once

#include "ir/loop.h"

namespace tc {

// Whether the value of the expression, which `statement` of the kernel computes, is NaN or at most 0, but for
// a rounding error: it is the difference between an element of a row and the largest element of that row, as
// a softmax computes it. `statement` is one of kernel.statements. The error occurs only where the kernel
// computes the element once more instead of reading it: then the value may be positive by that element's
// rounding error.
bool is_never_positive(const Kernel& kernel, const Statement& statement, const Expr& expr);

}  // namespace tc
