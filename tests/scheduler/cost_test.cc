// Closed forms of register tiles: which tile they choose for problems whose answer is known.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/error.h"
#include "scheduler/cost/tile_cost.h"

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
        EXPECT_LE(std::max(first, last), 1.4 * static_cast<double>(blocks) / threads + 1)
            << blocks << " by " << vectors;
      }
    }
  }
}

TEST(Cost, MatricesInMemoryAreReadByFewStreams) {
  const Target target = parse_target("znver4");
  TileProblem problem = row_times_matrix(75, false, 1);
  EXPECT_EQ(choose_tile(problem, target).vectors, 5);
  problem.blocks = 256;
  problem.steps = 9216;
  EXPECT_EQ(choose_tile(problem, target).vectors, 4);
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

TEST(Cost, ColumnsAWayApartAreNoMoreThanTheSetsHold) {
  // 128 rows of 768 columns: the rows' elements are broadcast, so many bytes apart.
  TileProblem problem;
  TileProblem::Operand rows, weights;
  rows.along_columns = true;
  weights.along_vector = weights.streams = true;
  problem.operands = {rows, weights};
  problem.steps = 3072;
  problem.blocks = 48;
  problem.columns = 128;
  for (const char* name : {"x86-64-v4", "znver5"}) {
    const Target target = parse_target(name);
    const int64_t ways = target.l1_bytes / target.l1_way_bytes;
    const TileChoice spread = choose_tile(problem, target);
    EXPECT_GT(spread.columns, 8) << name;
    TileProblem apart = problem;
    for (const int64_t bytes : {target.l1_way_bytes, 3 * target.l1_way_bytes, target.l1_way_bytes + 4}) {
      apart.operands[0].column_bytes = bytes;
      const TileChoice choice = choose_tile(apart, target);
      EXPECT_LE(choice.columns, ways) << name << bytes;
      EXPECT_GE(choice.columns * choice.vectors, 16) << name << bytes;
      EXPECT_LT(choice.cycles, 1.05 * spread.cycles) << name << bytes;
    }
    // Half a way apart there is room for twice as many.
    apart.operands[0].column_bytes = target.l1_way_bytes / 2;
    EXPECT_EQ(choose_tile(apart, target).columns, spread.columns) << name;
  }
}

TEST(Cost, AsManySumsAsHideTheLatencyAreNotEnough) {
  // Rows of 32 pixels: tiles of 2 x 4 divide them, and 8 sums are what two units of four cycles ask for.
  const Target target = parse_target("x86-64-v3");
  ASSERT_EQ(target.latency * target.multiply_adds, 8);
  TileProblem problem;
  TileProblem::Operand pixels, weights;
  pixels.along_columns = true;
  weights.along_vector = weights.streams = true;
  problem.operands = {pixels, weights};
  problem.lanes = 8;
  problem.steps = 4608;
  problem.blocks = 64;
  problem.columns = 32;
  const TileChoice choice = choose_tile(problem, target);
  EXPECT_GE(choice.vectors * choice.columns, 10);
  EXPECT_LT(1.05 * choice.cycles, tile_cycles(problem, target, 2, 4));
  // Far more sums, or far fewer, take what the units or the latency alone say.
  const double full = 4608 * 64 * 32 / 2.0;
  EXPECT_NEAR(tile_cycles(problem, target, 3, 4) / full, 1, 0.07);
  EXPECT_NEAR(tile_cycles(problem, target, 1, 1) / (4608 * 64 * 32 * 4.0), 1, 0.01);
  // Constants that a long epilogue keeps in a register leave no room for twelve sums, three weights and a
  // pixel.
  problem.held = 1;
  const TileChoice less = choose_tile(problem, target);
  EXPECT_LT(less.vectors, 3);
}

TEST(Cost, LargeConstantsComeFromMemory) {
  const Target target = parse_target("znver4");
  ASSERT_LT(target.memory_bandwidth, target.l3_bandwidth);
  const double part = 1 << 20;
  EXPECT_EQ(cycles_from_afar(target, part, 4 * part), part / target.l3_bandwidth);
  EXPECT_EQ(cycles_from_afar(target, part, 40 * part), part / target.memory_bandwidth);
  // Where what lies behind the second cache is no faster than memory, size makes no difference.
  const Target slow = parse_target("sapphirerapids");
  EXPECT_EQ(cycles_from_afar(slow, part, 4 * part), cycles_from_afar(slow, part, 40 * part));
}

TEST(Cost, AConstantIsInMemoryWhereTheThirdCacheHoldsNoModelOfSuchConstants) {
  Target target = parse_target("znver4");
  EXPECT_FALSE(in_memory(target, 8 << 20));
  EXPECT_TRUE(in_memory(target, (8 << 20) + 1));
  target.l3_bytes = 4 << 20;  // a board's
  EXPECT_FALSE(in_memory(target, 1 << 20));
  EXPECT_TRUE(in_memory(target, 2 << 20));
}

// A convolution of bytes with as many steps, of four products each.
TileProblem product_of_bytes(double steps) {
  TileProblem problem;
  TileProblem::Operand weights, broadcast;
  weights.along_vector = weights.streams = true;
  broadcast.along_columns = true;
  problem.operands = {weights, broadcast};
  problem.steps = steps;
  problem.blocks = 16;
  problem.columns = 56;
  problem.epilogue_loads = 2;
  problem.bytes = true;
  return problem;
}

TEST(Cost, ShortSumsOfBytesTakeTilesWhoseEpiloguesOverlap) {
  Target target = parse_target("znver4");
  for (const double steps : {4.0, 16.0, 64.0}) {
    const TileChoice choice = choose_tile(product_of_bytes(steps), target);
    EXPECT_LE(choice.vectors * choice.columns, 16) << steps;
    EXPECT_GE(choice.vectors * choice.columns, 8) << steps;
  }
  // A long one reads its panel from the second cache: tiles of many columns read it less often.
  const TileChoice longer = choose_tile(product_of_bytes(576), target);
  EXPECT_GE(longer.vectors * longer.columns, 24);
  // Of the registers, one holds what is broadcast: 4 vectors by 7 columns and 4 vectors of weights leave
  // none.
  EXPECT_GT(tile_cycles(product_of_bytes(576), target, 4, 7),
            tile_cycles(product_of_bytes(576), target, 2, 14));
  // Sums of floats of that length keep their large tiles.
  TileProblem floats = product_of_bytes(64);
  floats.bytes = false;
  const TileChoice large = choose_tile(floats, target);
  EXPECT_GE(large.vectors * large.columns, 24);
}

// What is added to the sums takes a register too; one of four registers has room for few sums, and a core
// that reorders has tiles that always fit.
TEST(Cost, SumsInOrderLeaveARegister) {
  const Target in_order = parse_target("rv64gcv_zvl256b");
  const Target out_of_order = parse_target("sifive-p670");
  EXPECT_TRUE(leaves_registers(out_of_order, 64, 16));
  EXPECT_TRUE(leaves_registers(in_order, 32, 31));  // sums of single registers
  EXPECT_FALSE(leaves_registers(in_order, 32, 32));
  EXPECT_TRUE(leaves_registers(in_order, 64, 15));  // of two
  EXPECT_FALSE(leaves_registers(in_order, 64, 16));
  EXPECT_TRUE(leaves_registers(in_order, 128, 7));  // of four
  EXPECT_FALSE(leaves_registers(in_order, 128, 8));
  EXPECT_TRUE(leaves_registers(in_order, 16, 31));  // half of a register is one
  EXPECT_FALSE(leaves_registers(in_order, 16, 32));
  EXPECT_TRUE(leaves_registers(parse_target("rv64gc"), 4, 64));
  EXPECT_TRUE(leaves_registers(parse_target("x86-64-v4"), 64, 32));
}

// The menu of a core in order has tiles for blocks of one register that blocks of two do not fit; none is
// chosen that saves sums, however long they are.
TEST(Cost, TilesInOrderHaveNoMoreSumsThanFit) {
  const Target target = parse_target("rv64gcv_zvl256b");
  for (const int64_t lanes : {8, 16}) {
    for (const double steps : {9.0, 64.0, 2304.0}) {
      for (const int64_t blocks : {1, 2, 3, 8}) {
        TileProblem problem;
        TileProblem::Operand weights, element;
        weights.along_vector = weights.streams = true;
        element.along_columns = true;
        problem.operands = {weights, element};
        problem.steps = steps;
        problem.blocks = blocks;
        problem.columns = 56;
        problem.lanes = lanes;
        const TileChoice choice = choose_tile(problem, target);
        const std::string what = text(steps, " steps, ", blocks, " blocks of ", lanes,
                                      " lanes: ", choice.vectors, " by ", choice.columns);
        EXPECT_TRUE(leaves_registers(target, lanes * 4, choice.vectors * choice.columns)) << what;
        // As many sums as blocks of two registers have: they hide the latency, and weights and elements are
        // loaded seldom.
        EXPECT_GE(choice.vectors * choice.columns, 14) << what;
      }
    }
  }
}

}  // namespace
}  // namespace tc
