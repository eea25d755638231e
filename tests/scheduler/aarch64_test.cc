// Products of shorter numbers on 64-bit Arm: when the default takes them, and what they compute under qemu.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "codegen/llvm/kernel_code.h"
#include "scheduler/algebra/algorithms.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

const std::vector<std::string> kBlocks = {"layout I 1 4", "layout O 1 4"};

std::string algorithm(const Kernel& kernel, const std::string& target, double tolerance) {
  return algorithm_of(default_schedule(kernel, parse_target(target), 1, {}, tolerance).trace()).text;
}

// The kernel by this algorithm, whether it pays or not.
Schedule by(const std::string& name, const Kernel& kernel, const Target& target, double tolerance,
            const std::vector<std::string>& layouts = {}) {
  Schedule start(kernel, target), result(kernel, target);
  EXPECT_EQ(start.replay(layouts), std::nullopt);
  for (const std::vector<std::string>& trace : algorithm_traces(start, 1, tolerance)) {
    if (algorithm_of(trace).text != name) continue;
    EXPECT_EQ(result.replay(trace), std::nullopt);
    return result;
  }
  ADD_FAILURE() << "no trace of " << name;
  return result;
}

TEST(Aarch64Products, TheToleranceAndTheFeaturesDecide) {
  const Kernel product = biased_product(128, 256, 256);
  EXPECT_EQ(algorithm(product, "aarch64", 0.2), "");
  EXPECT_EQ(algorithm(product, "aarch64+dotprod", 1e-2),
            "");  // three products of four numbers each are no gain
  EXPECT_EQ(algorithm(product, "aarch64+i8mm", 1e-4), "");
  EXPECT_EQ(algorithm(product, "aarch64+i8mm", 1e-2), "int8x3");
  EXPECT_EQ(algorithm(product, "aarch64+bf16", 0.2), "bf16");
  EXPECT_EQ(algorithm(product, "aarch64+bf16,+i8mm", 0.2), "bf16");
  // One row, whose weights stream.
  const Kernel row = biased_product(1, 1200, 400);
  EXPECT_EQ(algorithm(row, "aarch64", 1e-4), "");
  EXPECT_EQ(algorithm(row, "aarch64+dotprod", 1e-4), "int8x6");
  EXPECT_EQ(algorithm(row, "aarch64+i8mm", 1e-4), "int8x6");
}

struct Case {
  const char *target, *algorithm;
  double tolerance, error;
  int64_t rows = 1;
};

TEST(Aarch64Products, CompiledErrorsAreBelowTheBound) {
  for (const Case& each : {Case{"aarch64+dotprod", "int8x6", 1e-4, 2 * kDigitsError},
                           Case{"aarch64+dotprod", "int8x3", 1e-2, 2 * kTwoDigitsError},
                           Case{"aarch64+i8mm", "int8x6", 1e-4, 2 * kDigitsError},
                           Case{"aarch64+i8mm", "int8x3", 1e-2, 2 * kTwoDigitsError},
                           Case{"aarch64+i8mm", "int8x3", 1e-2, 2 * kTwoDigitsError, 7},
                           Case{"aarch64+i8mm", "int8x6", 1e-4, 2 * kDigitsError, 6},
                           Case{"aarch64+bf16", "bf16", 2e-1, kOneTermError, 7},
                           Case{"aarch64+bf16,+i8mm", "bf16", 2e-1, kOneTermError, 7},
                           Case{"aarch64+bf16", "bf16x3", 1e-2, 2 * kTwoTermsError}}) {
    SCOPED_TRACE(text(each.target, " ", each.algorithm, " of ", each.rows, " rows"));
    const Target target = parse_target(each.target);
    const auto run = [&](const ScheduledKernel& scheduled, Tensors& tensors) {
      run_compiled(scheduled, target, {}, tensors, 2);
    };
    for (const auto& [features, channels] : {std::pair(75, 130), std::pair(17, 16), std::pair(5, 3)}) {
      const Kernel kernel = biased_product(each.rows, features, channels);
      EXPECT_EQ(
          difference(kernel, by(each.algorithm, kernel, target, each.tolerance), 7, {}, run, each.error), "")
          << features;
    }
    if (each.rows == 1) continue;
    for (const Kernel& kernel :
         {rectified_convolution(16, 24, 7, 1, 1), rectified_convolution(12, 20, 8, 3, 2)}) {
      EXPECT_EQ(difference(kernel, by(each.algorithm, kernel, target, each.tolerance, kBlocks), 7, {}, run,
                           each.error),
                "")
          << str(kernel);
    }
  }
}

TEST(Aarch64Products, LoopsDoNotSpill) {
  for (const auto& [name, instruction, kernel, tolerance] :
       {std::tuple("aarch64+dotprod", "sdot", biased_product(1, 1200, 400), 1e-4),
        {"aarch64+i8mm", "smmla", biased_product(1, 1200, 400), 1e-4},
        {"aarch64+i8mm", "smmla", biased_product(128, 256, 256), 1e-2},
        {"aarch64+bf16,+i8mm", "bfmmla", biased_product(128, 256, 256), 0.2}}) {
    const Target target = parse_target(name);
    const Schedule schedule = default_schedule(kernel, target, 1, {}, tolerance);
    const std::string loop = hottest_loop(kernel_assembly(schedule.finish(), target, "kernel"), instruction);
    EXPECT_GE(count_lines(loop, instruction), 12) << name << loop;
    EXPECT_EQ(count_lines(loop, "[sp"), 0) << name << loop;
  }
}

}  // namespace
}  // namespace tc::testing
