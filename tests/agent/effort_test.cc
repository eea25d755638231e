// What single runs say of a sample's runs.
#include "runtime/agent/effort.h"

#include <gtest/gtest.h>

namespace tc::agent {
namespace {

// Problem of samples of 1000 runs that take so many seconds of processor time each, beside single runs of those
// of the candidate and of the agent.
std::string problem(double sample, const std::vector<std::pair<double, double>>& singles, int threads = 1,
                    double bytes = 0) {
  Effort effort(threads, bytes);
  for (int i = 0; i < 5; ++i) effort.add_sample(sample);
  for (const auto& [processor, agent] : singles) effort.add_single(processor, agent);
  return effort.problem(1000);
}

TEST(Effort, AMachineThatIsSlowToStartProcessesIsNoVerdict) {
  EXPECT_EQ(problem(5e-8, {{258e-6, 350e-6}, {318e-6, 340e-6}, {270e-6, 300e-6}}), "");
  EXPECT_EQ(problem(5e-8, {{120e-6, 40e-6}, {130e-6, 45e-6}, {120e-6, 45e-6}}), "");
  // One start that the agent got off lightly with is not enough.
  EXPECT_EQ(problem(5e-8, {{435e-6, 138e-6}, {430e-6, 320e-6}, {450e-6, 200e-6}}), "");
}

TEST(Effort, RunsThatWereLeftOutAreFound) {
  EXPECT_EQ(problem(5e-8, {{258e-6, 50e-6}, {270e-6, 50e-6}, {290e-6, 50e-6}}),
            "does not run as often as it is told: one run takes 258 us of processor time, of which its start and its "
            "data may have taken 150 us; each of 1000 takes 0 us");
  // Every second one, on a slow machine.
  EXPECT_NE(problem(3e-3, {{6.2e-3, 350e-6}, {6.1e-3, 350e-6}, {6.2e-3, 350e-6}}), "");
  EXPECT_EQ(problem(6e-3, {{6.2e-3, 350e-6}, {6.1e-3, 350e-6}, {6.2e-3, 350e-6}}), "");
}

TEST(Effort, WhatTheAgentNeedsExcusesAMillisecondAtMost) {
  EXPECT_NE(problem(1e-3, {{3e-3, 5}, {3e-3, 5}, {3e-3, 5}}), "");
  EXPECT_EQ(problem(1e-3, {{2e-3, 5}, {2e-3, 5}, {2e-3, 5}}), "");
}

TEST(Effort, ThreadsAreStartedEachAndDataIsFetched) {
  EXPECT_NE(problem(5e-8, {{500e-6, 60e-6}}), "");
  EXPECT_EQ(problem(5e-8, {{500e-6, 60e-6}}, 4), "");
  EXPECT_EQ(problem(5e-8, {{500e-6, 60e-6}}, 1, 1.6e6), "");
}

TEST(Effort, NothingMeasuredIsNoVerdict) {
  EXPECT_EQ(problem(5e-8, {}), "");
  EXPECT_EQ(Effort(1, 0).problem(1), "");
}

}  // namespace
}  // namespace tc::agent
