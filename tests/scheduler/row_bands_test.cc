// Attentions in bands of rows: the schedule, its results beside the interpreter's, and which kernels are left
// alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/error.h"
#include "scheduler/default/strategy.h"
#include "tests/golden_file.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

struct Sizes {
  int batch = 1, heads = 2, queries = 40, keys = 36, size = 16;
};

// `finish`: what follows on the sum of the first product; it writes the scores S.
Kernel attention(const Sizes& n, const std::string& finish) {
  const std::string of_rows = text("a:", n.batch, ", h:", n.heads, ", i:", n.queries),
                    of_scores = text(of_rows, ", j:", n.keys);
  const std::string shape = text("[", n.batch, ", ", n.heads, ", ", n.queries, ", "),
                    scores = text(shape, n.keys, "]");
  const bool direct = finish.empty();
  const std::string sums = direct ? "S" : "T";
  return parse_kernel(text(
      "kernel \"attention\"\n", "  input Q f32[", n.batch, ", ", n.queries, ", ", n.heads, ", ", n.size,
      "]\n", "  input K f32[", n.batch, ", ", n.keys, ", ", n.heads, ", ", n.size, "]\n", "  input V f32[",
      n.batch, ", ", n.keys, ", ", n.heads, ", ", n.size, "]\n", "  input mask f32[", n.queries, ", ", n.keys,
      "]\n", "  output O f32[", n.batch, ", ", n.queries, ", ", n.heads, ", ", n.size, "]\n",
      direct ? "" : text("  local T f32", scores, "\n"), "  local S f32", scores, "\n  local M f32", shape,
      "1]\n  local E f32", scores, "\n  local D f32", shape, "1]\n  local P f32", scores, "\n",
      "  first_init[", of_scores, "]: ", sums, "[a, h, i, j] = 0\n", "  first[", of_scores, ", k:", n.size,
      "]: ", sums, "[a, h, i, j] += Q[a, i, h, k] * K[a, j, h, k]\n",
      direct ? "" : text("  finish[", of_scores, "]: S[a, h, i, j] = ", finish, "\n"), "  most_init[",
      of_rows, "]: M[a, h, i, 0] = -inf\n", "  most[", of_scores, "]: M[a, h, i, 0] maxnum= S[a, h, i, j]\n",
      "  power[", of_scores, "]: E[a, h, i, j] = exp(S[a, h, i, j] - M[a, h, i, 0])\n", "  total_init[",
      of_rows, "]: D[a, h, i, 0] = 0\n", "  total[", of_scores, "]: D[a, h, i, 0] += E[a, h, i, j]\n",
      "  weight[", of_scores, "]: P[a, h, i, j] = E[a, h, i, j] / D[a, h, i, 0]\n", "  second_init[", of_rows,
      ", n:", n.size, "]: O[a, i, h, n] = 0\n", "  second[", of_rows, ", n:", n.size, ", j:", n.keys,
      "]: O[a, i, h, n] += P[a, h, i, j] * V[a, j, h, n]\n"));
}

std::string report_of(const Kernel& kernel, const Target& target, int threads) {
  const std::vector<StrategyReport> reports = default_report(Schedule(kernel, target), threads);
  const auto found = std::find_if(reports.begin(), reports.end(),
                                  [](const StrategyReport& each) { return each.name == "bands of rows"; });
  return found == reports.end() ? "no such strategy"
         : found->taken         ? "taken: " + found->plan
                                : found->rejected;
}

TEST(RowBands, TheScheduleIsAsBelow) {
  std::string all;
  for (const char* finish : {"", "T[a, h, i, j] * 0.25 + mask[i, j]"}) {
    const Kernel kernel = attention({1, 2, 200, 36, 16}, finish);
    const Schedule schedule = default_schedule(kernel, parse_target("x86-64-v4"), 2);
    all += "== " + std::string(*finish == '\0' ? "plain scores" : finish) + "\n";
    for (const std::string& line : schedule.trace()) all += line + "\n";
    all += str(schedule.finish());
  }
  expect_golden("tests/golden/row_bands.txt", all);
}

TEST(RowBands, TheyComputeTheSame) {
  const Sizes sizes[] = {{}, {2, 1, 40, 36, 16}, {3, 2, 21, 50, 20}, {1, 4, 97, 17, 8}, {1, 2, 200, 24, 16}};
  for (const Sizes& size : sizes) {
    for (const char* finish :
         {"", "T[a, h, i, j] * 0.25 + mask[i, j]", "select(index(i - j) >= 0, T[a, h, i, j], -inf)"}) {
      const Kernel kernel = attention(size, finish);
      verify(kernel);
      for (const char* name : {"x86-64-v4", "x86-64-v3", "rv64gcv", "rv64gc", "aarch64"}) {
        SCOPED_TRACE(text(name, " ", size.queries, " ", size.keys, " ", finish));
        const Target target = parse_target(name);
        EXPECT_EQ(report_of(kernel, target, 1).substr(0, 6), "taken:") << report_of(kernel, target, 1);
        EXPECT_EQ(difference(kernel, default_schedule(kernel, target, 1), 1, {}), "");
      }
    }
  }
}

int64_t scratch_of(const ScheduledKernel& scheduled) {
  int64_t total = 0;
  for (const Buffer& buffer : scheduled.kernel.buffers) {
    if (buffer.scope != Scope::Stack) continue;
    int64_t bytes = size_of(buffer.dtype);
    for (const Affine& size : buffer.shape) bytes *= size.constant();
    total += bytes;
  }
  return total;
}

// What lies between the products is scratch memory of one band of one head.
TEST(RowBands, ScratchIsAsLargeAsABand) {
  const Sizes size{1, 4, 400, 640, 16};
  const ScheduledKernel scheduled =
      default_schedule(attention(size, "T[a, h, i, j] * 0.25"), parse_target("x86-64-v4"), 1).finish();
  const int64_t scores = 4L * size.heads * size.queries * size.keys, keys = 4L * size.keys * size.size;
  EXPECT_LT(scratch_of(scheduled), scores / size.heads + keys);
  EXPECT_LT(scratch_of(scheduled), parse_target("x86-64-v4").l2_bytes);
}

TEST(RowBands, OtherKernelsSayWhyNot) {
  const Target target = parse_target("x86-64-v4");
  EXPECT_EQ(report_of(attention({}, "T[a, h, i, j] * 0.25"), target, 3), "too few heads for the threads");
  EXPECT_EQ(report_of(attention({1, 2, 1, 64, 16}, "T[a, h, i, j] * 0.25"), target, 1), "one row");
  EXPECT_EQ(report_of(attention({1, 2, 64, 40000, 16}, "T[a, h, i, j] * 0.25"), target, 1),
            "no band of rows that fits the second cache");
  EXPECT_EQ(report_of(parse_kernel(small_kernels().front().text), target, 1),
            "not two products of matrices one after the other");
}

}  // namespace
}  // namespace tc::testing
