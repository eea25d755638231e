// Candidates that save work: none has a time. Beside them honest ones: all have one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "tests/agent/cheater.h"
#include "tests/agent/program.h"
#include "tests/agent/stage.h"
#include "tests/agent/work.h"

namespace tc::agent {
namespace {

constexpr double kLeast = 0.6;  // of what the work takes a processor: no cheater's time is below
// Nor an honest one's below this: a core whose other hardware thread is busy is 1.7 times as slow.
constexpr double kMinHonest = 0.4;
// Elements of a run on two threads, about 3 ms: of shorter ones the work can be shared unseen.
constexpr int64_t kMinHanded = 4096;
constexpr double kMinOfShared = 0.4;  // of two threads: each does a half

#define NAME(name) #name,
const std::vector<std::string>& cheat_names() {
  static const std::vector<std::string> names = {CHEATS(NAME)};
  return names;
}

// The work of work.h on so many elements, by candidates that behave so.
Batch batch_of(const std::string& program, const std::vector<int>& behaviours, int64_t count,
               double sample_seconds = 0.05, int rounds = 5, int threads = 1) {
  Batch batch;
  for (const int behaviour : behaviours) {
    const std::string bytes = candidate(behaviour, program);
    batch.executables.push_back(make_file(bytes.data(), static_cast<int64_t>(bytes.size())));
  }
  batch.inputs = {make_port("x", "f32", {count})};
  batch.outputs = {make_port("y", "f32", {count})};
  for (const uint64_t seed : {7, 8}) {
    std::vector<float> values(static_cast<size_t>(count)), due(static_cast<size_t>(count));
    fill_sample(batch.inputs[0], seed, 0, values.data());
    do_work(values.data(), due.data(), due.size());
    batch.data_sets.push_back({seed, {make_file(due.data(), 4 * count)}});
  }
  batch.tolerance = 1e-5;
  batch.rounds = rounds;
  batch.threads = threads;
  batch.sample_seconds = sample_seconds;
  batch.timeout_seconds = 20;
  batch.memory_bytes = 64 << 20;
  return batch;
}

class Cheaters : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && geteuid() != 0) GTEST_SKIP() << "only root can be an agent that is root";
  }
  uid_t user() const { return GetParam() || geteuid() != 0 ? geteuid() : kNobodyElse; }
};

// What the work takes a processor. Whoever else is on the machine, on the core's other hardware thread for
// one, makes it longer for a while, never shorter: the least of all that is measured is the nearest to it.
class WorkTime {
 public:
  explicit WorkTime(size_t count) : values_(count, 0.5f), results_(count) { measure(0.01); }

  double seconds() const { return std::isfinite(least_) ? least_ : rough_; }
  // So long a time was seen, of those who do all of the work.
  void take(double seconds) { least_ = std::min(least_, seconds); }
  // A run counts whose time by both clocks is the same. On a busy machine the wall clock goes on while others
  // run; from a thread's own clock a virtual machine takes what its host stole, at times all of a run of
  // 10 us.
  void measure(double seconds) {
    for (double gone = 0; gone < seconds;) {
      const double wall_begin = now_seconds(), begin = thread_seconds();
      do_work(values_.data(), results_.data(), values_.size());
      __asm__ volatile("" : : "r"(results_.data()) : "memory");
      const double took = thread_seconds() - begin, wall = now_seconds() - wall_begin;
      double& least = wall < 1.1 * took + 1e-6 ? least_ : rough_;
      least = std::min(least, took);
      gone += wall;
    }
  }
  // Whether who has this time may have done the work. Where it seems too short it is measured on, for 3 s:
  // what slowed this thread down passes, and what a cheater has gained stays.
  bool allows(double time, double share = kLeast) {
    for (int i = 0; i < 30 && time < share * seconds(); ++i) measure(0.1);
    return time >= share * seconds();
  }

