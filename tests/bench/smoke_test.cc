// Every benchmark runs, once, and reports numbers that can be: the measurements themselves are for
// `bazel run //tests/bench:kernels` and its neighbours.
#include <benchmark/benchmark.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

namespace {

// Keeps what each case reports instead of printing it.
class Keeper : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) found.emplace(run.benchmark_name(), run);
  }
  std::map<std::string, Run> found;
};

TEST(Benchmarks, RunOnce) {
  char program[] = "smoke_test", least[] = "--benchmark_min_time=0";
  char* arguments[] = {program, least, nullptr};
  int count = 2;
  benchmark::Initialize(&count, arguments);
  Keeper keeper;
  const size_t ran = benchmark::RunSpecifiedBenchmarks(&keeper);
  EXPECT_EQ(keeper.found.size(), ran) << "two cases have one name";
  int kernels = 0;
  for (const auto& [name, run] : keeper.found) {
    EXPECT_FALSE(run.error_occurred) << name << ": " << run.error_message;
    EXPECT_GT(run.GetAdjustedRealTime(), 0) << name;
    for (const auto& [counter, value] : run.counters) {
      EXPECT_TRUE(std::isfinite(value.value) && value.value > 0)
          << name << " " << counter << " " << value.value;
    }
    kernels += run.counters.count("B/s") > 0;
  }
  // Each class of the list in docs/benchmarks.md.
  for (const char* name :
       {"gemm/", "conv3x3/", "conv3x3s2/", "conv1x1/", "first7x7s2/", "first11x11s4/", "depthwise3x3/",
        "depthwise3x3s2/", "matrix_vector/", "softmax/", "layer_norm/", "gru_step/", "transpose/", "compile/",
        "plan/", "run_tiny_model/", "run_after_sleep/", "create_context/", "link_and_open/"}) {
    const auto at = keeper.found.lower_bound(name);
    EXPECT_TRUE(at != keeper.found.end() && at->first.rfind(name, 0) == 0) << name;
  }
  EXPECT_GE(kernels, 20);
}

}  // namespace
