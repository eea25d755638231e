// How much memory this process may have.
#pragma once

#include <stdint.h>

#include "tc_runtime.h"

namespace tc::runtime {

// The machine's memory, or what the control groups of the process, such as a container's, leave of it.
struct MemoryPresent {
  int64_t bytes = 0;
  bool of_group = false;  // a control group allows less than the machine has
};

// `root` stands in front of the paths below /proc and /sys; other than "" in tests.
MemoryPresent memory_present(const char* root = "");

// The error of a context that needs more than is present, or than the system gives.
tc_status refuse_memory(const char* model, int64_t needed, const MemoryPresent& present);

}  // namespace tc::runtime
