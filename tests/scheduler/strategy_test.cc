// The table of strategies: what a kernel is classified as, which strategy the default takes and why not the
// others, and that the default and the tuner's space read the same table.
#include "scheduler/default/strategy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ir/scratch.h"
#include "scheduler/search/space.h"
#include "tests/golden_file.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

Schedule start_of(const Kernel& kernel, const Target& target,
                  const std::vector<std::string>& layout_lines = {}) {
  Schedule start(kernel, target);
  EXPECT_EQ(start.replay(layout_lines), std::nullopt);
  return start;
}

const StrategyReport* taken_of(const std::vector<StrategyReport>& report) {
  const auto found =
      std::find_if(report.begin(), report.end(), [](const StrategyReport& each) { return each.taken; });
  return found == report.end() ? nullptr : &*found;
}

// The small kernels, and what takes them on x86-64-v4.
const std::vector<std::pair<std::string, std::string>>& classes() {
  // clang-format off
  static const std::vector<std::pair<std::string, std::string>> rows = {
      {"conv", "direct convolution"}, {"conv_group", "grouped convolution"},
      {"conv_groups", "grouped convolution"},
      {"pointwise", "matrix product"}, {"depthwise", "depthwise convolution"}, {"gemm", "matrix product"},
      {"gemm_direct", "matrix product"}, {"gemm_transposed", "matrix product"},
      {"gemm_open", "matrix product"}, {"gemv", "matrix x vector"},
      {"pool", "pooling"}, {"row_sum", "partial sums"}, {"column_max", "reduction of one operand"},
      {"softmax", "rows"}, {"transpose", "statement by statement"}};
  // clang-format on
  return rows;
}

const NamedKernel& named_kernel(const std::string& name) {
  const auto& all = small_kernels();
  return *std::find_if(all.begin(), all.end(), [&](const NamedKernel& each) { return each.name == name; });
}

TEST(Strategies, ReductionsAreClassifiedBySubscripts) {
  for (const auto& [kernel, name] : classes()) {
    const NamedKernel& named = named_kernel(kernel);
    const auto report =
        default_report(start_of(parse_kernel(named.text), parse_target("x86-64-v4"), named.layout_lines), 1);
    const StrategyReport* taken = taken_of(report);
    ASSERT_NE(taken, nullptr) << kernel;
    EXPECT_EQ(taken->name, name) << kernel << "\n" << str(report);
  }
}

// Loops without vectors, copies and packed constants; sums are in registers, or those of a row in memory.
TEST(Strategies, TheLeastCodeOfAReductionIsPlainLoops) {
  for (const char* name : {"x86-64-v4", "rv64gcv", "rv32imfc"}) {
    const Target target = for_least_code(parse_target(name));
    for (const auto& [kernel, fast] : classes()) {
      SCOPED_TRACE(kernel + " " + name);
      const Schedule schedule = default_schedule(parse_kernel(named_kernel(kernel).text), target, 1);
      const ScheduledKernel finished = schedule.finish();
      const StrategyReport* taken =
          taken_of(default_report(start_of(parse_kernel(named_kernel(kernel).text), target), 1));
      ASSERT_NE(taken, nullptr);
      const bool is_reduction = fast != "rows" && fast != "statement by statement";
      EXPECT_EQ(taken->name == "plain loops", is_reduction) << taken->name;
      const std::string loops = str(finished);
      for (const char* word : {"vector ", "unroll", "isolate"})
        EXPECT_EQ(loops.find(word), std::string::npos) << word << "\n" << loops;
      if (!is_reduction) continue;
      EXPECT_TRUE(finished.kernel.packings.empty());
      EXPECT_LE(scratch_bytes(finished), 16 << 10) << loops;
    }
  }
}

TEST(Strategies, ReportsAreAsBelow) {
  std::string all;
  const auto add = [&](const std::string& name, const Schedule& start, double tolerance) {
    all += text("== ", name, ", ", start.target().name, ", tolerance ", tolerance, "\n",
                str(default_report(start, 1, tolerance)));
  };
  const Target vectors = parse_target("x86-64-v4"), tiles = parse_target("sapphirerapids");
  for (const auto& [kernel, name] : classes()) {
    const NamedKernel& named = named_kernel(kernel);
    add(kernel, start_of(parse_kernel(named.text), vectors, named.layout_lines), 0);
  }
  const std::vector<std::string> blocks = {"layout I 1 16", "layout O 1 16"};
  for (const Target& target : {vectors, tiles}) {
    for (const double tolerance : {1e-4, 1e-2}) {
      add("convolution of 3 x 3 taps", start_of(rectified_convolution(64, 64, 28, 3, 1), target, blocks),
          tolerance);
      add("product", start_of(biased_product(256, 512, 512), target), tolerance);
    }
  }
  expect_golden("tests/golden/strategies.txt", all);
}

