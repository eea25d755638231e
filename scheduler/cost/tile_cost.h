// Closed forms: what a register tile costs on a target.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ir/target/target.h"
#include "scheduler/cost/calibration.h"

namespace tc {

// A reduction as the cost model sees it: vectors along one iterator, columns along another, a
// product of everything else.
struct TileProblem {
  struct Operand {
    bool along_vector = false, along_columns = false;
    double vector_cost = 1;    // loads per vector where it is along the vector: 1, or a gather's
    bool streams = false;      // a packed constant, read once per tile
    bool once = false;         // a large constant, of which no element is read again
    int64_t column_bytes = 0;  // from one column's element to the next one's; 0 where that is not known
    double taps = 0;           // where a shuffle gives it: of the window along the columns that it serves
  };
  std::vector<Operand> operands;
  double steps = 1;           // of the reduction
  double others = 1;          // trips of all other loops
  int64_t blocks = 1;         // vectors along the vector iterator
  bool partial = false;       // the last one of them has fewer lanes
  int64_t columns = 1;        // extent of the column iterator
  double store_cost = 1;      // per vector stored
  double epilogue_loads = 0;  // per vector stored
  double held = 0;            // registers that the epilogue's constants keep while sums are made
  double finish = 0;          // per accumulator: horizontal sums
  int lanes = 16;             // of one vector
  int element_bytes = 4;
  bool bytes = false;   // products of bytes that one instruction sums up
  bool halves = false;  // bytes, whose even and odd elements are multiplied apart, as numbers of 16 bits
  bool joins = false;   // sums of two vectors by the same elements are those of one of twice the registers
  int threads = 1;      // that share the tiles where there is nothing else to share
};

struct TileChoice {
  int64_t vectors = 1, columns = 1;
  double cycles = 0;
};

// Whether so many sums, each of vectors of `bytes`, leave a register for what is added to them. The menu of a
// core that executes in order serves blocks of one register and of several; the tiles of other targets always
// fit.
bool leaves_registers(const Target& target, int64_t bytes, int64_t sums);
// The tile of the target's menu (and its parts that fit the problem) with the least cycles. Tiles
// whose accumulators, operands and epilogue do not fit the registers pay for spills.
TileChoice choose_tile(const TileProblem& problem, const Target& target);
// Cycles of the whole problem with a given tile.
double tile_cycles(const TileProblem& problem, const Target& target, int64_t vectors, int64_t columns);

// Whether a constant of `size` bytes comes from memory: a model that has such a constant has several, which
// no cache holds together.
bool in_memory(const Target& target, double size);
// Cycles in which `bytes` of a constant of `size` bytes come from beyond the second cache.
double cycles_from_afar(const Target& target, double bytes, double size);

// Cycles in which both are done: what comes from beyond the second cache comes partly while others are
// computed with.
inline double overlapped(double compute, double stream) {
  return std::max(compute, stream) + calibration::kNotHidden * std::min(compute, stream);
}

}  // namespace tc
