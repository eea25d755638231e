// Default schedules against the plain interpreter, on every target.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "tests/scheduler_kernels.h"

namespace tc {
namespace {

using testing::NamedKernel;

class DefaultSchedule : public ::testing::TestWithParam<NamedKernel> {};

TEST_P(DefaultSchedule, ComputesTheSame) {
  const NamedKernel& named = GetParam();
  const Kernel kernel = parse_kernel(named.text);
  verify(kernel);
  for (const char* target : {"x86-64-v4", "x86-64-v3", "rv64gcv", "rv64gc"}) {
    for (int threads : {1, 2}) {
      for (bool blocked : {false, true}) {
        if (blocked && named.layout_lines.empty()) continue;
        SCOPED_TRACE(std::string(target) + (blocked ? " blocked" : ""));
        const auto lines = blocked ? named.layout_lines : std::vector<std::string>();
        const Schedule schedule = default_schedule(kernel, parse_target(target), threads, lines);
        EXPECT_EQ(schedule.check(), std::nullopt);
        for (uint32_t seed : {1u, 2u, 3u}) {
          EXPECT_EQ(testing::difference(kernel, schedule, seed, testing::parameter_values(kernel, seed)), "")
              << str(schedule.finish());
          if (kernel.parameters.empty()) break;
        }
        // The trace replays to the same schedule.
        Schedule again(kernel, parse_target(target));
        EXPECT_EQ(again.replay(schedule.trace()), std::nullopt);
        EXPECT_EQ(str(again.finish()), str(schedule.finish()));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DefaultSchedule, ::testing::ValuesIn(testing::small_kernels()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tc
