// The object of a model for a system without an operating system, and what it takes of a board's memory.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/backend/backend.h"

namespace tc {

// A model for a system without an OS or a runtime: one relocatable object that links at any address, with
// the function PREFIX_run, the constants under PREFIX_weights and a block PREFIX_arena of
// bare_arena_bytes(); all other symbols are local. PREFIX_run returns a BareStatus. `plan` and `objects`
// belong to one model, whose descriptor is called `descriptor_symbol` in the objects. An Unsupported error
// where a kernel calls a function that such a system lacks.
struct BareModel {
  const Plan& plan;
  const ModelObjects& objects;
  const Target& target;
  std::string descriptor_symbol, prefix;
};
void link_bare(const BareModel& model, const std::string& path);

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
