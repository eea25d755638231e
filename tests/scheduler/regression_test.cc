// Schedules that once computed something else, and requests that are refused since.
#include <gtest/gtest.h>

#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

struct Case {
  std::string name, kernel;  // of small_kernels(), or its text
  std::vector<std::string> trace;
};

// Every second value of the loop over y has instances for what is unrolled inside.
const char* const kDilatedRows = R"(kernel "rows of a transposed convolution with dilation 2"
  input I f32[5, 9]
  constant K f32[3]
  output O f32[1, 9]
  init[x:9]: O[0, x] = 0
  macc[x:9, y:5, r:3] where 2*r + y - 4 >= 0, 4 - 2*r - y >= 0: O[2*r + y - 4, x] += I[y, x] * K[r]
)";

class Mended : public ::testing::TestWithParam<Case> {};

TEST_P(Mended, ComputesTheSame) {
  const std::string& given = GetParam().kernel;
  const Kernel kernel = given.find('\n') == std::string::npos ? small_kernel(given) : parse_kernel(given);
  Schedule schedule(kernel, host_target());
  ASSERT_EQ(schedule.replay(GetParam().trace), std::nullopt);
  EXPECT_EQ(difference(kernel, schedule, 1), "") << str(schedule.finish());
  for (const Target& target : host_targets()) {
    Schedule same(kernel, target);
    ASSERT_EQ(same.replay(GetParam().trace), std::nullopt);
    auto native = [&](const ScheduledKernel& scheduled, Tensors& tensors) {
      run_compiled(scheduled, target, {}, tensors);
    };
    EXPECT_EQ(difference(kernel, same, 2, {}, native, 3e-5), "") << target.name << "\n" << str(same.finish());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Mended,
    ::testing::Values(
        // Each statement that sets elements of a staged buffer has them stored.
        Case{"StageOfTwoParts", "concat", {"stage O"}},
        Case{"StageOfAScan", "scan", {"stage O", "layout A 0 2"}},
        // Memory that the loops around its uses do not tell apart is not shrunk.
        Case{"PrivateMemoryUsedAcrossALoop",
             "conv_all",
             {"fuse init_n macc_n tail_n as f0", "fuse macc_g tail_f as f3", "compute_at init at f3",
              "compute_at macc init at tail_x"}},
        Case{"PrivateMemoryOfUnequalBlocks",
             "product_double",
             {"stage O", "layout O_stage 0 2", "strip times_i_o 2 as i_ot i_on",
              "order times_i_ot times_k times_i_on times_i_i", "compute_at init at times_i_ot",
              "fuse times_i_ot O_store_i_o as f1", "order init_i_i init_i_o",
              "compute_at times O_store at init_i_i"}},
        // One of two conditions that imply each other is kept.
        Case{"EqualConditions",
             "gated",
             {"order mu_k mu_n", "register_tile mu", "vectorize mu_n", "split mu_k 7 as l5 l6",
              "split l6 4 as l7 l8", "unroll l5"}},
        // Padded lanes of an output hold finite values.
        Case{"PaddedLanesOfAMaximum", "column_max", {"layout O 0 8"}},
        Case{"PaddedLanesOfShorterBlocks", "layer_norm", {"layout S 0 16", "layout O 0 8"}},
        Case{"PaddedLanesOfAStrippedLoop", "concat", {"layout O 3 3", "strip second_x_i 2 as a5 a4"}},
        // A loop whose instances are several values apart counts its trips.
        Case{"LoopThatStepsByMoreThanOne", kDilatedRows, {"unroll macc_r"}},
        Case{"LoopThatStepsByMoreThanOneInATile",
             kDilatedRows,
             {"order macc_y macc_r macc_x", "register_tile macc_r", "vectorize macc_x"}},
        // Code of loops that may be empty, and of an else branch.
        Case{"LoopThatMayBeEmpty",
             "softmax",
             {"merge power_i power_j as m0", "split top_m0 4 as top_m0 top_m0_rows",
              "split top_k 16 as top_k_o top_k_i", "order top_m0_rows top_k_o top_k_i",
              "isolate top_m0_rows"}},
        // With AVX2 the lanes are two registers, and no lane of the second exists.
        Case{"UpperHalfOfTheLanesDoesNotExist",
             "conv1d",
             {"layout I 1 16", "layout K 2 5", "fuse init_f macc_f tail_f as row_f",
              "split macc_x 4 as macc_x macc_x_rows", "order macc_c_o macc_s macc_x_rows macc_c_i",
              "register_tile macc", "vectorize macc_c_i", "unroll macc_x_rows"}},
        Case{"ElseBranch",
             "gemm_transposed",
             {"strip init_m 10 as a1 a0", "strip macc_k 2 as a3 a2", "compute_at init at macc_h",
              "fuse init_a1 macc_m as f4", "fuse init_a0 macc_n as f5", "fuse init_n macc_a3 as f6",
              "fuse macc_h tail_h as f7", "fuse f4 tail_m as f8", "order f7 f8", "fuse f5 tail_n as f9"}}),
    [](const auto& info) { return info.param.name; });

std::string refusal(const std::string& kernel, const std::vector<std::string>& trace) {
  Schedule schedule(small_kernel(kernel), host_target());
  return schedule.replay(trace).value_or("accepted");
}

TEST(Refused, BlocksOfWhichSomeLanesStayUnwritten) {
  EXPECT_EQ(refusal("column_max", {"stage O", "layout I 1 4", "layout O 0 4"}), "accepted");
  const std::string skewed = refusal("conv_first", {"skew tail_f tail_y 5", "layout O 2 5"});
  EXPECT_NE(skewed.find("which leaves lanes of the last block unwritten"), std::string::npos) << skewed;
  EXPECT_EQ(refusal("scalar", {"layout O 0 4"}),
            "layout O 0 4: statement add writes O at 0, which leaves lanes of the last block unwritten");
  EXPECT_EQ(refusal("scalar", {"layout A 0 4"}), "accepted");
}

// The whole of an iterator is asked, and the statement has only a part of it left: once a division
// by zero.
TEST(Refused, IteratorsThatAreSplitOtherwise) {
  EXPECT_EQ(
      refusal("gemm", {"split macc_n 8 as no ni", "order no macc_b macc_m", "compute_at macc at init_n"}),
      "compute_at macc at init_n: iterator n of macc is split otherwise than loop init_n");
}

}  // namespace
}  // namespace tc::testing
