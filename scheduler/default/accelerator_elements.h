// The default for kernels of one elementwise statement, such as an addition, that an instruction of the
// target's accelerator computes: tile by tile, each with its copies to and from the accelerator's memories.
#pragma once

#include <string>

#include "scheduler/default/builder.h"

namespace tc {

struct AcceleratorInstruction;

struct ElementsChoice {
  TraceBuilder builder;
  const AcceleratorInstruction* instruction = nullptr;
  std::string counted;  // the iterator of which a tile has `size` trips
  int64_t size = 1;
  double cycles = 0, on_core = 0;  // predicted: of the accelerator with its copies, and of the core instead

  std::string in_words() const;
};

// Throws NotApplicable with the reason where the accelerator cannot execute the kernel.
ElementsChoice choose_elements(const TraceBuilder& start);
TraceBuilder schedule_elements(const ElementsChoice& choice);

}  // namespace tc
