// The search for tiles of an accelerator, beside every tile and every order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "scheduler/core/state.h"
#include "scheduler/default/accelerator.h"
#include "tests/accelerator.h"
#include "tests/thorough.h"

namespace tc::testing {
namespace {

// An accelerator with seeded memories, from those that hold a few blocks to those that hold the operands of
// most of the kernels here, and seeded costs of its copies.
std::string accelerator_of(std::mt19937& random, uint32_t seed) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  Accelerator made = test_accelerator();
  made.name = text("array_", seed);
  for (AcceleratorMemory& memory : made.memories) memory.bytes = 1024 << draw(0, 5);
  made.issue_cycles = draw(0, 6);
  const std::string cycles = text(draw(0, 60), " + i * ceil(j, ", 1 << draw(0, 5), ")");
  for (AcceleratorInstruction& each : made.instructions) {
    if (each.unit != "array") each.cycles = parse_cycles(cycles, {"i", "j"}, "cycles");
  }
  register_accelerator(made);
  return made.name;
}

// A product of matrices, or a convolution of a map of blocks of channels, of seeded sizes.
std::string layer_of(std::mt19937& random) {
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  if (draw(0, 1) == 0) {
    const int m = draw(1, 90), k = draw(1, 90), n = draw(1, 90);
    return text("kernel product\n  input A u8[", m, ", ", k, "]\n  constant B i8[", k, ", ", n,
                "]\n  output C i32[", m, ", ", n, "]\n  local T i32[", m, ", ", n, "]\n  init[i:", m,
                ", j:", n, "]: T[i, j] = 0\n  macc[i:", m, ", j:", n, ", k:", k,
                "]: T[i, j] += i32(A[i, k]) * i32(B[k, j])\n  tail[i:", m, ", j:", n, "]: C[i, j] = T[i, j] ",
                draw(0, 1) == 0 ? "+ 3" : "", "\n");
  }
  const int size = draw(2, 10), blocks = draw(1, 3), taps = draw(1, std::min(3, size)), out = size - taps + 1;
  const int features = draw(1, 3);
  return text("kernel map\n  input A u8[", blocks, ", ", size, ", ", size, ", 8]\n  constant B i8[", features,
              ", ", blocks, ", ", taps, ", ", taps, ", 8, 8]\n  output C i32[", features, ", ", out, ", ",
              out, ", 8]\n  init[g:", features, ", y:", out, ", x:", out,
              ", f:8]: C[g, y, x, f] = 0\n  macc[g:", features, ", y:", out, ", x:", out, ", f:8, b:", blocks,
              ", r:", taps, ", s:", taps,
              ", c:8]: C[g, y, x, f] += i32(A[b, r + y, s + x, c]) * i32(B[g, b, r, s, c, f])\n");
}

TEST(AcceleratorTiles, AreWithin10PercentOfTheBest) {
  const uint32_t all = cases(24u, 300u);
  double worst = 1, sum = 0;
  int compared = 0;
  for (uint32_t seed = 0; seed < all; ++seed) {
    std::mt19937 random(seed);
    const Target target = parse_target("rv64gc+accel:" + accelerator_of(random, seed));
    const std::string layer = layer_of(random);
    const Schedule start(parse_kernel(layer), target);
    const TraceBuilder builder(ScheduleAccess::state(start), 1);
    double quick = 0, best = 0;
    std::string words;
    try {
      best = choose_for_accelerator(builder, TileSearch::All).tiles.cycles;
      const AcceleratorChoice choice = choose_for_accelerator(builder);
      quick = choice.tiles.cycles;
      words = choice.in_words();
    } catch (const NotApplicable& refusal) {
      // Either both searches find a tile, or there is none.
      EXPECT_EQ(best, 0) << layer << refusal.why;
      EXPECT_NE(refusal.why.find("no tile fits the memories"), std::string::npos) << layer << refusal.why;
      continue;
    }
    EXPECT_GE(quick, best * (1 - 1e-9)) << layer;
    EXPECT_LE(quick, best * 1.1) << layer << words;
    worst = std::max(worst, quick / best);
    sum += quick / best;
    ++compared;
  }
  std::printf("%d kernels: %.4f times the cycles of the best tiles at worst, %.4f on average\n", compared,
              worst, sum / compared);
  EXPECT_GE(compared, static_cast<int>(all * 3 / 4));
}

}  // namespace
}  // namespace tc::testing
