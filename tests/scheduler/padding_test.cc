// Reductions along a blocked dimension leave out its padded lanes, whatever these hold, unless a packed
// zero multiplies them.
#include <gtest/gtest.h>

#include "ir/loop.h"
#include "tests/scheduler_kernels.h"

namespace tc {
namespace {

void expect_same(const std::string& text, const std::vector<std::string>& layouts) {
  const Kernel kernel = parse_kernel(text);
  verify(kernel);
  for (const char* target : {"x86-64-v4", "rv64gcv"}) {
    Schedule plain(kernel, parse_target(target));
    ASSERT_EQ(plain.replay(layouts), std::nullopt);
    EXPECT_EQ(testing::difference(kernel, plain, 1), "") << str(plain.finish());
    const Schedule schedule = default_schedule(kernel, parse_target(target), 1, layouts);
    EXPECT_EQ(testing::difference(kernel, schedule, 2), "") << str(schedule.finish());
  }
}

TEST(Padding, IsLeftOutOfSums) {
  expect_same(R"(kernel "sum of channels"
  input I f32[1, 6, 5]
  output O f32[5]
  init[x:5]: O[x] = 0
  sum[x:5, c:6]: O[x] += I[0, c, x]
)",
              {"layout I 1 4"});
}

TEST(Padding, IsLeftOutOfProductsOfTwoInputs) {
  expect_same(R"(kernel "product of channels"
  input I f32[1, 6, 5]
  input J f32[1, 6, 5]
  output O f32[5]
  init[x:5]: O[x] = 0
  sum[x:5, c:6]: O[x] += I[0, c, x] * J[0, c, x]
)",
              {"layout I 1 4", "layout J 1 4"});
}

TEST(Padding, IsLeftOutOfMaxima) {
  expect_same(R"(kernel "largest channel"
  input I f32[1, 6, 5]
  output O f32[5]
  init[x:5]: O[x] = -inf
  best[x:5, c:6]: O[x] max= I[0, c, x]
)",
              {"layout I 1 4"});
}

TEST(Padding, OfSumsThatLeaveItOutMeansNothing) {
  // Rows of seven, of which lanes beyond would read the next row.
  expect_same(R"(kernel "product of inputs"
  input A f32[9, 5]
  input B f32[5, 7]
  output C f32[9, 7]
  local T f32[9, 7]
  init[m:9, n:7]: T[m, n] = 0
  macc[m:9, n:7, k:5]: T[m, n] += A[m, k] * B[k, n]
  tail[m:9, n:7]: C[m, n] = max(T[m, n], 0)
)",
              {"layout T 1 4"});
}

TEST(Padding, IsMultipliedByZero) {
  expect_same(R"(kernel "product with weights"
  input I f32[1, 6, 5]
  constant K f32[6]
  output O f32[5]
  init[x:5]: O[x] = 0
  sum[x:5, c:6]: O[x] += I[0, c, x] * K[c]
)",
              {"layout I 1 4", "layout K 0 4"});
}

TEST(Padding, IsNotDividedBy) {
  expect_same(R"(kernel "scaled channels"
  input I f32[1, 6, 5]
  constant K f32[6]
  output O f32[1, 6, 5]
  scale[c:6, x:5]: O[0, c, x] = I[0, c, x] / K[c]
)",
              {"layout I 1 4", "layout K 0 4", "layout O 1 4"});
}

}  // namespace
}  // namespace tc
