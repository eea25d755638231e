// Random schedules of every class of kernel, run by the interpreter of loops in double, against the
// plain interpreter. TC_SEED=N replays one.
#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/error.h"
#include "tests/random_schedule.h"

namespace tc::testing {
namespace {

// Rounds over all pairs of kernel and primitive; each is one seed.
constexpr uint32_t kRounds = 4;
constexpr int64_t kMostCopies = 1500;

TEST(RandomSchedules, ComputeTheSame) {
  const char* only = std::getenv("TC_SEED");
  const auto pairs = static_cast<uint32_t>(small_kernels().size() * primitive_table().size());
  const uint32_t first = only != nullptr ? static_cast<uint32_t>(std::atoll(only)) : 0;
  const uint32_t end = only != nullptr ? first + 1 : pairs * kRounds;
  const char* targets[] = {"x86-64-v4", "x86-64-v3", "rv64gcv", "rv64gc"};
  PrimitiveCounts counts;
  uint32_t compared = 0;
  for (uint32_t seed = first; seed < end; ++seed) {
    SCOPED_TRACE(::testing::Message() << "TC_SEED=" << seed);
    try {
      const RandomSchedule random =
          random_schedule(seed, parse_target(targets[seed / pairs % 4]), kMostCopies, counts);
      SCOPED_TRACE(describe(seed, random));
      if (only != nullptr) std::printf("%s\n", describe(seed, random).c_str());
      const auto parameters = parameter_values(random.kernel, seed);
      try {
        EXPECT_EQ(difference(random.kernel, random.schedule, seed, parameters), "");
        ++compared;
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  if (only != nullptr) return;
  std::printf("%u random schedules compared in the interpreter\n%s", compared, counts.str().c_str());
  EXPECT_GE(compared, 2000u);
  for (const PrimitiveRow& row : primitive_table()) EXPECT_GE(counts.applied(row.name), 20) << row.name;
}

}  // namespace
}  // namespace tc::testing
