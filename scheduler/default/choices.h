// Which iterators of a reduction become lanes and columns: all choices, and the tile of each with the least
// cycles.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/cost/tile_cost.h"
#include "scheduler/default/facts.h"
#include "scheduler/default/knobs.h"

namespace tc {

constexpr double kHeavyEpilogue = 250;  // operations of the epilogue of a tile, as straight-line code

// How the reduction is computed: which iterators become lanes and columns.
struct Choice {
  bool over_reduction = false;  // the lanes are parts of one sum
  std::string vector, columns;  // iterators of the reduction statement; columns may be empty
  int64_t lanes = 1;
  TileChoice tile;
  // The lanes run along an output whose size need not be whole vectors and is known only when it runs.
  bool open = false;
};
// "16 lanes along f, tiles of 2 vectors by 14 columns along x".
std::string in_words(const Choice& choice);

// A choice that the kernel has, and what the analytic cost model needs to judge its tiles.
struct ReductionChoice {
  Choice choice;  // with the tile of the least cycles, `preference` included
  TileProblem problem;
  double preference = 1;  // factor on the predicted cycles
  int64_t rows = 1;       // extent of the iterator that `ReductionKnobs::rows` would tile
  size_t loops = 0;       // around the tile
};

// Whether vectors take twice as many registers as a block of the target does (of products on RISC-V cores
// that run in order).
bool has_doubled_lanes(const ReductionFacts& facts, int64_t lanes);

// Of partial sums: whether those of neighbouring columns become the lanes of one vector, so that each step of
// adding up their parts combines two vectors. There are then enough columns, and results along them lie side
// by side.
bool sums_fill_vectors(const ReductionFacts& facts, const Choice& choice);

// All choices of iterators; throws NotApplicable where there is none.
std::vector<ReductionChoice> choices_of(const ReductionFacts& facts);
// The choice with the tile that a plan has without knobs: the cheapest one, or a smaller one where that is
// known to be better than the analytic cost model predicts.
Choice with_tile(const ReductionFacts& facts, const ReductionChoice& choice);

// The tile of a sum of products of signed bytes whose weights pay in pairs, two in a word, and the iterator
// that counts the steps of which two are added up before they are taken apart; nothing where they do not.
struct PairedWeights {
  TileChoice tile;
  int64_t lanes = 1;
  std::string steps;
};
std::optional<PairedWeights> pays_in_pairs(const ReductionFacts& facts, const ReductionChoice& choice,
                                           const Choice& taken, const ReductionKnobs& knobs);
// Whether it pays to store the constant of a matrix-vector product as 21-bit numbers, three in two words:
// reading two thirds of the bytes is worth the conversion to floats where the constant does not fit the
// second caches of all threads together.
bool pays_in_words(const ReductionFacts& facts, const Choice& choice, const ReductionKnobs& knobs);

}  // namespace tc
