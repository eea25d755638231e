// Tuning sessions on a fake device: budget, memory of the log, what becomes of failures, the last word of
// the whole model.
#include "tuner/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "ir/error.h"
#include "scheduler/scheduler.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

// Answers with a cost that depends on the trace alone: short text is fast.
class FakeDevice : public Measurer {
 public:
  std::string device_key() const override { return key; }
  std::string unit() const override { return "seconds"; }
  std::vector<Measurement> measure(const KernelTask& task, const Trace& incumbent, const std::vector<Trace>& traces,
                                   int) override {
    std::vector<Measurement> results;
    for (const Trace& trace : traces) {
      ++measured;
      if (stop_after > 0 && measured > stop_after) fail(ErrorKind::Device, "the plug was pulled");
      seen.emplace_back(task.workload, trace);
      Measurement result;
      if (broken.count(task.label) && trace == incumbent) {
        result.outcome = Outcome::WrongResult;
        result.detail = "out0[0] is 1, expected 2";
      } else if (trace != incumbent && cost(trace) % 7 == 0) {
        result.outcome = Outcome::Crash;
        result.detail = "segmentation fault";
      } else {
        const double time = 1e-3 * static_cast<double>(cost(trace));
        result.time = {5, time, time, 0};
        result.ratio = static_cast<double>(cost(trace)) / static_cast<double>(cost(incumbent));
      }
      results.push_back(result);
    }
    return results;
  }
  // A number of the trace that is not in step with any one primitive.
  static int cost(const Trace& trace) {
    unsigned sum = 17;
    for (const std::string& line : trace) {
      for (const char c : line) sum = sum * 31 + static_cast<unsigned char>(c);
    }
    return 100 + static_cast<int>(sum % 100);
  }

  std::string key = "fake";
  std::set<std::string> broken;
  int measured = 0, stop_after = 0;
  std::vector<std::pair<std::string, Trace>> seen;
};

class TunerTune : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "tune-" + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".db";
    std::filesystem::remove(path_);
    for (const NamedKernel& named : small_kernels()) {
      const Kernel kernel = small_kernel(named.name);
      if (!kernel.parameters.empty() || tasks_.size() == 2) continue;
      if (named.name.find("conv") == std::string::npos && named.name.find("gemm") == std::string::npos) continue;
      KernelTask task;
      task.label = named.name;
      task.kernel = kernel;
      task.layout_lines = named.layout_lines;
      task.workload = workload_key(kernel);
      for (const std::string& line : named.layout_lines) task.workload += "\n" + line;
      task.target = parse_target("x86-64-v4");
      task.untuned = default_schedule(kernel, task.target, 1, named.layout_lines).trace();
      tasks_.push_back(std::move(task));
    }
    ASSERT_GE(tasks_.size(), 2u);
  }

  TuneResult run(FakeDevice& device, int trials, const MeasureModel& model = nullptr,
                 const std::function<bool(const TuneProgress&)>& progress = nullptr) {
    Log log(path_, Log::Mode::Write);
    TuneOptions options;
    options.trials = trials;
    options.build = "test";
    options.seed = 3;
    return tune(tasks_, device, log, options, model, progress);
  }

  std::string path_;
  std::vector<KernelTask> tasks_;
};

TEST_F(TunerTune, FindsFasterAndKeepsTheBudget) {
  FakeDevice device;
  const TuneResult result = run(device, 32);
  EXPECT_EQ(result.last.trials, 32);
  EXPECT_EQ(result.stopped, "budget");
  EXPECT_FALSE(result.choices.empty());
  for (size_t i = 0; i < tasks_.size(); ++i) EXPECT_LE(result.last.kernels[i].best, result.last.kernels[i].untuned);
  int failures = 0;
  for (const KernelProgress& kernel : result.last.kernels) {
    for (const auto& [outcome, count] : kernel.failures) {
      EXPECT_EQ(outcome, Outcome::Crash);
      EXPECT_EQ(kernel.example, "crash: segmentation fault");
      failures += count;
    }
  }
  EXPECT_GT(failures, 0);
}

TEST_F(TunerTune, OtherAlgorithmsAreTriedFirst) {
  std::vector<Trace> others;
  for (KernelTask& task : tasks_) {
    others.push_back(default_schedule(task.kernel, task.target, 2, task.layout_lines).trace());
    ASSERT_NE(others.back(), task.untuned);
    task.algorithms = {task.untuned, others.back()};
  }
  FakeDevice device;
  const TuneResult result = run(device, 16);
  EXPECT_TRUE(result.notes.empty());       // they are no other target's
  for (size_t i = 0; i < tasks_.size(); ++i) {
    std::vector<Trace> seen;
    for (const auto& [workload, trace] : device.seen) {
      if (workload == tasks_[i].workload && std::find(seen.begin(), seen.end(), trace) == seen.end()) seen.push_back(trace);
    }
    ASSERT_GE(seen.size(), 2u);
    EXPECT_EQ(seen[0], tasks_[i].untuned);
    EXPECT_EQ(seen[1], others[i]);
  }
}

