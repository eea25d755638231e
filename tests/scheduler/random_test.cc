// Random schedules of every class of kernel, run by the interpreter of loops in double, against the
// plain interpreter. TC_SEED=N replays one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "ir/error.h"
#include "tests/random_schedule.h"
#include "tests/thorough.h"

namespace tc::testing {
namespace {

// Rounds over all pairs of kernel and primitive; each is one seed.
const uint32_t kRounds = cases(2U, 4U);
constexpr int64_t kMaxCopies = 1500;

// Whether the primitive can hold for the kernel at all.
bool applies(const NamedKernel& named, const std::string& primitive) {
  static const std::set<std::string> contiguous = {"pointwise", "gemm",   "average", "softmax", "elementwise",
                                                   "reorder",   "concat", "gather",  "in_place"};
  static const std::set<std::string> joined = {"conv_direct", "conv_group", "conv_groups", "conv_all"};
  if (named.name == "scalar") {  // it has no loops
    return primitive == "layout" || primitive == "stage" || primitive == "register_tile";
  }
  // What a statement writes has to be affine in one of its pairs of iterators.
  if (primitive == "join") return joined.count(named.name) > 0;
  if (primitive == "merge") return contiguous.count(named.name) > 0;
  if (primitive == "winograd") return named.name == "conv" || named.name == "conv_direct";
  if (primitive == "pack" || primitive == "prefetch")
    return named.text.find("\n  constant ") != std::string::npos;
  if (primitive == "sum_blocks")
    return named.text.find("] += ") != std::string::npos && named.name != "quantized";
  // All its sizes are symbolic.
  if (named.name == "softmax_symbolic") return primitive != "layout" && primitive != "strip";
  // Its time steps stay in order, around all else.
  return named.name != "stencil" || primitive != "parallel";
}

TEST(RandomSchedules, ComputeTheSame) {
  const char* only = std::getenv("TC_SEED");
  const auto pairs = static_cast<uint32_t>(small_kernels().size() * drawn_primitives().size());
  const uint32_t first = only != nullptr ? static_cast<uint32_t>(std::atoll(only)) : 0;
  const uint32_t end = only != nullptr ? first + 1 : pairs * kRounds;
  const char* targets[] = {"x86-64-v4", "x86-64-v3", "rv64gcv", "rv64gc"};
  PrimitiveCounts counts;
  uint32_t compared = 0;
  for (uint32_t seed = first; seed < end; ++seed) {
    SCOPED_TRACE(::testing::Message() << "TC_SEED=" << seed);
    try {
      const RandomSchedule random =
          random_schedule(seed, parse_target(targets[seed / pairs % 4]), kMaxCopies, counts);
      SCOPED_TRACE(describe(seed, random));
      if (only != nullptr) std::printf("%s\n", describe(seed, random).c_str());
      const auto parameters = parameter_values(random.kernel, seed);
      try {
        // Transformed weights are rounded to f32.
        const bool exact = algorithm_of(random.schedule.trace()).text.empty();
        const double tolerance = exact ? 1e-9 : 1e-6;
        EXPECT_EQ(difference(random.kernel, random.schedule, seed, parameters, {}, tolerance), "");
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
  EXPECT_GE(compared, 500u * kRounds);
  // Those that need a matrix unit are in two_terms_test.
  for (const std::string& name : drawn_primitives()) {
    EXPECT_GE(counts.applied(name), name == "winograd" ? 2 : cases(10, 20)) << name;
    for (const NamedKernel& named : small_kernels()) {
      if (!thorough() || !applies(named, name)) continue;
      EXPECT_GE(counts.applied(named.name, name), 1) << name << " on " << named.name;
    }
  }
}

TEST(RandomSchedules, ProductsOfOpenSizes) {
  constexpr uint32_t kSeeds = 300, kLeast = 100;
  const char* only = std::getenv("TC_SEED");
  const uint32_t first = only != nullptr ? static_cast<uint32_t>(std::atoll(only)) : 0;
  const char* targets[] = {"x86-64-v4", "x86-64-v3", "rv64gcv", "rv64gc"};
  PrimitiveCounts counts;
  std::map<std::string, uint32_t> with_products;
  for (uint32_t seed = first; seed < (only != nullptr ? first + 1 : kSeeds); ++seed) {
    SCOPED_TRACE(::testing::Message() << "TC_SEED=" << seed);
    try {
      const RandomSchedule random =
          random_schedule_of_products(seed, parse_target(targets[seed % 4]), kMaxCopies, counts);
      SCOPED_TRACE(describe(seed, random));
      if (products_of(random) > 0) ++with_products[random.named->name];
      EXPECT_EQ(difference(random.kernel, random.schedule, seed, parameter_values(random.kernel, seed)), "");
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  if (only != nullptr) return;
  uint32_t all = 0;
  for (const NamedKernel& named : kernels_of_products()) {
    std::printf("%s: %u random schedules with a product of open sizes\n", named.name.c_str(),
                with_products[named.name]);
    EXPECT_GE(with_products[named.name], 10u) << named.name;
    all += with_products[named.name];
  }
  EXPECT_GE(all, kLeast);
}

}  // namespace
}  // namespace tc::testing
