// The arena's plan for random lives and sizes: no two blocks that live together overlap.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "frontend/pipeline/memory_plan.h"

namespace tc {
namespace {

struct Placed {
  int64_t begin, end;
};

// Checks the plan with the symbols bound; returns the largest sum of bytes that live at one step.
int64_t check(const std::vector<LiveBlock>& blocks, const Dim& total,
              const std::map<std::string, int64_t>& symbols) {
  std::vector<Placed> placed;
  for (const LiveBlock& block : blocks) {
    const int64_t begin = block.offset.evaluate(symbols);
    placed.push_back({begin, begin + block.bytes.evaluate(symbols)});
    EXPECT_GE(begin, 0);
    EXPECT_EQ(begin % 64, 0);
    EXPECT_LE(placed.back().end, total.evaluate(symbols));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool together =
          std::max(blocks[i].first, blocks[j].first) <= std::min(blocks[i].last, blocks[j].last);
      const bool overlap =
          std::max(placed[i].begin, placed[j].begin) < std::min(placed[i].end, placed[j].end);
      EXPECT_FALSE(together && overlap) << "blocks " << j << " and " << i;
    }
  }
  int64_t largest = 0;
  for (int step = 0; step < 64; ++step) {
    int64_t live = 0;
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].first <= step && step <= blocks[i].last) live += placed[i].end - placed[i].begin;
    }
    largest = std::max(largest, live);
  }
  return largest;
}

std::vector<LiveBlock> random_blocks(std::mt19937& random, bool symbolic) {
  std::vector<LiveBlock> blocks(2 + random() % 30);
  for (LiveBlock& block : blocks) {
    block.name = "b";
    const int64_t units = 1 + static_cast<int64_t>(random() % 40);
    block.bytes = Dim(random() % 4 ? 64 * units : units);
    if (symbolic && random() % 3 == 0) block.bytes = Dim::symbol(random() % 2 ? "n" : "m") * (4 * units);
    block.first = static_cast<int>(random() % 40);
    block.last = block.first + static_cast<int>(random() % 8);
  }
  return blocks;
}

TEST(MemoryPlan, BlocksThatLiveTogetherAreApart) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<LiveBlock> blocks = random_blocks(random, false);
    const Dim total = plan_memory(blocks);
    const int64_t largest = check(blocks, total, {});
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
    EXPECT_LE(total.constant(), 2 * largest + 64 * static_cast<int64_t>(blocks.size())) << "round " << round;
  }
}

// Largest first alone would put the short block behind the two long ones that are in use beside it.
TEST(MemoryPlan, AnotherOrderIsTriedWhereLargestFirstWastes) {
  std::vector<LiveBlock> blocks(6);
  for (int i = 0; i < 6; ++i) {
    LiveBlock& block = blocks[static_cast<size_t>(i)];
    block.bytes = Dim(i == 4 ? 8 : 128);
    block.first = i;
    block.last = i + 1;
  }
  EXPECT_EQ(plan_memory(blocks), Dim(256));
}

TEST(MemoryPlan, SymbolicBlocksToo) {
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    std::vector<LiveBlock> blocks = random_blocks(random, true);
    const Dim total = plan_memory(blocks);
    for (int64_t n : {1, 3, 1000}) {
      for (int64_t m : {1, 17}) check(blocks, total, {{"n", n}, {"m", m}});
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
  }
}

