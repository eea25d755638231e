// What single runs say of a sample's runs.
#include "runtime/agent/effort.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tc::agent {
namespace {

// The problem with samples of 1000 runs of so many seconds of processor time each. `singles`: processor seconds of the
// candidate and of the agent, of each single run.
std::string problem(double sample, const std::vector<std::pair<double, double>>& singles, int threads = 1,
                    double bytes = 0) {
  Effort effort(threads, bytes);
  for (int i = 0; i < 5; ++i) effort.add_sample(sample);
  for (const auto& [processor, agent] : singles) effort.add_single(processor, agent);
  return effort.problem(1000);
}

TEST(Effort, AMachineThatIsSlowToWakeProcessesIsNoVerdict) {
  EXPECT_EQ(problem(5e-8, {{258e-6, 350e-6}, {318e-6, 340e-6}, {270e-6, 300e-6}}), "");
  EXPECT_EQ(problem(5e-8, {{120e-6, 0}, {130e-6, 0}, {120e-6, 0}}), "");
  // Single runs in which the agent got off lightly are not enough for a verdict.
  EXPECT_EQ(problem(5e-8, {{435e-6, 138e-6}, {430e-6, 320e-6}, {450e-6, 90e-6}}), "");
}

TEST(Effort, RunsThatWereLeftOutAreFound) {
  EXPECT_EQ(problem(5e-8, {{358e-6, 50e-6}, {370e-6, 50e-6}, {390e-6, 50e-6}}),
            "does not run as often as it is told: one run takes 358 us of processor time, of which waking it and fetching "
            "its data may have taken 250 us; each of 1000 takes 0.05 us");
  // Every second one, on a machine that is slow to wake processes.
  EXPECT_NE(problem(3e-3, {{6.2e-3, 350e-6}, {6.1e-3, 350e-6}, {6.2e-3, 350e-6}}), "");
  EXPECT_EQ(problem(6e-3, {{6.2e-3, 350e-6}, {6.1e-3, 350e-6}, {6.2e-3, 350e-6}}), "");
}

TEST(Effort, WhatTheAgentNeedsExcusesAMillisecondAtMost) {
  EXPECT_NE(problem(1e-3, {{2.6e-3, 5}, {2.6e-3, 5}, {2.6e-3, 5}}), "");
  EXPECT_EQ(problem(1e-3, {{2.5e-3, 5}, {2.5e-3, 5}, {2.5e-3, 5}}), "");
}

TEST(Effort, ThreadsAreWokenEachAndDataIsFetched) {
  EXPECT_NE(problem(5e-8, {{500e-6, 60e-6}}), "");
  EXPECT_EQ(problem(5e-8, {{500e-6, 60e-6}}, 3), "");
  EXPECT_EQ(problem(5e-8, {{500e-6, 60e-6}}, 1, 1.6e6), "");
}

TEST(Effort, NothingMeasuredIsNoVerdict) {
  EXPECT_EQ(problem(5e-8, {}), "");
  Effort without_samples(1, 0);
  without_samples.add_single(1, 0);
  EXPECT_EQ(without_samples.problem(1), "");
}

}  // namespace
}  // namespace tc::agent
