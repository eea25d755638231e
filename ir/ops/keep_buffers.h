// Dropping buffers of a kernel.
#pragma once

#include <vector>

#include "ir/loop.h"

namespace tc {

// Drops the buffers for which `kept` is false, which no statement accesses, and numbers the others anew in
// all statements.
void keep_buffers(Kernel& kernel, const std::vector<bool>& kept);

}  // namespace tc
