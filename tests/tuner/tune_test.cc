// Tuning sessions on a fake device: budget, memory of the log, what becomes of failures, the last word of
// the whole model.
#include "tuner/tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "ir/error.h"
#include "scheduler/scheduler.h"
#include "tests/scheduler_kernels.h"
#include "tests/stores.h"

namespace tc::testing {
namespace {

// Answers with a cost that depends on the trace alone: short text is fast.
class FakeDevice : public Measurer {
 public:
  std::string device_key() const override { return key; }
  std::string unit() const override { return counts; }
  std::vector<Measurement> measure(const KernelTask& task, const Trace& incumbent,
                                   const std::vector<Trace>& traces, int) override {
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
        const double units = fastest.count(trace) ? 50 : cost(trace);
        const double time = (counts == "seconds" ? pace : 1e9 * pace) * units;
        result.time = {5, time, time, 0};
        result.ratio = units / (fastest.count(incumbent) ? 50 : cost(incumbent));
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

  std::string key = "fake", counts = "seconds";
  std::set<std::string> broken;
  std::set<Trace> fastest;  // these beat all others
  double pace = 1e-3;       // seconds of a cost of one
  int measured = 0, stop_after = 0;
  std::vector<std::pair<std::string, Trace>> seen;
};

// A model that calls each of the kernels once.
SessionModel whole_model(const std::string& name, const std::vector<KernelTask>& tasks) {
  SessionModel model;
  model.name = name;
  for (const KernelTask& task : tasks) model.uses[task.workload] = {name + "/" + task.label, 1};
  return model;
}

class TunerTune : public ::testing::Test {
 protected:
  void SetUp() override {
    forget();
    for (const NamedKernel& named : small_kernels()) {
      const Kernel kernel = small_kernel(named.name);
      if (!kernel.parameters.empty() || tasks_.size() == kernel_count_) continue;
      if (named.name.find("conv") == std::string::npos && named.name.find("gemm") == std::string::npos)
        continue;
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
    ASSERT_EQ(tasks_.size(), kernel_count_);
  }

  TuneResult run(FakeDevice& device, int trials, const MeasureModel& model = nullptr,
                 const std::function<bool(const TuneProgress&)>& progress = nullptr) {
    const auto log = open_store(url_, RecordStore::Mode::Write);
    TuneOptions options;
    options.trials = trials;
    options.build = "test";
    options.seed = 3;
    return tune(tasks_, device, *log, options, model, progress);
  }

  // Further sessions have an empty log.
  void forget() { url_ = fresh_store(scheme(), "tune"); }
  virtual std::string scheme() const { return "memory"; }
  std::unique_ptr<RecordStore> log() const { return open_store(url_, RecordStore::Mode::Read); }

  std::string url_;
  size_t kernel_count_ = 2;
  std::vector<KernelTask> tasks_;
};

class TunerTuneThree : public TunerTune {
 protected:
  void SetUp() override {
    kernel_count_ = 3;
    TunerTune::SetUp();
  }
};

// What a session leaves in the log, and what the next one makes of it, with every kind of store.
class TunerTuneLog : public TunerTune, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (const std::string why = missing_store(GetParam()); !why.empty()) GTEST_SKIP() << why;
    TunerTune::SetUp();
  }
  std::string scheme() const override { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Stores, TunerTuneLog, ::testing::ValuesIn(store_schemes()), scheme_name);

// An agent that lies, or is deceived: no time that beats what every machine needs is believed or kept.
TEST_F(TunerTune, TimesBelowThePhysicalFloorAreRefused) {
  for (const double pace : {2.7e-13, 1e-12}) {
    forget();
    FakeDevice device;
    device.pace = pace;
    const TuneResult result = run(device, 8);
    for (const Record& record : log()->records({})) {
      EXPECT_NE(record.measurement.outcome, Outcome::Ok);
      EXPECT_EQ(record.measurement.time.count, 0);
    }
    ASSERT_FALSE(result.last.kernels.empty());
    EXPECT_NE(result.last.kernels[0].example.find("is not believed: no machine needs less than"),
              std::string::npos)
        << result.last.kernels[0].example;
  }
}

TEST_F(TunerTune, FindsFasterAndKeepsTheBudget) {
  FakeDevice device;
  const TuneResult result = run(device, 32);
  EXPECT_EQ(result.last.trials, 32);
  EXPECT_EQ(result.stopped, "budget");
  EXPECT_FALSE(result.choices.empty());
  for (size_t i = 0; i < tasks_.size(); ++i)
    EXPECT_LE(result.last.kernels[i].best, result.last.kernels[i].untuned);
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
  EXPECT_TRUE(result.notes.empty());  // they are no other target's
  for (size_t i = 0; i < tasks_.size(); ++i) {
    std::vector<Trace> seen;
    for (const auto& [workload, trace] : device.seen) {
      if (workload == tasks_[i].workload && std::find(seen.begin(), seen.end(), trace) == seen.end())
        seen.push_back(trace);
    }
    ASSERT_GE(seen.size(), 2u);
    EXPECT_EQ(seen[0], tasks_[i].untuned);
    EXPECT_EQ(seen[1], others[i]);
  }
}

TEST_F(TunerTune, TheSameSeedDoesTheSame) {
  FakeDevice first, second;
  run(first, 40);
  forget();
  run(second, 40);
  EXPECT_EQ(first.seen, second.seen);
}

TEST_P(TunerTuneLog, ASecondSessionMeasuresNothing) {
  FakeDevice device;
  const TuneResult once = run(device, 40);
  FakeDevice again;
  const TuneResult twice = run(again, 40);
  EXPECT_EQ(again.measured, 0);
  EXPECT_EQ(twice.last.measured, 0);
  EXPECT_EQ(twice.last.trials, 40);
  EXPECT_EQ(twice.choices, once.choices);
}

TEST_P(TunerTuneLog, ResumesWhereItWasCut) {
  FakeDevice whole;
  const TuneResult expected = run(whole, 48);
  forget();
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
  EXPECT_EQ(log()->records({}).size(), 48u) << "each once";
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
  EXPECT_NE(result.notes[0].find("is not tuned: its untuned schedule is 'wrong result': out0[0] is 1"),
            std::string::npos)
      << result.notes[0];
  EXPECT_EQ(result.last.kernels[0].trials, 1);
  EXPECT_EQ(result.choices.count(tasks_[0].workload), 0u);
}

TEST_P(TunerTuneLog, StopsWhenToldAndKeepsAll) {
  FakeDevice device;
  const TuneResult result =
      run(device, 32, nullptr, [](const TuneProgress& progress) { return progress.measured < 20; });
  EXPECT_EQ(result.stopped, "interrupted");
  EXPECT_EQ(static_cast<int>(log()->records({}).size()), result.last.measured);
}

// Whole models whose time the test decides.
MeasureModel model_of(const std::function<double(const Choices&)>& time) {
  return [time](const std::vector<Choices>& variants, int, double) {
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

TEST_P(TunerTuneLog, TheWholeModelHasTheLastWord) {
  FakeDevice device;
  const TuneResult result =
      run(device, 32, model_of([](const Choices& choices) { return choices.empty() ? 1.0 : 1.1; }));
  EXPECT_TRUE(result.choices.empty()) << "kernels alone were faster, the model was not";
  EXPECT_EQ(result.model_ratio, 1);
  for (const KernelTask& task : tasks_) {
    const auto best = log()->best(task.workload, task.target.name, "", 1, "test");
    ASSERT_FALSE(best.empty());
    EXPECT_EQ(best[0].trace, task.untuned) << "what later builds take";
  }
}

// Two of three kernels that are faster alone are slower in the model, and all together: the one that gains
// stays.
TEST_F(TunerTuneThree, KernelsAreJudgedOneByOneInTheModel) {
  for (const char* unit : {"seconds", "simulated cycles"}) {
    forget();
    FakeDevice device;
    device.counts = unit;
    const std::string slower[] = {tasks_[0].workload, tasks_[2].workload};
    const TuneResult result = run(device, 48, model_of([&](const Choices& choices) {
                                    double time = 1;
                                    for (const auto& [workload, trace] : choices) {
                                      time += workload == slower[0] || workload == slower[1] ? 0.06 : -0.03;
                                    }
                                    return time;
                                  }));
    std::set<std::string> chosen;
    for (const auto& [workload, trace] : result.choices) chosen.insert(workload);
    EXPECT_EQ(chosen, std::set<std::string>{tasks_[1].workload}) << unit;
    EXPECT_NEAR(result.model_ratio, 0.97, 1e-9);
  }
}

// Where a model's constants lie is luck of some percent, in each draw another.
MeasureModel lucky_model(const std::function<double(const Choices&)>& time, uint64_t seed) {
  auto state = std::make_shared<uint64_t>(seed);
  return [time, state](const std::vector<Choices>& variants, int, double) {
    std::vector<Measurement> results;
    for (const Choices& choices : variants) {
      double luck = 0;  // normal enough: of 12 uniform ones
      for (int i = 0; i < 12; ++i) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        luck += static_cast<double>(*state >> 40) * 0x1p-24 - 0.5;
      }
      Measurement result;
      result.time.median = time(choices) * (1 + 0.015 * luck);
      result.time.count = 4;
      result.ratio = results.empty() ? 1 : result.time.median / results[0].time.median;
      results.push_back(result);
    }
    return results;
  };
}

TEST_F(TunerTune, LuckIsNotTakenForAGain) {
  int kept = 0, found = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    forget();
    FakeDevice device;
    kept += run(device, 12, lucky_model([](const Choices&) { return 1.0; }, seed)).choices.empty();
    forget();
    FakeDevice again;
    const auto faster = [](const Choices& choices) { return choices.empty() ? 1.0 : 0.95; };
    const TuneResult result = run(again, 12, lucky_model(faster, seed));
    found += !result.choices.empty() && std::fabs(result.model_ratio - 0.95) < 0.02;
  }
  EXPECT_GE(kept, 9) << "what makes no difference is not chosen";
  EXPECT_EQ(found, 10) << "5 percent are found";
}

TEST_F(TunerTune, AnExactDeviceIsAskedOnce) {
  FakeDevice device;
  device.counts = "simulated cycles";
  int models = 0;
  const TuneResult result = run(device, 32, [&](const std::vector<Choices>& variants, int, double) {
    models += static_cast<int>(variants.size());
    std::vector<Measurement> results(variants.size());
    for (size_t i = 0; i < variants.size(); ++i)
      results[i].ratio = 1 - 0.05 * static_cast<double>(variants[i].size());
    return results;
  });
  EXPECT_FALSE(result.choices.empty());
  std::set<std::pair<std::string, Trace>> once(device.seen.begin(), device.seen.end());
  EXPECT_EQ(once.size(), device.seen.size());
  EXPECT_EQ(models, 2 + 2) << "untuned, all, and all but one each: the last word is known";
}

TEST_F(TunerTune, AModelThatCannotBeMeasuredKeepsTheUntunedSchedules) {
  FakeDevice device;
  const TuneResult result = run(device, 32, [&](const std::vector<Choices>& variants, int, double) {
    std::vector<Measurement> results(variants.size());
    for (Measurement& one : results) {
      one.outcome = Outcome::Timeout;
      one.detail = "it was not done after 20000 ms";
    }
    return results;
  });
  EXPECT_TRUE(result.choices.empty());
  ASSERT_GE(result.notes.size(), 2u);
  EXPECT_EQ(result.notes[0], "a whole model is 'timeout': it was not done after 20000 ms");
  EXPECT_EQ(result.notes.back(), "the whole model could not be measured: the untuned schedules are kept");
}

TEST_F(TunerTune, ChoosesTheVariantThatTheModelLikes) {
  FakeDevice device;
  const std::string& disliked = tasks_[0].workload;
  Trace hated;
  const TuneResult alone = run(device, 32);
  ASSERT_TRUE(alone.choices.count(disliked));
  hated = alone.choices.at(disliked);
  forget();
  FakeDevice again;
  const TuneResult result = run(again, 32, model_of([&](const Choices& choices) {
                                  const auto found = choices.find(disliked);
                                  const double penalty =
                                      found != choices.end() && found->second == hated ? 0.5 : 0;
                                  return 1.0 - 0.1 * static_cast<double>(choices.size()) + penalty;
                                }));
  EXPECT_LT(result.model_ratio, 1);
  const auto found = result.choices.find(disliked);
  EXPECT_TRUE(found == result.choices.end() || found->second != hated);
}

// Devices and whole models that take a while, by a clock of the test.
class TunerTuneTime : public TunerTuneThree {
 protected:
  // A device on which each candidate takes so long.
  struct SlowDevice : FakeDevice {
    SlowDevice(double& clock, double each) : clock_(clock), each_(each) {}
    std::vector<Measurement> measure(const KernelTask& task, const Trace& incumbent,
                                     const std::vector<Trace>& traces, int rounds) override {
      for (const Trace& trace : traces) clock_ += each_ * (trace == incumbent ? 1 : slow_factor);
      return FakeDevice::measure(task, incumbent, traces, rounds);
    }
    double& clock_;
    const double each_;
    double slow_factor = 1;  // of all schedules but the incumbent
  };