 private:
  std::vector<float> values_, results_;
  double least_ = INFINITY;
  double rough_ = INFINITY;  // of runs that did not count
};

// All kinds of candidates, and between them, every few, an honest one.
std::vector<int> all_behaviours() {
  constexpr int kFew = 16;
  std::vector<int> behaviours;
  for (int cheat = 0; cheat < kCheats; ++cheat) {
    if (cheat != kHonest && cheat % kFew == 0) behaviours.push_back(kHonest);
    behaviours.push_back(cheat);
  }
  behaviours.push_back(kHonest);
  return behaviours;
}

// What the work takes, by the honest ones of a batch too, which all have a time. It is measured before, and
// once more now.
void take_honest(const Staged& staged, const std::vector<int>& behaviours, WorkTime& work) {
  for (const auto& [index, result] : staged.results) {
    if (behaviours[static_cast<size_t>(index)] != kHonest) continue;
    EXPECT_EQ(result.outcome, Outcome::Ok) << result.detail;
    if (result.samples.empty()) continue;
    EXPECT_GT(result.samples[0], kMinHonest * work.seconds()) << "an honest one";
    work.take(result.samples[0]);
  }
  work.measure(0.01);
}

// Of about 6 ms a run. One that works for as long as an honest one has a time: in another thread, or where
// the machine is so busy that a sample has one or two runs, which are told one by one.
TEST_P(Cheaters, NoneHasATime) {
  constexpr int64_t kCount = 8000;
  const Stage stage(user());
  const std::string program = stage.copy("tests/agent/cheater");
  const std::vector<int> behaviours = all_behaviours();
  WorkTime work(kCount);
  const Staged staged = stage.measure([&](pid_t) { return batch_of(program, behaviours, kCount, 0.1, 3); },
                                      [] { return make_native_runner(); });
  EXPECT_EQ(staged.failure, "");
  ASSERT_EQ(staged.results.size(), behaviours.size());
  take_honest(staged, behaviours, work);
  int refused = 0;
  for (const auto& [index, result] : staged.results) {
    const int cheat = behaviours[static_cast<size_t>(index)];
    const std::string& name = cheat_names()[static_cast<size_t>(cheat)];
    std::printf("%s: %-14s %s\n", GetParam() ? "root" : "user", name.c_str() + 1,
                result.outcome == Outcome::Ok ? (std::to_string(result.samples[0] * 1e6) + " us").c_str()
                                              : result.detail.c_str());
    if (cheat == kHonest) continue;
    EXPECT_EQ(result.outcome == Outcome::Ok, !result.samples.empty()) << name;
    if (!result.samples.empty()) {
      EXPECT_TRUE(work.allows(result.samples[0]))
          << name << " has " << result.samples[0] << " s, the work takes " << work.seconds();
    }
    refused += result.samples.empty();
  }
  EXPECT_GT(refused, kCheats / 2);
}

// Whatever the size: a run takes from 10 us to a third of a sample, with --full to five of them.
TEST_P(Cheaters, NoneGainsAtAnySize) {
  std::vector<int64_t> counts = GetParam() ? std::vector<int64_t>{16, 1024} : std::vector<int64_t>{128, 4096};
  if (std::getenv("TC_HONEST_CANDIDATES") != nullptr) counts = {16, 64, 256, 1024, 4096, 65536};
  const std::vector<int> behaviours = all_behaviours();
  for (const int threads : {1, 2})
    for (const int64_t count : counts) {
      // Only root's agent is sure to stop threads before they wait for more work.
      if (threads > 1 && !GetParam() && count < 4096) continue;
      const Stage stage(user());
      const std::string program = stage.copy("tests/agent/cheater");
      WorkTime work(static_cast<size_t>(count));
      const Staged staged =
          stage.measure([&](pid_t) { return batch_of(program, behaviours, count, 0.01, 3, threads); },
                        [] { return make_native_runner(); });
      EXPECT_EQ(staged.failure, "");
      ASSERT_EQ(staged.results.size(), behaviours.size());
      take_honest(staged, behaviours, work);
      double least = INFINITY;
      for (const auto& [index, result] : staged.results) {
        const int cheat = behaviours[static_cast<size_t>(index)];
        if (result.samples.empty()) continue;
        // What waking takes is excused, up to half of a short run that is handed from thread to thread.
        const double share = threads > 1 && count < kMinHanded ? kMinOfShared : kLeast;
        if (cheat != kHonest) least = std::min(least, result.samples[0]);
        EXPECT_TRUE(work.allows(result.samples[0], share))
            << cheat_names()[static_cast<size_t>(cheat)] << " of " << count << " elements on " << threads
            << " threads has " << result.samples[0] << " s, the work takes " << work.seconds();
      }
      std::printf("%s, %d threads, %lld elements, %.1f us: the shortest has %.2f of it\n",
                  GetParam() ? "root" : "user", threads, static_cast<long long>(count), work.seconds() * 1e6,
                  least / work.seconds());
    }
}

