// The order in which a block's instructions are listed, and the times from which passes choose it.
#include "codegen/llvm/pass_support/list_scheduler.h"

#include <gtest/gtest.h>

#include <vector>

namespace tc {
namespace {

using Places = std::vector<size_t>;
// 3 needs 2 and 0, in this order; 2 needs 1.
const std::vector<Places> kNeeds = {{}, {}, {1}, {2, 0}, {}};

TEST(ListScheduler, WhatAnInstructionNeedsComesBeforeIt) {
  ListScheduler scheduler(kNeeds);
  Places order;
  scheduler.list(3, order);
  EXPECT_EQ(order, Places({1, 2, 0, 3}));
  EXPECT_TRUE(scheduler.is_listed(0));
  EXPECT_FALSE(scheduler.is_listed(4));
  scheduler.list(2, order);
  EXPECT_EQ(order, Places({1, 2, 0, 3})) << "it is listed already";
}

TEST(ListScheduler, KeysDecideUnlessAnInstructionIsNeeded) {
  const auto order = [](const std::vector<double>& keys) {
    Places result;
    ListScheduler(kNeeds).list_by(keys, result);
    return result;
  };
  EXPECT_EQ(order({0, 1, 2, 3, 4}), Places({0, 1, 2, 3, 4}));
  EXPECT_EQ(order({0, 1, 2, 3, 0.5}), Places({0, 4, 1, 2, 3}));
  EXPECT_EQ(order({1, 1, 1, 1, 0}), Places({4, 0, 1, 2, 3})) << "equal keys leave the places";
  EXPECT_EQ(order({0, 1, 2, -1, 4}), Places({1, 2, 0, 3, 4})) << "its needs come with it";
}

TEST(CoreTimes, FollowTheRow) {
  Target core = parse_target("rv64gcv_zvl256b");
  const CoreTimes times(core);
  EXPECT_EQ(times.load(), 14);
  EXPECT_EQ(times.streamed_load(), 100);
  EXPECT_EQ(times.packed_load(), 24);
  EXPECT_EQ(times.result(), 5);
  core.l2_latency = 20;
  core.memory_latency = 120;
  EXPECT_EQ(times.load(), 22);
  EXPECT_EQ(times.streamed_load(), 150);
  EXPECT_EQ(times.packed_load(), 40);
  core.latency = 8;
  core.multiply_adds = 0.5;
  EXPECT_EQ(times.result(), 8);
  EXPECT_EQ(times.occupied(2), 4);
  EXPECT_EQ(times.operations_in_flight(1), 4);
  EXPECT_EQ(times.operations_in_flight(3), 2);
}

}  // namespace
}  // namespace tc
