// The bytes that a kernel has to move, counted from its accesses: what bandwidth roofs are compared with.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/loop.h"

namespace tc {

// Bytes of the kernel's arguments that its statements touch, each counted once however often it is
// read: the least that any schedule moves.
struct Traffic {
  double read = 0;       // of inputs
  double constants = 0;  // of constants
  double written = 0;    // of outputs
};

// `parameters` binds all parameters. A strided access counts only the elements that it touches; an access
// with a dynamic subscript counts at most one element per instance.
Traffic traffic_of(const Kernel& kernel, const std::map<std::string, int64_t>& parameters);

}  // namespace tc
