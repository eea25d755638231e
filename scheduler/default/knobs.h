// The knobs of strategies: what can be chosen in a schedule, as plain numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tc {

// The knobs of strategies with a register tile. Each is 0 here, which leaves its choice to the analytic cost
// model: together they give the default.
struct ReductionKnobs {
  int64_t choice = 0;                // number of the choice of iterators, from 1
  int64_t vectors = 0, columns = 0;  // of the register tile
  int64_t rows = 0;                  // of one more iterator in the tile
  int64_t sum_order = 0;             // a move, see `moved`, of the loops that sum
  int64_t sum_block = 0;             // a loop that sums is divided into blocks of this many trips
  int64_t unroll = 0;                // copies of the innermost loop that sums; 1: none
  int64_t windows = 0;               // loops over windows: 1 rolled, 2 unrolled
  int64_t outer_order = 0;           // a move of the loops around the tile
  // The innermost of them is divided into blocks of this many trips; the loop over blocks is outside of all
  // others.
  int64_t outer_block = 0;
  int64_t separate_epilogue = 0;  // the epilogue: 1 in the tile, 2 in loops of its own
  int64_t outside = 0;            // 1: the outermost loop that sums is outside of the tile
  int64_t isolate = 0;            // 1: loops are not isolated
  int64_t words = 0;              // a constant as 21-bit numbers, three in two words: 1 never
  int64_t parallel = 0;           // 1 or 2 loops
};
struct StatementKnobs {
  int64_t lane = 0;    // 1: the lanes run along the second best iterator
  int64_t copies = 0;  // of vectors per trip; 1: none
  int64_t order = 0;   // a move of the loops around the vectors
};
struct RowKnobs {
  int64_t rows = 0;                        // rows that one trip computes together; 1: no further ones
  int64_t isolate = 0;                     // 1: loops are not isolated
  int64_t parallel = 0;                    // 1 or 2 loops
  std::vector<StatementKnobs> statements;  // by number of the statement; those not listed have the default
};

struct WinogradKnobs {
  int64_t outputs = 0;            // of a tile, in each direction
  int64_t rows = 0, columns = 0;  // of tiles, in a block
  int64_t vectors = 0, tile = 0;  // of the products' register tile: blocks of features, tiles
};
struct MatrixKnobs {
  int64_t algorithm = 0;          // number in kTermsAlgorithms, from 1
  int64_t bands = 0, panels = 0;  // how many
  int64_t blocks = 0, tiles = 0;  // accumulators at a time: blocks of features, tiles of rows
};
// The knobs of all strategies.
struct StrategyKnobs {
  ReductionKnobs reduction;
  RowKnobs rows;
  WinogradKnobs winograd;
  MatrixKnobs matrix;
};

// The names of knobs, as the tuner's space and reports show them.
template <class Knobs>
struct KnobName {
  int64_t Knobs::* knob;
  const char* name;
};
inline constexpr KnobName<ReductionKnobs> kReductionKnobNames[] = {
    {&ReductionKnobs::choice, "iterators of lanes and columns"},
    {&ReductionKnobs::vectors, "vectors of the tile"},
    {&ReductionKnobs::columns, "columns of the tile"},
    {&ReductionKnobs::rows, "rows of the tile"},
    {&ReductionKnobs::sum_order, "order of sums"},
    {&ReductionKnobs::sum_block, "block of sums"},
    {&ReductionKnobs::unroll, "copies of the sum"},
    {&ReductionKnobs::windows, "loops over windows"},
    {&ReductionKnobs::outer_order, "order of outer loops"},
    {&ReductionKnobs::outer_block, "block of outer loops"},
    {&ReductionKnobs::separate_epilogue, "epilogue"},
    {&ReductionKnobs::outside, "sums outside of the tile"},
    {&ReductionKnobs::isolate, "isolated loops"},
    {&ReductionKnobs::words, "numbers of 21 bits"},
    {&ReductionKnobs::parallel, "parallel loops"}};
inline constexpr KnobName<RowKnobs> kRowKnobNames[] = {{&RowKnobs::rows, "rows of a trip"},
                                                       {&RowKnobs::isolate, "isolated loops"},
                                                       {&RowKnobs::parallel, "parallel loops"}};
inline constexpr KnobName<StatementKnobs> kStatementKnobNames[] = {
    {&StatementKnobs::lane, "lanes"}, {&StatementKnobs::order, "order"}, {&StatementKnobs::copies, "copies"}};
inline constexpr KnobName<WinogradKnobs> kWinogradKnobNames[] = {
    {&WinogradKnobs::outputs, "outputs of a Winograd tile"},
    {&WinogradKnobs::rows, "rows of a block of tiles"},
    {&WinogradKnobs::columns, "columns of a block of tiles"},
    {&WinogradKnobs::vectors, "vectors of the products' tile"},
    {&WinogradKnobs::tile, "columns of the products' tile"}};
inline constexpr KnobName<MatrixKnobs> kMatrixKnobNames[] = {
    {&MatrixKnobs::algorithm, "algorithm of products"},
    {&MatrixKnobs::bands, "bands of rows"},
    {&MatrixKnobs::panels, "panels of features"},
    {&MatrixKnobs::blocks, "blocks of accumulators"},
    {&MatrixKnobs::tiles, "rows of accumulators"}};
template <class Knobs, size_t count>
const char* name_of(const KnobName<Knobs> (&names)[count], int64_t Knobs::* knob) {
  for (const KnobName<Knobs>& each : names) {
    if (each.knob == knob) return each.name;
  }
  return "";
}

}  // namespace tc