// Were the effort of single runs not held against samples, the test above would tell.
TEST_P(Cheaters, GainWithoutTheJudge) {
  constexpr int64_t kCount = 128;
  const Stage stage(user());
  const std::string program = stage.copy("tests/agent/cheater");
  const std::vector<int> behaviours = {kHonest, kLastTwo, kLastTwoAsleep, kLastTwoYielding};
  WorkTime work(kCount);
  const Staged staged = stage.measure(
      [&](pid_t) {
        Batch batch = batch_of(program, behaviours, kCount, 0.01, 3);
        batch.judges_effort = false;
        return batch;
      },
      [] { return make_native_runner(); });
  EXPECT_EQ(staged.failure, "");
  ASSERT_EQ(staged.results.size(), behaviours.size());
  take_honest(staged, behaviours, work);
  int gained = 0;
  for (const auto& [index, result] : staged.results)
    gained += index > 0 && !result.samples.empty() && result.samples[0] < kLeast * work.seconds();
  EXPECT_GE(gained, 1);
}

// Work handed from thread to thread, two runs at once: what one run takes alone is held against them.
TEST_P(Cheaters, NoneGainsByHandingOver) {
  const Stage stage(user());
  const std::string program = stage.copy("tests/agent/cheater");
  const std::vector<int> behaviours = {kHonest, kHandOver, kTwoAtOnce, kTwoAtOnceInSamples};
  for (const int64_t count : {kMinHanded}) {
    WorkTime work(static_cast<size_t>(count));
    for (const bool judged : {false, true}) {
      const Staged staged = stage.measure(
          [&](pid_t) {
            Batch batch = batch_of(program, behaviours, count, 0.01, 10, 2);
            batch.judges_effort = judged;
            return batch;
          },
          [] { return make_native_runner(); });
      EXPECT_EQ(staged.failure, "");
      ASSERT_EQ(staged.results.size(), behaviours.size());
      take_honest(staged, behaviours, work);
      for (const auto& [index, result] : staged.results) {
        if (result.samples.empty() || index == 0) continue;
        const char* name = cheat_names()[static_cast<size_t>(behaviours[static_cast<size_t>(index)])].c_str();
        std::printf("%s of %lld elements %s has %.2f of the work's time\n", name + 1,
                    static_cast<long long>(count), judged ? "judged" : "not judged",
                    result.samples[0] / work.seconds());
        if (judged) {
          EXPECT_TRUE(work.allows(result.samples[0])) << name;
        }
      }
    }
  }
}

// The bytes of paced_model.c with so many repetitions.
std::string paced_model(const std::string& path, long repeats) {
  std::string bytes = read_text(path);
  std::string digits = std::to_string(repeats);
  digits.insert(0, 8 - digits.size(), '0');
  bytes.replace(bytes.find("repeat:") + 7, 8, digits);
  return bytes;
}

