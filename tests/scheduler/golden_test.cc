// Golden tests of what the compiler makes of a kernel of each class: tests/golden/schedules/*.txt hold a
// graph, and for two targets every kernel of its plan: statements, trace, schedule tree and loops.
// `--update` (or TC_UPDATE) rewrites all but the graph.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "frontend/pipeline/plan_builder.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"
#include "ir/scheduled.h"
#include "scheduler/scheduler.h"
#include "tests/golden_file.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "tests/golden/schedules";
constexpr const char* kBar = "\n----\n";

std::string read_text(const fs::path& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  if (!fs::is_directory(kFolder)) return names;
  for (const auto& entry : fs::directory_iterator(kFolder)) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Every kernel of the plan in the order of first use, once.
std::string kernels_text(const std::string& graph_text, const char* target_name, double tolerance) {
  Graph graph = parse_graph(graph_text);
  infer_shapes(graph);
  run_passes(graph, {});
  BuildOptions options;
  options.target = parse_target(target_name);
  options.threads = 2;
  options.tolerance = tolerance;
  const BuiltPlan built = build_plan(graph, options);
  std::string result;
  std::set<int> seen;
  for (const KernelReport& report : built.reports) {
    if (!seen.insert(report.kernel).second) continue;
    Schedule schedule(parse_kernel(report.statements), options.target);
    if (auto refused = schedule.replay(report.trace)) fail(ErrorKind::Internal, "replay: ", *refused);
    result += text("== ", target_name, ": ", report.label, "\n", report.statements, "-- trace\n");
    for (const std::string& line : report.trace) result += line + "\n";
    std::string tree = schedule.tree();
    if (!tree.empty() && tree.back() != '\n') tree += '\n';
    const std::string loops = str(schedule.finish());
    result += "-- tree\n" + tree + "-- loops\n" + loops;
    // What the report tells is what the plan holds.
    EXPECT_EQ(loops, str(built.plan.kernels.at(static_cast<size_t>(report.kernel))));
  }
  return result;
}

class GoldenSchedule : public testing::TestWithParam<std::string> {};

TEST_P(GoldenSchedule, IsAsBelow) {
  const std::string path = std::string(kFolder) + "/" + GetParam() + ".txt";
  const std::string all = read_text(path);
  const size_t bar = all.find(kBar);
  ASSERT_NE(bar, std::string::npos) << path;
  const std::string graph = all.substr(0, bar + 1);
  const auto is_of = [&](const char* what) { return GetParam().rfind(what, 0) == 0; };
  const double tolerance = is_of("winograd") ? 1e-4 : is_of("loose") ? 1e-2 : is_of("bf16") ? 2e-1 : 0;
  // Loose tolerances make a difference where there is a unit for shorter numbers.
  const bool units = tolerance > 1e-4;
  expect_golden(path,
                graph + (kBar + 1) +
                    kernels_text(graph, units ? "x86-64-v4+avx512vnni,+avx512bf16" : "x86-64-v4", tolerance) +
                    kernels_text(graph, units ? "sapphirerapids" : "rv64gcv", tolerance));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSchedule, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

TEST(GoldenSchedules, EachClassHasOne) {
  const std::vector<std::string> names = golden_names();
  for (const char* name : {"conv3x3",
                           "conv_first_strided",
                           "conv1x1",
                           "conv_dilated_grouped",
                           "depthwise",
                           "gemm",
                           "gemm_symbolic",
                           "gemm_open_rows",
                           "matrix_vector",
                           "attention_scores",
                           "max_pool",
                           "global_average",
                           "reduce",
                           "softmax",
                           "softmax_open",
                           "layer_norm",
                           "gru_step",
                           "elementwise",
                           "resize",
                           "transpose",
                           "reorder",
                           "winograd",
                           "winograd_five_taps",
                           "loose_gemm",
                           "loose_conv3x3",
                           "bf16_gemm"}) {
    EXPECT_TRUE(std::count(names.begin(), names.end(), name)) << name;
  }
}

}  // namespace
}  // namespace tc
