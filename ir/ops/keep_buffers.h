// Removes buffers of a kernel.
#pragma once

#include <vector>

#include "ir/loop.h"

namespace tc {

// Drops the buffers for which `kept` is false, which no statement may access, and renumbers the others in all
// statements.
void keep_buffers(Kernel& kernel, const std::vector<bool>& kept);

}  // namespace tc
