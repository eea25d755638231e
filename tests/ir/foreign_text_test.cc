// Text of foreign origin: how names are shown in messages, whoever puts the message together.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "ir/error.h"

namespace tc {
namespace {

std::string bytes(const char* text, size_t size) { return {text, size}; }

TEST(ForeignText, WhatIsPrintableStays) {
  for (const std::string text : {"", "conv1/weights:0",
                                 "gr\xc3\xb6\xc3\x9f"
                                 "e \xe5\xa4\xa7 \xf0\x9f\x99\x82",
                                 "it's 'a' \"b\" \\x1b"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable_lines(text), text);
  }
  EXPECT_EQ(printable_lines("a\tb\n\nc\n"), "a\tb\n\nc\n");
}

TEST(ForeignText, WhatCannotBeSeenIsAnEscape) {
  EXPECT_EQ(printable(bytes("\x1b[2J\n\r\t\0\x7f", 9)), R"(\x1b[2J\n\r\t\x00\x7f)");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            R"(\x9b31m)");
  EXPECT_EQ(printable("\xe2\x80\xae \xe2\x80\x8b\xe2\x80\xa8\xef\xbb\xbf\xc2\xad"),
            R"(\u202e \u200b\u2028\ufeff\xad)");
  EXPECT_EQ(printable("\xf3\xa0\x81\x81"), R"(\U000e0041)");
  EXPECT_EQ(printable_lines("a\r\nb\x1b[1m"), "a\\r\nb\\x1b[1m");
}

TEST(ForeignText, BytesThatAreNoUtf8AreEscapes) {
  EXPECT_EQ(printable("a\xff"
                      "b"),
            R"(a\xffb)");
  EXPECT_EQ(printable("\xc3"), R"(\xc3)");                          // cut short
  EXPECT_EQ(printable("\xc0\xaf"), R"(\xc0\xaf)");                  // longer than it needs to be
  EXPECT_EQ(printable("\xed\xa0\x80"), R"(\xed\xa0\x80)");          // a half of a pair
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)");  // beyond the last code
}

TEST(ForeignText, TheMiddleOfWhatIsLongIsLeftOut) {
  const std::string half(100, 'a'), other(100, 'b');
  EXPECT_EQ(printable(half + other), half + other);
  EXPECT_EQ(printable(half + "\n\n\n" + other), half + "...3 characters left out..." + other);
  EXPECT_EQ(printable(std::string(600000, 'x')),
            std::string(100, 'x') + "...599800 characters left out..." + std::string(100, 'x'));
  std::string letters;
  for (int i = 0; i < 300; ++i) letters += "\xc3\xb6";
  EXPECT_EQ(printable(letters),
            letters.substr(0, 200) + "...100 characters left out..." + letters.substr(0, 200));
  EXPECT_EQ(printable("abcdefg", 4), "ab...3 characters left out...fg");
  EXPECT_EQ(printable_lines("short\n" + std::string(5000, 'y')),
            "short\n" + std::string(2000, 'y') + "...1000 characters left out..." + std::string(2000, 'y'));
}

TEST(ForeignText, BuffersAreFilledAsSnprintfDoes) {
  char buffer[8] = "before";
  EXPECT_EQ(show_name("abcdefghij", 10, buffer, sizeof buffer), 10u);
  EXPECT_STREQ(buffer, "abcdefg");
  EXPECT_EQ(show_name("\x1b", 1, buffer, sizeof buffer), 4u);
  EXPECT_STREQ(buffer, "\\x1b");
  EXPECT_EQ(show_lines("", 0, buffer, sizeof buffer), 0u);
  EXPECT_STREQ(buffer, "");
  EXPECT_EQ(show_name("abc", 3, buffer, 1), 3u);
  EXPECT_STREQ(buffer, "");
  EXPECT_EQ(show_name("abc", 3, nullptr, 0), 3u);
}

struct Streamed {};
std::ostream& operator<<(std::ostream& out, const Streamed&) { return out << "s\x1b"; }

TEST(ForeignText, NamesBetweenQuotesInMessages) {
  const std::string name = "a\nb\x1b";
  const char* opened = "either '";
  EXPECT_EQ(text("node '", name, "' reads '", name.c_str(), "', '", Streamed(), "'"),
            R"(node 'a\nb\x1b' reads 'a\nb\x1b', 's\x1b')");
  EXPECT_EQ(text(opened, name, "' of `", name, "`"), R"(either 'a\nb\x1b' of `a\nb\x1b`)");
  EXPECT_EQ(text("'", name, "'", name), "'a\\nb\\x1b'" + name);  // the second stands outside of quotes
  EXPECT_EQ(text("axis ", 1, " is '", 2, "' of ", 3u, ", not ", 4.5), "axis 1 is '2' of 3, not 4.5");
  EXPECT_EQ(text("'", std::string(300, 'n'), "'").size(),
            2 + 200 + std::string("...100 characters left out...").size());
}

TEST(ForeignText, ErrorsHaveNothingThatCannotBeSeen) {
  EXPECT_STREQ(Error(ErrorKind::Model, "a\x1b" + std::string(1, '\0') + "b\nc").what(), "a\\x1b\\x00b\nc");
  try {
    fail(ErrorKind::Model, "value '", std::string("x\n\0y", 4), "' of ", "\x1b]0;");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), R"(value 'x\n\x00y' of \x1b]0;)");
  }
}

}  // namespace
}  // namespace tc
