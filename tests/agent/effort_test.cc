// What single runs say of a sample's runs.
#include "runtime/agent/effort.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tc::agent {
namespace {

// A single run beside the agent, of one thread.
OneProcessorRun single(double processor, double agent = 8e-6) {
  OneProcessorRun run;
  run.processor = run.busiest = processor;
  run.agent = agent;
  run.beside = run.goes_first = true;
  return run;
}

// The same where agent and candidate had processors of their own.
OneProcessorRun away(double processor, double agent) {
  OneProcessorRun run = single(processor, agent);
  run.beside = false;
  return run;
}

// With samples of runs of so many seconds, by the clock and by the processors.
Effort effort_of(double seconds, double processor, const std::vector<OneProcessorRun>& singles,
                 int threads = 1, double bytes = 0) {
  Effort effort(threads, bytes);
  for (int i = 0; i < 5; ++i) effort.add_sample(seconds, processor);
  for (const OneProcessorRun& run : singles) effort.add_one_processor(run);
  return effort;
}

std::string problem(double sample, const std::vector<OneProcessorRun>& singles, int threads = 1,
                    double bytes = 0) {
  return effort_of(sample, sample, singles, threads, bytes).problem(1000);
}

TEST(Effort, AMachineThatIsSlowToWakeProcessesIsNoVerdict) {
  EXPECT_EQ(problem(5e-8, {away(258e-6, 350e-6), away(318e-6, 340e-6), away(270e-6, 300e-6)}), "");
  EXPECT_EQ(problem(5e-8, {away(120e-6, 0), away(130e-6, 0), away(120e-6, 0)}), "");
  // Single runs in which the agent got off lightly are not enough for a verdict.
  EXPECT_EQ(problem(5e-8, {away(435e-6, 138e-6), away(430e-6, 320e-6), away(450e-6, 90e-6)}), "");
  // On one processor the agent needs twice what the candidate does, whatever the machine does.
  EXPECT_EQ(problem(5e-8, {single(18e-6, 36e-6), single(9e-6, 17e-6), single(4e-6, 8e-6)}), "");
}

TEST(Effort, RunsThatWereLeftOutAreFound) {
  EXPECT_EQ(
      problem(0.8e-8, {single(138e-6), single(139e-6), single(151e-6)}),
      "does not run as often as it is told: one run takes 134 us of processor time, without waking it and fetching its "
      "data; each of 1000 takes 0.01 us");
  // Every second one.
  EXPECT_NE(problem(3e-3, {single(6.2e-3), single(6.1e-3), single(6.2e-3)}), "");
  EXPECT_NE(problem(3e-3, {away(6.2e-3, 350e-6), away(6.1e-3, 350e-6), away(6.2e-3, 350e-6)}), "");
  EXPECT_EQ(problem(6e-3, {single(6.2e-3), single(6.1e-3), single(6.2e-3)}), "");
}

// Kernels that branch on their data learn what is the same again and again.
TEST(Effort, ShortRunsThatTakeLongerOnNewDataAreGivenThatTime) {
  const Effort effort = effort_of(20e-6, 20e-6, {single(44e-6), single(45e-6), single(44e-6)});
  EXPECT_EQ(effort.problem(1000), "");
  EXPECT_TRUE(effort.needs_more());
  EXPECT_NEAR(effort.least_seconds(), 0.8 * 40e-6, 1e-9);
  EXPECT_FALSE(effort_of(40e-6, 40e-6, {single(44e-6)}).needs_more());
}

// By a clock that stood still, for one.
TEST(Effort, OneSingleRunThatTookNoTimeExcusesNothing) {
  const Effort effort = effort_of(20e-6, 20e-6, {single(44e-6), single(4e-6), single(44e-6)});
  EXPECT_EQ(effort.problem(1000), "");
  EXPECT_TRUE(effort.needs_more());
  EXPECT_NEAR(effort.least_seconds(), 0.8 * 40e-6, 1e-9);
}

TEST(Effort, OneSingleRunThatTookLongIsNoVerdict) {
  EXPECT_EQ(problem(10e-6, {single(900e-6), single(14e-6), single(900e-6)}), "");
  // Nor does one excuse that the agent was held up in.
  EXPECT_NE(problem(10e-6, {single(140e-6, 300e-6), single(140e-6), single(141e-6)}), "");
}

TEST(Effort, AThreadThatOnlySpinsIsNoWork) {
  OneProcessorRun serial = single(4.2e-3);
  EXPECT_NE(effort_of(2.1e-3, 4.2e-3, {serial, serial, serial}, 2).problem(10), "");
  OneProcessorRun halved = serial;
  halved.busiest = 2.1e-3;
  EXPECT_EQ(effort_of(2.1e-3, 4.2e-3, {halved, halved, halved}, 2).problem(10), "");
}

TEST(Effort, ThreadsThatWaitForEachOtherOnOneProcessorAreNoWork) {
  OneProcessorRun run = single(24e-6);
  run.busiest = 12.5e-6;
  run.switches = 5;
  EXPECT_EQ(effort_of(3e-6, 6e-6, {run, run, run}, 2).problem(1000), "");
  EXPECT_LT(effort_of(3e-6, 6e-6, {run, run, run}, 2).least_seconds(), 3e-6);
  // Where the agent has to wait until they sleep, so much more.
  OneProcessorRun late = run;
  late.busiest = 107e-6, late.processor = 121e-6, late.goes_first = false;
  EXPECT_EQ(effort_of(3e-6, 6e-6, {late, late, late}, 2).least_seconds(), 0);
  // Who waits a thousand times is not excused for all of his time.
  OneProcessorRun patient = single(4e-3);
  patient.switches = 1000;
  EXPECT_GT(effort_of(1e-3, 2e-3, {patient, patient, patient}, 2).least_seconds(), 2e-3);
}

// Two threads that share 4 ms of work: at once, or one behind the other.
TEST(Effort, ARunOnAllProcessorsTellsThreadsThatWorkAtOnceFromThoseThatHandOver) {
  OneProcessorRun halved = single(4e-3);
  halved.busiest = 2e-3;
  for (const bool hands_over : {false, true}) {
    Effort effort = effort_of(2e-3, 4e-3, {halved, halved, halved}, 2);
    EXPECT_TRUE(effort.needs_all_processors());
    effort.add_all_processors({hands_over ? 4.05e-3 : 2.05e-3, 20e-6, 10e-6});
    EXPECT_EQ(effort.needs_all_processors(), hands_over);
    // Neither is refused: the wall's clock depends on who else is on the machine.
    EXPECT_EQ(effort.problem(10), "");
    EXPECT_NEAR(effort.least_seconds(), hands_over ? 0.8 * 3.96e-3 : 0.8 * 2e-3, 2e-5);
    if (!hands_over) continue;
    // One that got through is enough for an honest one on a busy machine.
    effort.add_all_processors({2.1e-3, 20e-6, 10e-6});
    EXPECT_FALSE(effort.needs_all_processors());
    EXPECT_LT(effort.least_seconds(), 2e-3);
  }
}

TEST(Effort, AllProcessorsRunsAreAskedOfThoseThatAreFasterThanOneThread) {
  EXPECT_FALSE(effort_of(4e-3, 4e-3, {single(4e-3)}, 2).needs_all_processors());
  EXPECT_FALSE(effort_of(2e-3, 4e-3, {single(4e-3)}, 1).needs_all_processors());
  EXPECT_FALSE(effort_of(2e-3, 4e-3, {}, 2).needs_all_processors());
  Effort slow = effort_of(2e-3, 4e-3, {single(4e-3)}, 2);
  for (size_t i = 0; i < Effort::kMaxAllProcessorsRuns; ++i) {
    EXPECT_TRUE(slow.needs_all_processors());
    slow.add_all_processors({4e-3, 0, 0});
  }
  EXPECT_FALSE(slow.needs_all_processors());
}

// A command of no run may be drawn out to be excused for much: for what waking takes on the slowest machines,
// and no more.
TEST(Effort, WhatWakingIsExcusedForIsBounded) {
  const auto least = [](double wake, double agent) {
    Effort effort = effort_of(2e-3, 4e-3, {single(1e-6)}, 2);
    effort.add_all_processors({4e-3, wake, agent});
    return effort.least_seconds();
  };
  EXPECT_NEAR(least(10e-6, 50e-6), 0.8 * 3.95e-3, 1e-9);
  EXPECT_NEAR(least(3e-3, 50e-6), 0.8 * 3.6e-3, 1e-9);
  EXPECT_NEAR(least(3e-3, 5), 0.8 * 2.7e-3, 1e-9);
}

TEST(Effort, WhatTheAgentNeedsExcusesAMillisecondAtMost) {
  EXPECT_NE(problem(1e-3, {away(2.6e-3, 5), away(2.6e-3, 5), away(2.6e-3, 5)}), "");
  EXPECT_EQ(problem(1e-3, {away(2.5e-3, 5), away(2.5e-3, 5), away(2.5e-3, 5)}), "");
  EXPECT_NEAR(effort_of(1e-3, 1e-3, {single(130e-6, 5)}).least_seconds(), 0.8 * 100e-6, 1e-9);
}

TEST(Effort, ThreadsAreWokenEachAndDataIsFetched) {
  EXPECT_NE(problem(5e-8, {away(500e-6, 60e-6)}), "");
  EXPECT_EQ(problem(5e-8, {away(500e-6, 60e-6)}, 3), "");
  EXPECT_EQ(problem(5e-8, {single(500e-6)}, 1, 2e6), "");
}

TEST(Effort, NothingMeasuredIsNoVerdict) {
  EXPECT_EQ(problem(5e-8, {}), "");
  EXPECT_EQ(effort_of(5e-8, 5e-8, {}).least_seconds(), 0);
  Effort without_samples(1, 0);
  without_samples.add_one_processor(single(1));
  EXPECT_EQ(without_samples.problem(1), "");
  EXPECT_FALSE(without_samples.needs_more());
}

}  // namespace
}  // namespace tc::agent
