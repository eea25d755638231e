// What a model without an OS takes of a board's memory.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/codegen.h"

namespace tc {

struct BareSizes {
  int64_t constants = 0, code = 0;  // bytes of read-only memory: PREFIX_weights, and all else
  int64_t arena = 0, zeros = 0;     // of memory that is written: PREFIX_arena, and all else
  int64_t stack = 0;                // of a run, with vector registers of the target's length
  bool stack_grows = false;         // with the length of vector registers
};
// Of the object that link_bare() wrote to `path`. Compiles the kernels once more for their stack.
BareSizes bare_sizes(const BareModel& model, const std::string& path);

}  // namespace tc
