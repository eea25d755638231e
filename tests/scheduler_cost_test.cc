// Closed forms of register tiles: which tile they choose for problems whose answer is known.
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/cost.h"

namespace tc {
namespace {

// A row times a matrix of constants with so many vectors of columns.
TileProblem row_times_matrix(int64_t blocks, bool partial, int threads) {
  TileProblem problem;
  TileProblem::Operand row, matrix;
  matrix.along_vector = matrix.once = true;
  problem.operands = {row, matrix};
  problem.steps = 400;
  problem.blocks = blocks;
  problem.partial = partial;
  problem.threads = threads;
  return problem;
}

TEST(Cost, SumsOfAMatrixTimesAVectorHideTheirLatency) {
  const Target target = parse_target("x86-64-v4");
  for (int64_t blocks : {16, 25, 38, 75, 128}) {
    const TileChoice choice = choose_tile(row_times_matrix(blocks, false, 1), target);
    EXPECT_GE(choice.vectors, 4) << blocks;
    EXPECT_LE(choice.vectors, 10) << blocks;
    EXPECT_EQ(choice.columns, 1) << blocks;
    EXPECT_LT(choice.cycles, tile_cycles(row_times_matrix(blocks, false, 1), target, 1, 1)) << blocks;
  }
}

TEST(Cost, ThreadsGetPartsOfAMatrix) {
  const Target target = parse_target("x86-64-v4");
  for (bool partial : {false, true}) {
    for (int threads : {2, 4}) {
      for (int64_t blocks : {11, 20, 25, 38, 75}) {
        const int64_t vectors = choose_tile(row_times_matrix(blocks, partial, threads), target).vectors;
        // The last thread has what is left over; a loop of one trip would have no threads.
        const int64_t tiles = (blocks - partial) / vectors;
        ASSERT_GT(tiles, 1) << blocks;
        const int64_t first = (tiles + threads - 1) / threads * vectors;
        const int64_t last = tiles / threads * vectors + blocks - tiles * vectors;
        EXPECT_LE(std::max(first, last), 1.4 * static_cast<double>(blocks) / threads + 1) << blocks << " by " << vectors;
      }
    }
  }
}

TEST(Cost, ShufflesAreSharedByNeighbouringWindows) {
  const Target target = parse_target("x86-64-v4");
  TileProblem problem;
  TileProblem::Operand shuffled, weights;
  shuffled.along_vector = shuffled.along_columns = true;
  weights.along_vector = weights.streams = true;
  problem.operands = {shuffled, weights};
  problem.steps = 72;
  problem.blocks = 16;
  problem.columns = 28;
  // Several vectors share nothing, and more columns need more registers than there are.
  problem.operands[0].taps = 3;
  const TileChoice windows = choose_tile(problem, target);
  EXPECT_EQ(windows.columns, 14);
  EXPECT_EQ(windows.vectors, 1);
  problem.operands[0].taps = 1;
  const TileChoice points = choose_tile(problem, target);
  EXPECT_LT(windows.cycles, 0.9 * points.cycles);
  problem.operands[0].taps = 0;
  EXPECT_LT(choose_tile(problem, target).cycles, windows.cycles);
}

}  // namespace
}  // namespace tc
