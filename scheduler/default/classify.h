// What a reduction computes, told from its subscripts alone.
#pragma once

#include "ir/loop.h"

namespace tc {

// A window is an iterator that is summed over and that some subscript adds to one of an output (`y + r`): a
// tap.
enum class ReductionClass {
  Direct,         // a window, and channels that every output reads
  Depthwise,      // a window of one channel, which an output has in common with its weight
  Grouped,        // a window, and channels of the output's own group
  Pooling,        // a window of one operand
  MatrixVector,   // no window; one operand has a single row
  MatrixProduct,  // no window; several operands: also a convolution of one tap
  OneOperand,     // no window of one operand: a sum, a product or a maximum along some dimensions
};

ReductionClass classify(const Statement& reduction);

}  // namespace tc