  // A model that is the faster the more kernels are tuned, of which each variant takes so long.
  MeasureModel slow_model(double seconds) {
    return [this, seconds](const std::vector<Choices>& variants, int rounds, double left) {
      const double all = seconds * static_cast<double>(variants.size());
      clock_ += std::min(all, left);
      const auto time = [](const Choices& choices) { return 1 - 0.05 * static_cast<double>(choices.size()); };
      if (all <= left) return model_of(time)(variants, rounds, left);
      std::vector<Measurement> late(variants.size());
      for (Measurement& result : late) result.outcome = Outcome::Timeout;
      return late;
    };
  }

  TuneResult run_within(Measurer& device, double limit, const MeasureModel& model, double build_seconds) {
    const auto log = open_store(url_, RecordStore::Mode::Write);
    TuneOptions options;
    options.time_limit = limit;
    options.build = "test";
    options.clock = [this] { return clock_; };
    SessionModel whole = whole_model("model", tasks_);
    whole.measure = model;
    whole.build_seconds = build_seconds;
    const SessionResult session = tune_models(tasks_, {whole}, device, *log, options, nullptr);
    TuneResult result = session.models.at(0);
    result.notes.insert(result.notes.begin(), session.all.notes.begin(), session.all.notes.end());
    return result;
  }

