// What of the ways of scheduling can be chosen, as plain numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace tc {

// What of the ways of scheduling can be chosen otherwise. As they stand here they give the default: 0
// leaves the choice to the closed forms.
struct ReductionKnobs {
  int64_t choice = 0;            // number of the choice of iterators, from 1
  int64_t vectors = 0, columns = 0;  // of the register tile
  int64_t rows = 0;              // of one more iterator in the tile
  int64_t sum_order = 0;         // a move, see `moved`, of the loops that sum
  int64_t sum_block = 0;         // a loop that sums is divided into blocks of so many trips
  int64_t unroll = 0;            // copies of the innermost loop that sums; 1: none
  int64_t windows = 0;           // loops over windows: 1 rolled, 2 unrolled
  int64_t outer_order = 0;       // a move of the loops around the tile
  int64_t outer_block = 0;       // so many trips of the innermost of them stay inside of all others
  int64_t apart = 0;             // the epilogue: 1 in the tile, 2 in loops of its own
  int64_t outside = 0;           // 1: the outermost loop that sums is outside of the tile
  int64_t isolate = 0;           // 1: loops are not isolated
  int64_t parallel = 0;          // 1 or 2 loops
};
struct StatementKnobs {
  int64_t lane = 0;              // 1: the lanes run along the second best iterator
  int64_t copies = 0;            // of vectors per trip; 1: none
  int64_t order = 0;             // a move of the loops around the vectors
};
struct RowKnobs {
  int64_t rows = 0;              // that one trip computes together; 1: none
  int64_t isolate = 0;           // 1: loops are not isolated
  int64_t parallel = 0;          // 1 or 2 loops
  std::vector<StatementKnobs> statements;  // by number; the default for those that are not listed
};

struct WinogradKnobs {
  int64_t outputs = 0;           // of a tile, in each direction
  int64_t rows = 0, columns = 0;     // of tiles, in a block
  int64_t vectors = 0, tile = 0;     // of the products' register tile: blocks of features, tiles
};
struct MatrixKnobs {
  int64_t algorithm = 0;         // number in kTermsAlgorithms, from 1
  int64_t bands = 0, panels = 0;     // how many
  int64_t blocks = 0, tiles = 0;     // accumulators at a time: blocks of features, tiles of rows
};
// What an algorithm's knobs can be, and the cycles that its closed forms predict for them; infinite where they
// are of no use.
template <class Knobs>
struct AlgorithmChoices {
  Knobs chosen;                  // by the closed forms
  std::vector<int64_t> kinds;    // that the tolerance allows: outputs of Winograd's tiles, numbers of algorithms by terms
  std::function<double(const Knobs&)> cycles;
};

}  // namespace tc
