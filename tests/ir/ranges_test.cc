// Ranges of loop expressions: they hold every value that the expression takes, and are exact for
// division and remainder by a number.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/ranges.h"
#include "ir/scheduled.h"

namespace tc {
namespace {

using Kind = LoopExpr::Kind;

LoopExprPtr random_expr(std::mt19937& random, int depth) {
  if (depth == 0 || random() % 4 == 0) {
    return random() % 2 ? loop_variable(random() % 2 ? "i" : "j")
                        : loop_constant(static_cast<int64_t>(random() % 21) - 10);
  }
  auto part = [&] { return random_expr(random, depth - 1); };
  switch (random() % 8) {
    case 0: return loop_expr(Kind::Add, {part(), part()});
    case 1: return loop_expr(Kind::Sub, {part(), part()});
    case 2: return loop_expr(Kind::Mul, {part(), part()});
    case 3: return loop_expr(Kind::FloorDiv, {part(), loop_constant(1 + static_cast<int64_t>(random() % 5))});
    case 4: return loop_expr(Kind::Mod, {part(), loop_constant(1 + static_cast<int64_t>(random() % 5))});
    case 5: return loop_expr(Kind::Min, {part(), part()});
    case 6: return loop_expr(Kind::Max, {part(), part()});
    default: return loop_expr(Kind::Select, {loop_expr(Kind::Le, {part(), part()}), part(), part()});
  }
}

Interval values_of(const LoopExpr& expr, const Ranges& ranges) {
  Interval result{INT64_MAX, INT64_MIN};
  for (int64_t i = ranges.at("i").low; i <= ranges.at("i").high; ++i) {
    for (int64_t j = ranges.at("j").low; j <= ranges.at("j").high; ++j) {
      const int64_t value = evaluate(expr, {{"i", i}, {"j", j}});
      result = {std::min(result.low, value), std::max(result.high, value)};
    }
  }
  return result;
}

TEST(CodegenRanges, HoldEveryValue) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    Ranges ranges;
    for (const char* name : {"i", "j"}) {
      const int64_t low = static_cast<int64_t>(random() % 15) - 9;
      ranges[name] = {low, low + static_cast<int64_t>(random() % 6)};
    }
    const LoopExprPtr expr = random_expr(random, 3);
    const Interval said = range_of(*expr, ranges), real = values_of(*expr, ranges);
    ASSERT_LE(said.low, real.low) << str(*expr) << ", round " << round;
    ASSERT_GE(said.high, real.high) << str(*expr) << ", round " << round;
  }
}

TEST(CodegenRanges, DivisionAndRemainderAreExact) {
  for (int64_t low = -9; low < 6; ++low) {
    for (int64_t high = low; high < low + 4; ++high) {
      const Ranges ranges = {{"i", {low, high}}, {"j", {0, 0}}};
      for (int64_t divisor = 1; divisor < 6; ++divisor) {
        const LoopExprPtr quotient = loop_expr(Kind::FloorDiv, {loop_variable("i"), loop_constant(divisor)});
        const Interval said = range_of(*quotient, ranges), real = values_of(*quotient, ranges);
        EXPECT_EQ(said.low, real.low) << str(*quotient) << " from " << low;
        EXPECT_EQ(said.high, real.high) << str(*quotient) << " to " << high;
      }
    }
  }
}

}  // namespace
}  // namespace tc
