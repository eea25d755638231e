// What the statements of a kernel tell about the sign of an expression; uses no LLVM.
#pragma once

#include "ir/loop.h"

namespace tc {

// Whether the value of the expression, which `statement` of the kernel computes, is known to be NaN or not to
// be positive: it is the difference between an element of a row and the largest element of that row, as a
// softmax computes it. `statement` is one of kernel.statements. If the kernel computes the element once more
// instead of reading it, the value may still be positive by a rounding error of the element.
bool is_never_positive(const Kernel& kernel, const Statement& statement, const Expr& expr);

}  // namespace tc
