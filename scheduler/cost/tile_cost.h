// The analytic cost model: cycles of a register tile on a target.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/target/target.h"
#include "scheduler/cost/calibration.h"

namespace tc {

// A reduction as the cost model sees it: vectors along one iterator, columns along another, and the numbers
// of steps and of trips of all other loops.
struct TileProblem {
  struct Operand {
    bool along_vector = false, along_columns = false;
    double vector_cost = 1;    // loads per vector where it is along the vector: 1, or a gather's
    bool streams = false;      // a packed constant, read once per tile
    bool once = false;         // a large constant whose elements are read only once
    int64_t column_bytes = 0;  // from one column's element to the next one's; 0 where that is not known
    // Where a shuffle produces it: the taps of the window along the columns that share its result.
    double taps = 0;
  };
  std::vector<Operand> operands;
  double steps = 1;           // of the reduction
  double others = 1;          // trips of all other loops
  int64_t blocks = 1;         // vectors along the vector iterator
  bool partial = false;       // the last one of them has fewer lanes
  int64_t columns = 1;        // extent of the column iterator
  double store_cost = 1;      // per vector stored
  double epilogue_loads = 0;  // per vector stored
  // Registers that the epilogue's constants occupy during the sums.
  double held = 0;
  double finish = 0;  // cycles per accumulator: horizontal sums
  int lanes = 16;     // of one vector
  int element_bytes = 4;
  bool bytes = false;  // products of bytes that one instruction sums up
  // Products of bytes whose even and odd elements are multiplied separately, as numbers of 16 bits.
  bool halves = false;
  // What the columns read may be widened once for all vectors, where a tile has the columns for it.
  bool widens = false;
  bool integers = false;  // the sums are integers
  // Code generation joins two vectors that are multiplied by the same elements into one of twice the
  // registers.
  bool joins = false;
  int threads = 1;  // that share the tiles where there is nothing else to share
};

struct TileChoice {
  int64_t vectors = 1, columns = 1;
  double cycles = 0;
};

// Whether `sums` accumulators, each a vector of `bytes`, leave a register for what is added to them. An
// in-order core has one menu for blocks of one register and of several, so some of its tiles may not fit; the
// tiles of other targets always fit.
bool leaves_registers(const Target& target, int64_t bytes, int64_t sums);
// The tile of the target's menu (and its parts that fit the problem) with the least cycles. Tiles
// whose accumulators, operands and epilogue do not fit the registers pay for spills.
TileChoice choose_tile(const TileProblem& problem, const Target& target);
// Cycles of the whole problem with a given tile.
double tile_cycles(const TileProblem& problem, const Target& target, int64_t vectors, int64_t columns);

// A tile of two vectors whose weights are multiplied two at a time (the primitive `pairs`), where it takes
// fewer instructions for each product than a tile of `results` by `columns` with one multiplication for each;
// else nothing.
std::optional<TileChoice> tile_of_pairs(const TileProblem& problem, const Target& target, int64_t results,
                                        int64_t columns);

// Whether a constant of `size` bytes comes from memory: a model that has such a constant has several, which
// no cache holds together.
bool in_memory(const Target& target, double size);
// Cycles in which `bytes` of a constant of `size` bytes come from beyond the second cache.
double cycles_from_afar(const Target& target, double bytes, double size);

// Cycles in which both are done: loading from beyond the second cache overlaps partly with computing.
inline double overlapped(double compute, double stream) {
  return std::max(compute, stream) + calibration::kNotHidden * std::min(compute, stream);
}

}  // namespace tc