TEST(Strategies, OneTakesTheKernelAndTheOthersSayWhyNot) {
  for (const NamedKernel& named : small_kernels()) {
    for (const char* target : {"x86-64-v4", "rv64gcv", "rv64gc"}) {
      SCOPED_TRACE(named.name + std::string(" ") + target);
      const Schedule start = start_of(parse_kernel(named.text), parse_target(target), named.layout_lines);
      const std::vector<StrategyReport> report = default_report(start, 2, 1e-4);
      ASSERT_EQ(report.size(), strategies().size());
      int taken = 0, tiles = 0;
      for (size_t i = 0; i < report.size(); ++i) {
        EXPECT_EQ(report[i].name, strategies()[i].name);
        EXPECT_EQ(report[i].taken, report[i].rejected.empty()) << report[i].name;
        taken += report[i].taken;
        tiles += strategies()[i].kind == StrategyKind::RegisterTile && !report[i].plan.empty();
      }
      // A scan's loops stay as they are where there are vectors: none of them has lanes or may be reordered.
      EXPECT_TRUE(taken == 1 || (taken == 0 && named.name == "scan")) << taken;
      EXPECT_LE(tiles, 1);
      // Without the report less is examined, and the same is taken.
      const Decision all = decide(StrategyInput(ScheduleAccess::state(start), 2, 1e-4, true));
      ASSERT_EQ(all.result.has_value(), taken == 1);
      EXPECT_EQ(
          default_schedule(parse_kernel(named.text), start.target(), 2, named.layout_lines, 1e-4).trace(),
          all.result ? all.result->state().trace : start.trace());
    }
  }
}

TEST(Strategies, TheSpaceNumbersThemAsTheTableDoes) {
  for (const NamedKernel& named : small_kernels()) {
    const Schedule start = start_of(parse_kernel(named.text), parse_target("x86-64-v4"), named.layout_lines);
    const ScheduleSpace space(start, 2, 1e-4);
    const Decision decision = decide(StrategyInput(ScheduleAccess::state(start), 2, 1e-4));
    if (decision.taken == 0) {
      EXPECT_TRUE(space.dimensions().empty()) << named.name;
      continue;
    }
    ASSERT_FALSE(space.dimensions().empty()) << named.name;
    const ScheduleSpace::Dimension& way = space.dimensions().front();
    EXPECT_EQ(way.values[static_cast<size_t>(space.default_point()[0])], decision.taken) << named.name;
    // The other dimensions are knobs of those strategies.
    std::set<std::string> knobs;
    for (const int64_t number : way.values)
      knobs.insert(strategy(number).choices.begin(), strategy(number).choices.end());
    for (size_t i = 1; i < space.dimensions().size(); ++i) {
      const std::string& name = space.dimensions()[i].name;
      const std::string of_each = name.substr(0, name.rfind(" of ")) + " of each statement";
      EXPECT_TRUE(knobs.contains(name) || knobs.contains(of_each)) << named.name << ": " << name;
    }
  }
}

// The table of algorithms has bf16 first, which is the cheapest on a unit that is made for it, and not on one
// that is twenty times slower with it.
TEST(Strategies, TheCheapestAlgorithmOfAMatrixUnitIsTaken) {
  const auto algorithm = [](const Target& target) {
    return algorithm_of(default_schedule(biased_product(256, 512, 512), target, 1, {}, 0.2).trace()).text;
  };
  Target target = parse_target("sapphirerapids");
  EXPECT_EQ(algorithm(target), "bf16");
  for (MatrixUnit::Format& format : target.matrix.formats) {
    if (format.operand == DType::BF16) format.cycles *= 20;
  }
  EXPECT_EQ(algorithm(target), "int8x3");
}

}  // namespace
}  // namespace tc::testing
