// The default for kernels that the target's accelerator executes: a sum of products tile by tile, each with
// its copies to and from the accelerator's memories.
#pragma once

#include "scheduler/default/accelerator_tiles.h"

namespace tc {

struct AcceleratorChoice {
  AcceleratorProblem problem;
  AcceleratorTiles tiles;

  std::string in_words() const;
};

// Throws NotApplicable with the reason where the accelerator cannot execute the kernel.
AcceleratorChoice choose_for_accelerator(const TraceBuilder& start);
TraceBuilder schedule_for_accelerator(const AcceleratorChoice& choice);

}  // namespace tc
