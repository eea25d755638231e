// Candidates that save work: none has a time. Beside them honest ones: all have one.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/agent/cheater.h"
#include "tests/agent/program.h"
#include "tests/agent/stage.h"
#include "tests/agent/work.h"

namespace tc::agent {
namespace {

#define NAME(name) #name,
const std::vector<std::string>& cheat_names() {
  static const std::vector<std::string> names = {CHEATS(NAME)};
  return names;
}

// The work of work.h on so many elements, by candidates that behave so.
Batch batch_of(const std::string& program, const std::vector<int>& behaviours, int64_t count, double sample_seconds = 0.05) {
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
  batch.rounds = 5;
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

// Of about 6 ms a run: one that leaves out every second run is found from 3.5 times the allowance for waking on.
TEST_P(Cheaters, NoneHasATime) {
  const Stage stage(user());
  const std::string program = stage.copy("tests/agent/cheater");
  std::vector<int> behaviours;
  for (int cheat = 0; cheat < kCheats; ++cheat) behaviours.push_back(cheat);
  const Staged staged =
      stage.measure([&](pid_t) { return batch_of(program, behaviours, 8000, 0.1); }, [] { return make_native_runner(); });
  EXPECT_EQ(staged.failure, "");
  ASSERT_EQ(staged.results.size(), behaviours.size());
  for (const auto& [cheat, result] : staged.results) {
    const std::string& name = cheat_names()[static_cast<size_t>(cheat)];
    std::printf("%s: %-14s %s\n", GetParam() ? "root" : "user", name.c_str() + 1,
                result.outcome == Outcome::Ok ? (std::to_string(result.samples[0] * 1e6) + " us").c_str()
                                              : result.detail.c_str());
    if (cheat == kHonest) {
      EXPECT_EQ(result.outcome, Outcome::Ok) << result.detail;
      continue;
    }
    // These do all the work in another thread: where the agent reads an early answer late, or the thread shares
    // the only processor, their time is none too short.
    if ((cheat == kEarlyReply || cheat == kAhead) && !result.samples.empty()) {
      EXPECT_GT(result.samples[0], 0.8 * staged.results.at(kHonest).samples.at(0));
      continue;
    }
    EXPECT_NE(result.outcome, Outcome::Ok) << name;
    EXPECT_TRUE(result.samples.empty()) << name;
  }
}

// Of all sizes, so that a run takes from a part of a microsecond to several samples.
TEST_P(Cheaters, NoHonestOneIsRejected) {
  const char* full = std::getenv("TC_HONEST_CANDIDATES");
  const int number = full != nullptr ? std::atoi(full) : 20;
  int measured = 0;
  for (int i = 0; i < number; i += 5) {
    const int64_t count = int64_t{1} << (i / 5 * 3 % 13 + 1);
    const Stage stage(user());
    const std::string program = stage.copy("tests/agent/cheater");
    const Staged staged = stage.measure(
        [&](pid_t) { return batch_of(program, {kHonest, kHonest, kHonest, kHonest, kHonest}, count); },
        [] { return make_native_runner(); });
    for (const auto& [candidate, result] : staged.results) {
      EXPECT_EQ(result.outcome, Outcome::Ok) << count << ": " << result.detail;
      measured += result.outcome == Outcome::Ok;
    }
  }
  std::printf("%d honest candidates measured\n", measured);
  EXPECT_EQ(measured, number);
}

// Threads that never rest take time from their own candidate alone: it is stopped while others are measured.
TEST_P(Cheaters, TakeNoTimeFromOthers) {
  const Stage stage(user());
  const std::string program = stage.copy("tests/agent/cheater");
  const auto honest_time = [&](const std::vector<int>& behaviours) {
    const Staged staged = stage.measure([&](pid_t) { return batch_of(program, behaviours, 1000); }, [] { return make_native_runner(); });
    EXPECT_EQ(staged.results.size(), behaviours.size()) << staged.failure;
    const Result& honest = staged.results.at(0);
    EXPECT_EQ(honest.outcome, Outcome::Ok) << honest.detail;
    return honest.samples.empty() ? 0.0 : honest.samples[0];
  };
  const double alone = honest_time({kHonest, kHonest, kHonest}), beside = honest_time({kHonest, kBusyBehind, kBusyBehind});
  EXPECT_LT(beside, 1.3 * alone) << "four threads beside it would take as much again";
  std::printf("an honest one takes %.1f us, %.1f us beside threads that never rest\n", alone * 1e6, beside * 1e6);
}

INSTANTIATE_TEST_SUITE_P(Agents, Cheaters, testing::Bool(),
                         [](const auto& info) { return info.param ? "Root" : "User"; });

}  // namespace
}  // namespace tc::agent
