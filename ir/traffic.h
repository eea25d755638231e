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

// With parameters bound. Strided accesses count only what they touch, subscripts known only at run
// time at most one element for each instance.
Traffic traffic_of(const Kernel& kernel, const std::map<std::string, int64_t>& parameters);

}  // namespace tc
