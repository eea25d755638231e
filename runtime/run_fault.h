// Errors that a run finds in the sizes that it computes.
#pragma once

#include <stdint.h>

#include "tc_runtime.h"

namespace tc::runtime {

struct RunFault {
  enum class Kind { Size, Relation, Memory };
  Kind kind = Kind::Size;
  int32_t step = -1;  // its label names the node; -1: no fault
  // Size: the size and its bound (INT64_MAX: none). Relation: both sizes. Memory: the size, the bytes that it
  // needs (negative where no memory is that large), and the bytes that the model may use.
  int64_t first = 0, second = 0, limit = 0;
};

// The status of a run with this fault, and its text.
tc_status tell(const tc_descriptor& descriptor, const RunFault& fault);

}  // namespace tc::runtime