TEST_F(TunerTune, TheSameSeedDoesTheSame) {
  FakeDevice first, second;
  run(first, 40);
  std::filesystem::remove(path_);
  run(second, 40);
  EXPECT_EQ(first.seen, second.seen);
}

TEST_F(TunerTune, ASecondSessionMeasuresNothing) {
  FakeDevice device;
  const TuneResult once = run(device, 40);
  FakeDevice again;
  const TuneResult twice = run(again, 40);
  EXPECT_EQ(again.measured, 0);
  EXPECT_EQ(twice.last.measured, 0);
  EXPECT_EQ(twice.last.trials, 40);
  EXPECT_EQ(twice.choices, once.choices);
}

TEST_F(TunerTune, ResumesWhereItWasCut) {
  FakeDevice whole;
  const TuneResult expected = run(whole, 48);
  std::filesystem::remove(path_);
  std::set<std::pair<std::string, Trace>> first_tries;
  for (int cut = 5;; cut += 9) {
    FakeDevice device;
    device.stop_after = cut;
    try {
      const TuneResult resumed = run(device, 48);
      EXPECT_EQ(resumed.choices, expected.choices);
      EXPECT_EQ(resumed.last.trials, 48);
      break;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the plug was pulled");
    }
    ASSERT_LT(cut, 2000);
  }
  const Log log(path_, Log::Mode::Read);
  EXPECT_EQ(log.records({}).size(), 48u) << "each once";
}

TEST_F(TunerTune, AnotherDeviceIsMeasuredAnew) {
  FakeDevice device;
  run(device, 30);
  FakeDevice other;
  other.key = "another";
  EXPECT_EQ(run(other, 30).last.measured, 30);
}

TEST_F(TunerTune, AKernelWhoseUntunedScheduleFailsIsLeftAlone) {
  FakeDevice device;
  device.broken.insert(tasks_[0].label);
  const TuneResult result = run(device, 30);
  ASSERT_EQ(result.notes.size(), 1u);
  EXPECT_NE(result.notes[0].find("is not tuned: its untuned schedule is 'wrong result': out0[0] is 1"), std::string::npos)
      << result.notes[0];
  EXPECT_EQ(result.last.kernels[0].trials, 1);
  EXPECT_EQ(result.choices.count(tasks_[0].workload), 0u);
}

TEST_F(TunerTune, StopsWhenToldAndKeepsAll) {
  FakeDevice device;
  const TuneResult result = run(device, 32, nullptr, [](const TuneProgress& progress) { return progress.measured < 20; });
  EXPECT_EQ(result.stopped, "interrupted");
  const Log log(path_, Log::Mode::Read);
  EXPECT_EQ(static_cast<int>(log.records({}).size()), result.last.measured);
}

// Whole models whose time the test decides.
MeasureModel model_of(const std::function<double(const Choices&)>& time) {
  return [time](const std::vector<Choices>& variants, int) {
    std::vector<Measurement> results;
    for (const Choices& choices : variants) {
      Measurement result;
      result.time = {9, time(choices), time(choices), 0};
      result.ratio = time(choices) / time(variants[0]);
      results.push_back(result);
    }
    return results;
  };
}

TEST_F(TunerTune, TheWholeModelHasTheLastWord) {
  FakeDevice device;
  const TuneResult result = run(device, 32, model_of([](const Choices& choices) { return choices.empty() ? 1.0 : 1.1; }));
  EXPECT_TRUE(result.choices.empty()) << "kernels alone were faster, the model was not";
  EXPECT_EQ(result.model_ratio, 1);
  const Log log(path_, Log::Mode::Read);
  for (const KernelTask& task : tasks_) {
    const auto best = log.best(task.workload, task.target.name, "", 1, "test");
    ASSERT_FALSE(best.empty());
    EXPECT_EQ(best[0].trace, task.untuned) << "what later builds take";
  }
}

TEST_F(TunerTune, ChoosesTheVariantThatTheModelLikes) {
  FakeDevice device;
  const std::string& disliked = tasks_[0].workload;
  Trace hated;
  const TuneResult alone = run(device, 32);
  ASSERT_TRUE(alone.choices.count(disliked));
  hated = alone.choices.at(disliked);
  std::filesystem::remove(path_);
  FakeDevice again;
  const TuneResult result = run(again, 32, model_of([&](const Choices& choices) {
    const auto found = choices.find(disliked);
    const double penalty = found != choices.end() && found->second == hated ? 0.5 : 0;
    return 1.0 - 0.1 * static_cast<double>(choices.size()) + penalty;
  }));
  EXPECT_LT(result.model_ratio, 1);
  const auto found = result.choices.find(disliked);
  EXPECT_TRUE(found == result.choices.end() || found->second != hated);
}

}  // namespace
}  // namespace tc::testing