  double clock_ = 1000;
};

TEST_F(TunerTuneTime, TheLimitHoldsAndTheModelIsDecided) {
  for (const char* unit : {"seconds", "simulated cycles"})
    for (const double each : {1.0, 3.0}) {
      forget();
      SlowDevice device(clock_, each);
      device.counts = unit;
      const TuneResult result = run_within(device, 60, slow_model(2), 2);
      EXPECT_LE(result.last.seconds, 60 + each) << unit;
      EXPECT_GT(result.last.seconds, 30) << unit << ": the time is used";
      EXPECT_EQ(result.stopped, "budget");
      EXPECT_LT(result.model_ratio, 1) << unit;
      EXPECT_GT(result.model_ratio, 0) << unit << ": it was decided";
      EXPECT_GT(result.last.trials, 3) << "more than the untuned schedules";
    }
}

// The pace of a kernel is that of its untuned schedule at first.
TEST_F(TunerTuneTime, TheLimitHoldsOnASimulatorWhoseCandidatesAreSlow) {
  for (const double limit : {40, 60, 90}) {
    forget();
    SlowDevice device(clock_, 1.5);
    device.counts = "simulated cycles";
    device.slow_factor = 4;
    const TuneResult result = run_within(device, limit, slow_model(2), 2);
    EXPECT_LE(result.last.seconds, limit + 4 * 1.5);
    EXPECT_GT(result.last.trials, 3) << "more than the untuned schedules";
    EXPECT_GT(result.model_ratio, 0) << "it was decided";
  }
}

// Each candidate takes longer than the time that is left after the first.
TEST_F(TunerTuneTime, KernelsThatTakeLittleAreLeftOutWhereTheTimeIsShort) {
  tasks_[0].predicted_seconds = 1e-6;
  tasks_[1].predicted_seconds = 8e-6;
  tasks_[2].predicted_seconds = 1e-6;
  SlowDevice device(clock_, 6);
  device.counts = "simulated cycles";
  const TuneResult result = run_within(device, 10, nullptr, 0);
  EXPECT_EQ(result.last.seconds, 6);
  ASSERT_EQ(device.seen.size(), 1u);
  EXPECT_EQ(device.seen[0].first, tasks_[1].workload) << "the one that takes most comes first";
  ASSERT_EQ(result.notes.size(), 2u);
  EXPECT_EQ(
      result.notes[0],
      "the time did not last to measure 2 of 3 kernels, which are predicted to take 20 % of the model's "
      "time: they stay untuned");
  EXPECT_EQ(result.notes[1],
            "only untuned schedules were measured, none was searched for: give more trials or time");
}

TEST_F(TunerTuneTime, AModelThatTakesTooLongIsNotWaitedFor) {
  SlowDevice device(clock_, 1);
  const TuneResult result = run_within(device, 60, slow_model(100), 0);
  EXPECT_LE(result.last.seconds, 61);
  EXPECT_EQ(result.model_ratio, 0);
  EXPECT_FALSE(result.choices.empty()) << "what each kernel found by itself";
  EXPECT_EQ(
      result.notes.back(),
      "the time did not last to measure the whole model: each kernel takes the schedule that was fastest "
      "when it was measured by itself; another call with the same log and more time goes on from here");
}

TEST_F(TunerTune, WhereNothingIsFasterThatIsTheReason) {
  FakeDevice device;
  for (const KernelTask& task : tasks_) device.fastest.insert(task.untuned);
  const TuneResult result = run(device, 24, model_of([](const Choices&) { return 1.0; }));
  EXPECT_EQ(result.notes.back(), "no schedule was faster than the untuned one: the untuned ones are kept");
  EXPECT_EQ(result.model_ratio, 0);
}

// Two models of three kernels, of which they share the middle one.
class TunerTuneModels : public TunerTuneThree {
 protected:
  void SetUp() override {
    TunerTuneThree::SetUp();
    models_ = {whole_model("a", {tasks_[0], tasks_[1]}), whole_model("b", {tasks_[1], tasks_[2]})};
  }
  SessionResult run_models(FakeDevice& device, int trials) {
    const auto log = open_store(url_, RecordStore::Mode::Write);
    TuneOptions options;
    options.trials = trials;
    options.build = "test";
    options.seed = 3;
    return tune_models(tasks_, models_, device, *log, options, nullptr);
  }
  // Whole models whose time each tuned schedule multiplies by `ratio`.
  static MeasureModel with_ratio(double ratio) {
    return [ratio](const std::vector<Choices>& variants, int, double) {
      std::vector<Measurement> results;
      for (const Choices& choices : variants) {
        results.emplace_back();
        results.back().ratio = std::pow(ratio, choices.size());
        results.back().time = {5, results.back().ratio, results.back().ratio, 0};
      }
      return results;
    };
  }
  Trace chosen(const KernelTask& task) const {
    RecordFilter filter;
    filter.workload = task.workload;
    for (const Record& record : log()->records(filter))
      if (record.chosen) return record.trace;
    ADD_FAILURE() << "nothing is chosen for " << task.label;
    return {};
  }