// What a kernel works in takes what dead values leave: it moves no value, and the arena grows by no more than
// the largest of it.
TEST(MemoryPlan, ScratchMemoryTakesWhatValuesLeave) {
  std::mt19937 random(7);
  int inside = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<LiveBlock> values = random_blocks(random, round % 2 == 0);
    std::vector<LiveBlock> alone = values, all = values;
    const Dim without = plan_memory(alone);
    int64_t most = 0;
    for (int step = 0; step < 40; step += 3) {
      LiveBlock block;
      block.bytes = Dim(64 * (1 + static_cast<int64_t>(random() % 8)));
      block.first = block.last = step;
      block.scratch = true;
      most = std::max(most, block.bytes.constant());
      all.insert(all.begin(), block);  // wherever it comes in the list
    }
    const Dim with = plan_memory(all);
    const std::map<std::string, int64_t> symbols = {{"n", 3}, {"m", 17}};
    check(all, with, symbols);
    EXPECT_LE(with.evaluate(symbols), without.evaluate(symbols) + most);
    if (with == without) ++inside;
    for (size_t i = 0; i < alone.size(); ++i) {
      const LiveBlock& other = all[all.size() - alone.size() + i];
      if (!alone[i].bytes.is_constant()) continue;  // behind all of constant size
      EXPECT_EQ(alone[i].offset.constant(), other.offset.constant());
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << "round " << round;
  }
  EXPECT_GT(inside, 30);
}

TEST(MemoryPlan, LifeAfterLifeSharesMemory) {
  std::vector<LiveBlock> blocks(3);
  for (int i = 0; i < 3; ++i) {
    blocks[static_cast<size_t>(i)].bytes = Dim(1000);
    blocks[static_cast<size_t>(i)].first = i;
    blocks[static_cast<size_t>(i)].last = i + 1;
  }
  EXPECT_EQ(plan_memory(blocks).constant(), 2048);
  EXPECT_EQ(blocks[0].offset.constant(), blocks[2].offset.constant());
}

// More than are compared with each other; those of even number have symbolic sizes where told to.
std::vector<LiveBlock> many_blocks(std::mt19937& random, bool symbolic) {
  std::vector<LiveBlock> blocks(10'000);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto units = static_cast<int64_t>(random() % 40);
    blocks[i].bytes = symbolic && i % 2 == 0 ? Dim::symbol(random() % 2 ? "n" : "m") * (4 * (1 + units % 3))
                                             : Dim(units * 40);
    blocks[i].first = static_cast<int>(random() % 5000);
    blocks[i].last = blocks[i].first + static_cast<int>(random() % 12);
    blocks[i].scratch = random() % 5 == 0;
  }
  return blocks;
}

TEST(MemoryPlan, ManyBlocksThatLiveTogetherAreApart) {
  std::mt19937 random(8);
  for (const bool symbolic : {false, true}) {
    std::vector<LiveBlock> blocks = many_blocks(random, symbolic);
    const Dim total = plan_memory(blocks);
    const std::map<std::string, int64_t> symbols = {{"n", 3}, {"m", 17}};
    std::vector<std::vector<size_t>> live(6000);  // by step
    for (size_t i = 0; i < blocks.size(); ++i) {
      EXPECT_EQ(blocks[i].offset.evaluate(symbols) % 64, 0);
      EXPECT_LE(blocks[i].offset.evaluate(symbols) + blocks[i].bytes.evaluate(symbols),
                total.evaluate(symbols));
      for (int step = blocks[i].first; step <= blocks[i].last; ++step)
        live[static_cast<size_t>(step)].push_back(i);
    }
    int64_t most = 0;
    for (std::vector<size_t>& together : live) {
      std::sort(together.begin(), together.end(), [&](size_t a, size_t b) {
        return blocks[a].offset.evaluate(symbols) < blocks[b].offset.evaluate(symbols);
      });
      int64_t end = 0, bytes = 0;
      for (size_t i : together) {
        const int64_t size = blocks[i].bytes.evaluate(symbols);
        if (size == 0) continue;
        EXPECT_GE(blocks[i].offset.evaluate(symbols), end) << "block " << i;
        end = blocks[i].offset.evaluate(symbols) + size;
        bytes += (size + 63) / 64 * 64;
      }
      most = std::max(most, bytes);
    }
    EXPECT_LE(total.evaluate(symbols), 2 * most) << "little memory is wasted";
  }
}

}  // namespace
}  // namespace tc
