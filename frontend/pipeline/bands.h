// Which kernels of a graph are run in bands of rows, so that a run needs less memory.
#pragma once

#include <functional>
#include <vector>

#include "frontend/pipeline/band_chain.h"

namespace tc {

// The groups from `first` to `last`, in bands.
struct BandedGroups {
  size_t first = 0, last = 0;
  BandChain chain;
  std::vector<KernelPart> kernels;
};

// What the choice needs to know of a plan.
struct BandProblem {
  const Graph& graph;
  const std::vector<Group>& groups;  // in the order of their steps
  LowersGroup kernel_of;
  std::function<int64_t(ValueId)> bytes;  // of a value's memory
  // The distance in bytes between rows along a dimension; 0 where the value's layout has no such distance.
  std::function<int64_t(ValueId, size_t)> row_bytes;
  // Whether the value may lie in a buffer of rows: no other place is decided for it.
  std::function<bool(ValueId)> is_free;
};

// Chains of groups to run in bands, in the order of the groups, such that at most `target` bytes are in use
// at once; where no chains achieve that, so that the fewest are. Where more bytes are in use at some step,
// the chain around it with the fewest calls that brings them below the target is taken, else the one with
// the fewest bytes.
std::vector<BandedGroups> choose_bands(const BandProblem& problem, int64_t target);

}  // namespace tc