  std::vector<SessionModel> models_;
};

TEST_F(TunerTuneModels, SharedKernelsAreTunedOnce) {
  FakeDevice device;
  const SessionResult session = run_models(device, 48);
  EXPECT_EQ(session.all.last.trials, 48);
  EXPECT_EQ(session.all.last.measured, 48);
  EXPECT_EQ(log()->records({}).size(), 48u);
  ASSERT_EQ(session.models.size(), 2u);
  const KernelProgress& shared = session.models[0].last.kernels.at(1);
  EXPECT_EQ(shared.label, "a/" + tasks_[1].label);
  EXPECT_EQ(session.models[1].last.kernels.at(0).label, "b/" + tasks_[1].label);
  EXPECT_EQ(shared.trials, session.models[1].last.kernels.at(0).trials);
  EXPECT_EQ(session.models[0].last.trials + session.models[1].last.trials, 48 + shared.trials);
  EXPECT_EQ(session.models[0].last.measured + session.models[1].last.measured, 48 + shared.trials);
  for (const TuneResult& model : session.models) EXPECT_EQ(model.last.kernels.size(), 2u);
}

// A small model beside one that takes a thousand times as long.
TEST_F(TunerTuneModels, EachModelCountsAlike) {
  models_ = {whole_model("a", {tasks_[0]}), whole_model("b", {tasks_[2]})};
  models_[0].uses.at(tasks_[0].workload).calls = 1000;
  tasks_.erase(tasks_.begin() + 1);
  FakeDevice device;
  const SessionResult session = run_models(device, 60);
  for (const TuneResult& model : session.models) EXPECT_GT(model.last.trials, 8);
  forget();
  tasks_[0].calls = 1000;
  FakeDevice again;
  const TuneResult as_one = run(again, 60);
  EXPECT_EQ(as_one.last.kernels.at(1).trials, 1);
}

TEST_F(TunerTuneModels, ASharedKernelTakesTheScheduleOfTheFirstThatChoseOne) {
  const auto untuned = [&](size_t i) { return chosen(tasks_[i]) == tasks_[i].untuned; };
  for (const bool first : {true, false}) {
    forget();
    models_[first ? 0 : 1].measure = with_ratio(0.9);
    models_[first ? 1 : 0].measure = with_ratio(1.1);
    FakeDevice device;
    const SessionResult session = run_models(device, 60);
    EXPECT_NEAR(session.models[first ? 0 : 1].model_ratio, 0.9 * 0.9, 1e-9);
    EXPECT_FALSE(untuned(1));
    EXPECT_TRUE(untuned(first ? 2 : 0));
    const std::vector<std::string>& notes = session.models[1].notes;
    const std::string note =
        "1 kernels, which it shares with models before it, take the schedules chosen there";
    EXPECT_EQ(std::count(notes.begin(), notes.end(), note), first ? 1 : 0);
  }
}

}  // namespace
}  // namespace tc::testing
