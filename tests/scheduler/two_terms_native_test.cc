// Products on a matrix unit, compiled and run where this machine has one.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ir/error.h"
#include "scheduler/algebra/algorithms.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

struct Case {
  Kernel kernel;
  std::vector<std::string> layouts;
  std::map<std::string, int64_t> sizes = {};
};

// So many rows as are bound.
Kernel with_symbolic_rows(int64_t features, int64_t channels) {
  std::string all = str(biased_product(12345, features, channels));
  for (size_t at; (at = all.find("12345")) != std::string::npos;) all.replace(at, 5, "p");
  return parse_kernel(all.insert(all.find("\n") + 1, "  parameter p = rows in [1, 100000]\n"));
}

bool may_run(const Target& target, std::string* why) {
  if (!runs_here(target, why)) return false;
#if defined(__x86_64__)
  // What the runtime asks for when it opens a model.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) {
    *why = "the system does not grant tile registers";
    return false;
  }
#endif
  return true;
}

TEST(TermsNative, ErrorsAreBelowTheBound) {
  const Target target = parse_target("sapphirerapids");
  std::string why;
  if (!may_run(target, &why)) GTEST_SKIP() << why;
  const std::vector<std::string> blocks = {"layout I 1 16", "layout O 1 16"};
  const std::vector<Case> cases = {{biased_product(128, 312, 312), {}},
                                   {biased_product(100, 400, 257), {}},
                                   {rectified_convolution(64, 64, 14, 1, 1), blocks},
                                   {rectified_convolution(72, 40, 13, 3, 1), blocks},
                                   {rectified_convolution(128, 32, 20, 3, 1), blocks},
                                   {rectified_convolution(64, 96, 27, 3, 2), blocks},
                                   {with_symbolic_rows(400, 400), {}, {{"p", 1}}},
                                   {with_symbolic_rows(400, 400), {}, {{"p", 100}}},
                                   {with_symbolic_rows(161, 257), {}, {{"p", 131}}}};
  struct Division {
    DType operand;
    const char* name;
    double error;
    int chosen;  // at least; Winograd's algorithm or none is cheaper for some
  };
  for (const auto& [operand, name, error, least] : {Division{DType::BF16, "bf16x3", kTwoTermsError, 14},
                                                    Division{DType::I8, "int8x6", kDigitsError, 12}}) {
    Target only = target;
    only.matrix.formats = {*target.matrix.format(operand)};
    int chosen = 0;
    for (const Case& each : cases) {
      for (int threads : {1, 2}) {
        const Schedule schedule = default_schedule(each.kernel, only, threads, each.layouts, 1e-3);
        chosen += algorithm_of(schedule.trace()).text == name;
        auto run = [&](const ScheduledKernel& kernel, Tensors& tensors) {
          run_compiled(kernel, only, each.sizes, tensors, threads);
        };
        EXPECT_EQ(difference(each.kernel, schedule, 7, each.sizes, run, 2 * error), "")
            << name << str(each.kernel);
      }
    }
    EXPECT_GE(chosen, least) << name;
  }
}

// Digits as rows of an accumulator, weights that come from far.
TEST(TermsNative, OneRow) {
  Target target = parse_target("sapphirerapids");
  std::string why;
  if (!may_run(target, &why)) GTEST_SKIP() << why;
  for (const auto& [features, channels] :
       {std::pair(1200, 448), std::pair(1000, 2048), std::pair(800, 1088)}) {
    const Kernel kernel = biased_product(1, features, channels);
    target.l2_bytes = 32768;
    for (int threads : {1, 2}) {
      const Schedule schedule = default_schedule(kernel, target, threads, {}, 1e-4);
      EXPECT_EQ(algorithm_of(schedule.trace()).text, "int8x6") << features;
      auto run = [&](const ScheduledKernel& scheduled, Tensors& tensors) {
        run_compiled(scheduled, target, {}, tensors, threads);
      };
      EXPECT_EQ(difference(kernel, schedule, 7, {}, run, 2 * kDigitsError), "") << features;
    }
  }
}

}  // namespace
}  // namespace tc::testing