// Batches of five honest candidates, of one kind each: of `number / 4` lengths from 10 ns to 100 ms a run.
Batch honest_batch(const std::string& cheater, const std::string& model, int number) {
  enum { Works, WorksOnTwo, Doubles, Model, ModelOnTwo, kKinds };
  const int kind = number % kKinds, length = number / kKinds;
  const bool is_model = kind == Model || kind == ModelOnTwo;
  const int64_t count = is_model ? 1000 : int64_t{kind == Doubles ? 4 : 2} << length * 3 % 13;
  const std::vector<int> behaviours(5, kind == Doubles ? kHonestDouble : kHonest);
  Batch batch = batch_of(cheater, behaviours, count, 0.01);
  batch.threads = kind == WorksOnTwo || kind == ModelOnTwo ? 2 : 1;
  if (kind == Works || kind == WorksOnTwo) return batch;
  for (Batch::DataSet& set : batch.data_sets) {
    std::vector<float> values(static_cast<size_t>(count));
    fill_sample(batch.inputs[0], set.seed, 0, values.data());
    for (float& value : values) value *= 2;
    set.expected = {make_file(values.data(), 4 * count)};
  }
  if (!is_model) return batch;
  const std::string bytes = paced_model(model, std::lround(std::pow(10.0, length * 5 % 27 * 0.22)));
  for (FilePtr& executable : batch.executables)
    executable = make_file(bytes.data(), static_cast<int64_t>(bytes.size()));
  return batch;
}

TEST_P(Cheaters, NoHonestOneIsRejected) {
  const char* full = std::getenv("TC_HONEST_CANDIDATES");
  const int number = full != nullptr ? std::atoi(full) : 75;
  const Stage stage(user());
  const std::string cheater = stage.copy("tests/agent/cheater"),
                    model = stage.copy("tests/agent/paced_model");
  int measured = 0;
  for (int i = 0; i < number / 5; ++i) {
    const Staged staged = stage.measure([&](pid_t) { return honest_batch(cheater, model, i); },
                                        [] { return make_native_runner(); });
    EXPECT_EQ(staged.failure, "");
    for (const auto& [candidate, result] : staged.results) {
      EXPECT_EQ(result.outcome, Outcome::Ok) << "batch " << i << ": " << result.detail;
      measured += result.outcome == Outcome::Ok;
    }
  }
  std::printf("%d honest candidates measured\n", measured);
  EXPECT_EQ(measured, number / 5 * 5);
}

// Threads that never rest take time from their own candidate alone: it is stopped while others are measured.
TEST_P(Cheaters, TakeNoTimeFromOthers) {
  const Stage stage(user());
  const std::string program = stage.copy("tests/agent/cheater");
  const auto honest_time = [&](const std::vector<int>& behaviours) {
    const Staged staged = stage.measure([&](pid_t) { return batch_of(program, behaviours, 1000); },
                                        [] { return make_native_runner(); });
    EXPECT_EQ(staged.results.size(), behaviours.size()) << staged.failure;
    const Result& honest = staged.results.at(0);
    EXPECT_EQ(honest.outcome, Outcome::Ok) << honest.detail;
    // The least: what else runs on the machine may hold one sample up.
    return honest.samples.empty() ? 0.0 : *std::min_element(honest.samples.begin(), honest.samples.end());
  };
  const double alone = honest_time({kHonest, kHonest, kHonest}),
               beside = honest_time({kHonest, kBusyBehind, kBusyBehind});
  EXPECT_LT(beside, 1.3 * alone) << "four threads beside it would take as much again";
  std::printf("an honest one takes %.1f us, %.1f us beside threads that never rest\n", alone * 1e6,
              beside * 1e6);
}

INSTANTIATE_TEST_SUITE_P(Agents, Cheaters, testing::Bool(),
                         [](const auto& info) { return info.param ? "Root" : "User"; });

}  // namespace
}  // namespace tc::agent
