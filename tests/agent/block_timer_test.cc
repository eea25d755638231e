// The timer of blocks against the core that executes the same instructions one by one.
#include "runtime/qemu/block_timer.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "runtime/qemu/recording.h"

namespace tc::qemu {
namespace {

struct Block {
  std::vector<Instruction> instructions;
};

// Words of loads, stores, sums, products, divisions, vectors of several types, and branches.
Instruction random_instruction(std::mt19937& random) {
  static constexpr uint32_t kWords[] = {
      0x00b50533,  // add a0, a0, a1
      0x02b50533,  // mul a0, a0, a1
      0x02b54533,  // div a0, a0, a1
      0x0005a507,  // flw fa0, 0(a1)
      0x00a5a027,  // fsw fa0, 0(a1)
      0x0005b503,  // ld a0, 0(a1)
      0x10b57553,  // fmul.s fa0, fa0, fa1
      0x18b57553,  // fdiv.s fa0, fa0, fa1
      0x0d0572d7,  // vsetvli t0, a0, e32, m1, ta, ma
      0x0d2572d7,  // vsetvli t0, a0, e32, m4, ta, ma
      0x02056407,  // vle32.v v8, (a0)
      0x02056427,  // vse32.v v8, (a0)
      0x02849457,  // vfadd.vv v8, v8, v9
      0xb2c41457,  // vfmacc.vv v8, v8, v12
  };
  const uint32_t word = kWords[random() % std::size(kWords)];
  // Some read and write other registers.
  return decode(word ^ (random() % 4) << 7, 4);
}

bool accesses_memory(const Instruction& instruction) {
  return instruction.kind == Class::kScalarLoad || instruction.kind == Class::kScalarStore ||
         instruction.kind == Class::kVectorLoad || instruction.kind == Class::kVectorStore;
}

CycleOptions options_of(const CoreRow& row) {
  CycleOptions options;
  options.core = &row;
  options.vector_bits = row.vector_bits;
  options.datapath_bits = row.datapath_bits;
  options.has_cache = true;
  return options;
}

// Lines of which so many fit into the caches, so that there are hits, misses and lines under way.
std::vector<LineAccess> random_lines(const Block& block, std::mt19937& random, uint64_t different) {
  std::vector<LineAccess> lines;
  for (uint32_t i = 0; i < block.instructions.size(); ++i)
    for (uint64_t k = accesses_memory(block.instructions[i]) ? random() % 4 : 0; k > 0; --k)
      lines.push_back({i, random() % different});
  return lines;
}

TEST(BlockTimer, HasTheCyclesOfTheCoreOneByOne) {
  for (const CoreRow& row : kRiscvCores) {
    for (const uint64_t different : {20, 700, 20000}) {
      std::mt19937 random(5);
      std::vector<Block> blocks(6);
      for (Block& block : blocks)
        for (uint64_t i = 0; i < 3 + random() % 60; ++i)
          block.instructions.push_back(random_instruction(random));
      // Of a branch, which ends a block, it matters where it goes.
      for (size_t i = 0; i < 4; ++i)
        blocks[i].instructions.push_back(decode(i % 2 == 0 ? 0x00051463 : 0xfe051ce3, 4));  // bnez a0, ±8
      BlockTimer timer(options_of(row));
      Core core(options_of(row));
      for (int step = 0; step < 20000; ++step) {
        const size_t number = random() % 8 < 6 ? static_cast<size_t>(step / 50) % 6 : random() % 6;
        const Block& block = blocks[number];
        const std::vector<LineAccess> lines = random_lines(block, random, different);
        const bool is_taken = random() % 4 > 0;
        timer.execute(number, block.instructions, lines, is_taken);
        std::span<const LineAccess> rest = lines;
        for (uint32_t i = 0; i < block.instructions.size(); ++i) {
          size_t own = 0;
          while (own < rest.size() && rest[own].instruction == i) ++own;
          core.execute(block.instructions[i], rest.first(own),
                       is_taken && i + 1 == block.instructions.size());
          rest = rest.subspan(own);
        }
        ASSERT_EQ(timer.cycles(), core.cycles()) << row.name << ", step " << step;
        ASSERT_EQ(timer.last_issue(), core.last_issue()) << row.name << ", step " << step;
        if (step % 1000 == 999) {
          // One that is timed by itself.
          const Instruction alone = random_instruction(random);
          timer.core().execute(alone, {}, false);
          core.execute(alone, {}, false);
        }
      }
      EXPECT_EQ(timer.first_level_misses(), core.first_level_misses());
      EXPECT_EQ(timer.second_level_misses(), core.second_level_misses());
    }
  }
}

TEST(Recording, GivesBackWhatItGot) {
  Recording* recording = Recording::make();
  ASSERT_NE(recording, nullptr);
  const std::vector<LineAccess> some = {{0, 7}, {3, UINT32_MAX}};
  EXPECT_TRUE(recording->add(2, true, some));
  EXPECT_TRUE(recording->add(5, false, {}));
  std::vector<size_t> blocks;
  recording->replay([&](size_t block, bool is_taken, std::span<const LineAccess> lines) {
    blocks.push_back(block);
    EXPECT_EQ(is_taken, block == 2);
    ASSERT_EQ(lines.size(), block == 2 ? 2u : 0u);
    for (size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(lines[i].instruction, some[i].instruction);
      EXPECT_EQ(lines[i].line, some[i].line);
    }
  });
  EXPECT_EQ(blocks, (std::vector<size_t>{2, 5}));
  const std::vector<LineAccess> far = {{0, uint64_t{1} << 32}}, many(70000);
  EXPECT_FALSE(recording->add(1, false, far));
  EXPECT_FALSE(recording->add(1, false, many));
  const std::vector<LineAccess> full(60000);
  size_t blocks_that_fit = 0;
  while (recording->add(1, false, full)) ++blocks_that_fit;
  EXPECT_EQ(blocks_that_fit, (Recording::kMaxLines - 2) / 60000);
}

}  // namespace
}  // namespace tc::qemu
