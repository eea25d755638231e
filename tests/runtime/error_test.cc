// Texts of the runtime: as printf has them, but for names, in which there may be anything.
#include "runtime/error.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace tc::runtime {
namespace {

template <class... Arguments>
std::string said(const char* format, Arguments... arguments) {
  EXPECT_EQ(fail(TC_ERROR_MODEL, format, arguments...), TC_ERROR_MODEL);
  return tc_last_error();
}

TEST(Error, NumbersAreAsPrintfHasThem) {
  EXPECT_EQ(said("%d %5d|%-4d|%04x %u %c", -1, 42, 7, 255u, 4000000000u, 'x'),
            "-1    42|7   |00ff 4000000000 x");
  EXPECT_EQ(said("%lld %llu %ld %lu %zu", -1LL << 40, 1ULL << 63, -3L, 5UL, size_t{6}),
            "-1099511627776 9223372036854775808 -3 5 6");
  EXPECT_EQ(said("%.1f MB, %g, %10.3f ms, 100 %%", 1.25, 0.5, 3.14159), "1.2 MB, 0.5,      3.142 ms, 100 %");
}

TEST(Error, NamesAreOneLineThatCanBeSeen) {
  EXPECT_EQ(said("input '%s': %s", "a\n\x1b[2J\xff", "b\n\x1b"), R"(input 'a\n\x1b[2J\xff': b)"
                                                                 "\n\\x1b");
  const std::string name(600000, 'n');
  EXPECT_EQ(
      said("'%s' and %d", name.c_str(), 3),
      "'" + std::string(100, 'n') + "...599800 characters left out..." + std::string(100, 'n') + "' and 3");
  EXPECT_EQ(said("%s: %s", "a\nb", "c\nd"), "a\\nb: c\nd");
  EXPECT_EQ(said("%s", static_cast<const char*>(nullptr)), "(null)");
}

TEST(Error, WhatHasNoRoomIsLeftOut) {
  const std::string line(3000, 'x');
  const std::string text = said("%s\n%s\n%d", line.c_str(), line.c_str(), 7);
  EXPECT_EQ(text, (line + "\n" + line).substr(0, kMaxOfText - 1));
  EXPECT_EQ(said("short"), "short");
  EXPECT_EQ(said("again: %s", tc_last_error()), "again: short");
}

}  // namespace
}  // namespace tc::runtime
