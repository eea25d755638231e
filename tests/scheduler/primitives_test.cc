// Golden tests of each schedule primitive: tests/golden/primitives/NAME.txt holds a kernel, lines that apply
// the primitive to it, lines of which the last is refused, and behind a bar what becomes of them: statements
// and loops, and what the refusals say. `--update` (or TC_UPDATE) rewrites what is behind the bar.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ir/error.h"
#include "ir/scheduled.h"
#include "tests/accelerator.h"
#include "tests/golden_file.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

// The examples of primitives for accelerators are for this one.
const bool kIsRegistered = (register_accelerator(test_accelerator()), true);

const std::string kFolder = "tests/golden/primitives";
const std::string kBar = "\n----\n";

// What a file holds before its bar.
struct Example {
  std::string text;
  std::string kernel, target;
  std::vector<std::string> lines;
  std::vector<std::vector<std::string>> refused;  // the last of each is
};

std::vector<std::string> divided(const std::string& line) {
  std::vector<std::string> parts;
  std::istringstream in(line);
  for (std::string part; std::getline(in, part, ';');)
    parts.push_back(part.substr(part.find_first_not_of(' ')));
  return parts;
}

Example read_example(const std::string& name) {
  std::ifstream file(kFolder + "/" + name + ".txt");
  const std::string all(std::istreambuf_iterator<char>(file), {});
  Example example;
  example.text = all.substr(0, all.find(kBar) + 1);
  std::istringstream in(example.text);
  const std::string apply = "apply for ";
  bool refuse = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(apply, 0) == 0) example.target = line.substr(apply.size());
    else if (line == "refuse") refuse = true;
    else if (refuse) example.refused.push_back(divided(line));
    else if (!example.target.empty()) example.lines.push_back(divided(line).at(0));
    else example.kernel += line + "\n";
  }
  return example;
}

std::string answer(const Example& example, const std::vector<std::string>& lines) {
  Schedule schedule(parse_kernel(example.kernel), parse_target(example.target));
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto refused = schedule.apply(lines[i]);
    if (refused && i + 1 == lines.size()) return *refused;
    EXPECT_EQ(refused, std::nullopt);
  }
  if (const auto refused = schedule.check()) return "at the end: " + *refused;
  ADD_FAILURE() << lines.back() << " is accepted";
  return "accepted";
}

class GoldenPrimitive : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenPrimitive, DoesAsBelow) {
  const Example example = read_example(GetParam());
  ASSERT_FALSE(example.refused.empty())
      << "no " << kFolder << "/" << GetParam() << ".txt with a kernel, lines and a refusal";
  const Kernel kernel = parse_kernel(example.kernel);
  Schedule schedule(kernel, parse_target(example.target));
  ASSERT_EQ(schedule.replay(example.lines), std::nullopt);
  const bool applied = std::any_of(example.lines.begin(), example.lines.end(), [](const std::string& line) {
    return read_line(line).value().row->name == GetParam();
  });
  EXPECT_TRUE(applied);
  std::string result = str(schedule.finish()) + "refused\n";
  for (const std::vector<std::string>& lines : example.refused)
    result += "  " + answer(example, lines) + "\n";
  expect_golden(kFolder + "/" + GetParam() + ".txt", example.text + kBar.substr(1) + result);
  const double error = algorithm_of(example.lines).error;
  EXPECT_EQ(difference(kernel, schedule, 1, {}, {}, std::max(1e-9, 10 * error)), "");
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const PrimitiveRow& row : primitive_table()) result.push_back(row.name);
  return result;
}

// What parsing, Python and the tuner take for granted.
TEST(PrimitiveRows, AreSound) {
  std::set<std::string> names;
  for (const PrimitiveRow& row : primitive_table()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(row.mark.has_value(), row.kind == PrimitiveKind::Mark) << row.name;
    std::set<std::string> arguments;
    for (const Argument& argument : row.form) {
      EXPECT_TRUE(arguments.insert(argument.name).second) << row.signature();
      EXPECT_EQ(argument.change == Argument::Change::Order,
                argument.is_list() && argument.change != Argument::Change::None)
          << row.signature();
      const bool simple = argument.kind == Argument::Kind::Loop || argument.kind == Argument::Kind::Number;
      EXPECT_TRUE(simple || !row.tuned) << row.signature();
    }
  }
}

TEST(PrimitiveRows, ReadLines) {
  const PrimitiveLine line = read_line("split macc_x 14 as xo xi").value();
  EXPECT_EQ(line.row->signature(), "split LOOP SIZE as OUTER INNER");
  EXPECT_EQ(line.arguments[0], nullptr);
  EXPECT_EQ(line.arguments[2]->name, "SIZE");
  EXPECT_EQ(description(*line.arguments[2]), "number >= 1; the tuner tries others");
  EXPECT_EQ(line.arguments[5]->name, "INNER");
  // The text of algorithms is what it was when they were one primitive: logs hold such lines.
  EXPECT_EQ(read_line("algorithm macc winograd 4 3 1 14").value().row->name, "winograd");
  EXPECT_EQ(read_line("algorithm macc int8x6 8 1 2 2 16").value().row->name, "int8x6");
  std::string why;
  EXPECT_FALSE(read_line("unroll macc_x four", &why));
  EXPECT_EQ(why, "expected the number of copies, a number, got 'four'");
}

INSTANTIATE_TEST_SUITE_P(All, GoldenPrimitive, ::testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tc::testing
