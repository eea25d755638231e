// How large the tiles are whose operands are in the accelerator's memories at a time, and in which order they
// are computed: the cheapest by the cycles of its instructions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "scheduler/default/accelerator_problem.h"

namespace tc {

struct AcceleratorTiles {
  std::map<std::string, int64_t> sizes;  // trips in a tile, of each free iterator of the sum
  // Free iterators of which there are several tiles, outermost first: those of the result, then those that
  // are summed over.
  std::vector<std::string> counters;
  int64_t copies = 2;  // of each buffer in the memories
  // Where the core computes what follows the sums: in how many of the counters, from the outermost on. It
  // waits there for the sums of all tiles inside, which are in its memory.
  size_t host_depth = 0;
  double cycles = 0;  // predicted

  std::string in_words() const;
};

// Which tiles are compared.
enum class TileSearch {
  // Every size where these are few; else sizes by halves and divisors, and from the best of these on every
  // size of one iterator at a time.
  Quick,
  All,  // every size and every order: for tests, on small kernels
};

// Throws NotApplicable where no tile fits the memories.
AcceleratorTiles choose_accelerator_tiles(const AcceleratorProblem& problem,
                                          TileSearch search = TileSearch::Quick);

}  // namespace tc
