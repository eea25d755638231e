// What the runtime finds out about this machine, against what the system says.
#include "runtime/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace tc::runtime {
namespace {

TEST(Machine, CoresAreThoseOfTheAffinityMask) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  EXPECT_GE(core_count(), 1);
  EXPECT_LE(core_count(), CPU_COUNT(&mask));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &mask)) {
      CPU_SET(i, &one);
      break;
    }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(core_count(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
}

#if defined(__x86_64__)
TEST(Machine, FeaturesAreThoseOfTheSystem) {
  std::set<std::string> flags;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    for (std::string word; words >> word;) flags.insert(word);
    break;
  }
  ASSERT_FALSE(flags.empty());
  // Our name (LLVM's), the system's. Not rdseed: systems hide it where they do not trust its numbers (Zen 5).
  // clang-format off
  const std::pair<const char*, const char*> rows[] = {
      {"sse2", "sse2"}, {"ssse3", "ssse3"}, {"sse4.1", "sse4_1"}, {"sse4.2", "sse4_2"},
      {"popcnt", "popcnt"}, {"avx", "avx"}, {"avx2", "avx2"}, {"fma", "fma"}, {"f16c", "f16c"},
      {"bmi", "bmi1"}, {"bmi2", "bmi2"}, {"lzcnt", "abm"}, {"movbe", "movbe"},
      {"avx512f", "avx512f"}, {"avx512bw", "avx512bw"}, {"avx512cd", "avx512cd"},
      {"avx512dq", "avx512dq"}, {"avx512vl", "avx512vl"}, {"avx512vbmi", "avx512vbmi"},
      {"avx512vbmi2", "avx512_vbmi2"}, {"avx512vnni", "avx512_vnni"},
      {"avx512bitalg", "avx512_bitalg"}, {"avx512vpopcntdq", "avx512_vpopcntdq"},
      {"avx512ifma", "avx512ifma"}, {"avx512bf16", "avx512_bf16"},
      {"avx512fp16", "avx512_fp16"}, {"avxvnni", "avx_vnni"}, {"amx-tile", "amx_tile"},
      {"amx-int8", "amx_int8"}, {"amx-bf16", "amx_bf16"}, {"gfni", "gfni"}, {"vaes", "vaes"},
      {"vpclmulqdq", "vpclmulqdq"}, {"sha", "sha_ni"}, {"adx", "adx"}};
  // clang-format on
  for (const auto& [name, flag] : rows) {
    char missing[160] = "";
    EXPECT_EQ(has_features(name, missing, sizeof missing), flags.count(flag) > 0) << name;
    if (flags.count(flag) == 0) {
      EXPECT_EQ(missing, "'" + std::string(name) + "', which this machine lacks");
    }
  }
}

TEST(Machine, NamesTheFirstMissingFeature) {
  char missing[160] = "";
  EXPECT_TRUE(has_features("", missing, sizeof missing));
  EXPECT_TRUE(has_features("  sse2  sse ", missing, sizeof missing));
  EXPECT_FALSE(has_features("sse2 nonsense more", missing, sizeof missing));
  EXPECT_STREQ(missing, "'nonsense', which this version of the runtime does not know");
}
#endif

}  // namespace
}  // namespace tc::runtime
