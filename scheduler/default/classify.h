// What a reduction computes, derived from its subscripts alone.
#pragma once

#include "ir/loop.h"

namespace tc {

// A window is an iterator that is summed over and that some subscript adds to an output iterator, as in `y +
// r`: it counts taps.
enum class ReductionClass {
  Direct,         // a window, and channels that every output reads
  Depthwise,      // a window in one channel, by which outputs and weights are both indexed
  Grouped,        // a window, and channels of the output's own group
  Pooling,        // a window of one operand
  MatrixVector,   // no window; one operand has a single row
  MatrixProduct,  // no window; several operands: also a convolution of one tap
  OneOperand,     // no window of one operand: a sum, a product or a maximum along some dimensions
};

ReductionClass classify(const Statement& reduction);

}  // namespace tc
