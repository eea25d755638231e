// What a model without an OS takes of a board's memory.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/codegen.h"

namespace tc {

struct BareSizes {
  int64_t constants = 0, code = 0;  // read-only bytes: PREFIX_weights, and all others
  int64_t arena = 0, zeros = 0;     // written bytes: PREFIX_arena, and all others
  int64_t stack = 0;                // of a run, with vector registers of the target's length
  bool stack_grows = false;         // with the length of vector registers
};
// The sizes of the object that link_bare() wrote to `path`. Compiles the kernels once more to find their
// stack.
BareSizes bare_sizes(const BareModel& model, const std::string& path);

}  // namespace tc
