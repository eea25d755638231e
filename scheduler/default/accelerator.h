// The default for kernels that the target's accelerator executes: a sum of products tile by tile, each with
// its copies to and from the accelerator's memories.
#pragma once

#include "scheduler/default/accelerator_tiles.h"

namespace tc {

struct AcceleratorChoice {
  AcceleratorProblem problem;
  AcceleratorTiles tiles;
  double after_sum = 0;  // cycles of the core for the statement after the sum, if it executes it

  // Predicted cycles, of which on_core() are the core's: it waits for the sums before it goes on with them.
  double cycles() const { return tiles.cycles + on_core(); }
  double on_core() const { return problem.epilogue == nullptr ? after_sum : 0; }
  std::string in_words() const;
};

// Throws NotApplicable with the reason where the accelerator cannot execute the kernel.
AcceleratorChoice choose_for_accelerator(const TraceBuilder& start, TileSearch search = TileSearch::Quick);
TraceBuilder schedule_for_accelerator(const AcceleratorChoice& choice);

}  // namespace tc
