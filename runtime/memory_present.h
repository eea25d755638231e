// How much memory this process may use.
#pragma once

#include <stdint.h>

#include "tc_runtime.h"

namespace tc::runtime {

// The machine's memory, or less where a control group of the process (a container's, for instance) limits it.
struct MemoryPresent {
  int64_t bytes = 0;
  bool of_group = false;  // a control group allows less than the machine has
};

// `root` is put before the paths below /proc and /sys; only tests pass anything but "".
MemoryPresent memory_present(const char* root = "");

// The error for a context that needs more memory than is present or than the system gives it.
tc_status refuse_memory(const char* model, int64_t needed, const MemoryPresent& present);

}  // namespace tc::runtime
