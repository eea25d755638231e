// Loops with the mark "hold": what they add up in memory is in registers, and has the same values.
#include <gtest/gtest.h>

#include "codegen/llvm/kernel_code.h"
#include "ir/error.h"
#include "scheduler/scheduler.h"
#include "tests/codegen_harness.h"

namespace tc::testing {
namespace {

// Sums over 5 groups of 3, in tiles of 4 rows by 16 columns inside of the loop over groups.
Schedule sums_of_groups(int rows, int columns, const std::string& also_reads = "", bool hold = true) {
  const std::string m = std::to_string(rows), n = std::to_string(columns);
  const Kernel kernel = parse_kernel(
      "kernel \"sums\"\n  input A f32[" + m + ", 5, 3]\n  input B f32[5, 3, " + n + "]\n  output C f32[" + m +
      ", " + n + "]\n  init[m:" + m + ", n:" + n + "]: C[m, n] = 0\n  local T f32[" + m + ", " + n +
      ", 5]\n  zero[m:" + m + ", n:" + n + ", g:5]: T[m, n, g] = 0\n  dot[m:" + m + ", n:" + n +
      ", g:5, k:3]: T[m, n, g] += A[m, g, k] * B[g, k, n]\n  add[m:" + m + ", n:" + n +
      ", g:5]: C[m, n] += T[m, n, g] * 2" + also_reads + "\n");
  Schedule schedule(kernel, parse_target("x86-64-v4"));
  for (const std::string& line : std::vector<std::string>{"split init_m 4 as init_mo init_mi",
                                                          "split init_n 16 as init_no init_ni",
                                                          "split zero_m 4 as zero_mo zero_mi",
                                                          "split zero_n 16 as zero_no zero_ni",
                                                          "split dot_m 4 as dot_mo dot_mi",
                                                          "split dot_n 16 as dot_no dot_ni",
                                                          "split add_m 4 as add_mo add_mi",
                                                          "split add_n 16 as add_no add_ni",
                                                          "order init_mo init_no init_mi init_ni",
                                                          "order zero_mo zero_no zero_g zero_mi zero_ni",
                                                          "order dot_mo dot_no dot_g dot_k dot_mi dot_ni",
                                                          "order add_mo add_no add_g add_mi add_ni",
                                                          "fuse init_mo zero_mo dot_mo add_mo as mo",
                                                          "fuse init_no zero_no dot_no add_no as no",
                                                          "fuse zero_g dot_g add_g as g",
                                                          "register_tile g",
                                                          "vectorize init_ni",
                                                          "unroll init_mi",
                                                          "vectorize zero_ni",
                                                          "unroll zero_mi",
                                                          "vectorize dot_ni",
                                                          "unroll dot_mi",
                                                          "unroll dot_k",
                                                          "vectorize add_ni",
                                                          "unroll add_mi",
                                                          hold ? "hold g" : "",
                                                          hold ? "isolate mo" : ""}) {
    if (line.empty()) continue;
    const auto refused = schedule.apply(line);
    EXPECT_EQ(refused, std::nullopt) << line;
  }
  return schedule;
}

void expect_same_values(const Schedule& schedule, int rows, int columns) {
  expect_like_interpreter(
      schedule.finish(), host_targets(), {},
      {{"A", seeded(DType::F32, {rows, 5, 3}, 1)}, {"B", seeded(DType::F32, {5, 3, columns}, 2)}}, 1e-6);
}

TEST(CodegenHeldSums, AreStoredOnceAfterTheLoop) {
  const auto stores = [](const std::string& loop) { return count_lines(loop, "vmovups\t%zmm"); };
  for (const bool hold : {false, true}) {
    const std::string loop = hottest_loop(
        kernel_assembly(sums_of_groups(8, 32, "", hold).finish(), parse_target("x86-64-v4"), "kernel"),
        "vfmadd");
    EXPECT_EQ(stores(loop), hold ? 0 : 4) << loop;
  }
}

TEST(CodegenHeldSums, HaveTheSameValues) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{8, 32}, {4, 16}, {9, 32}, {3, 16}, {8, 37}, {11, 5}}) {
    SCOPED_TRACE(text(rows, " x ", columns));
    expect_same_values(sums_of_groups(rows, columns), rows, columns);
  }
}

// A statement of the loop reads the element from memory, and so has to find it there.
TEST(CodegenHeldSums, AreInMemoryWhereTheyAreRead) {
  expect_same_values(sums_of_groups(8, 32, " + C[m, n] * 0.5"), 8, 32);
}

}  // namespace
}  // namespace tc::testing
