// Times whole blocks of instructions on a core of the cycle model, and remembers what a block took.
//
// On a core that executes in order, what a block of hits in the first-level cache takes, and the state in
// which it leaves the core, are decided by the state in which it finds the core: when each register is ready
// and each unit free, counted from now, and the vector type. Loops come to the same states again and again,
// so most of a block are a few look-ups in a table. One whose accesses are slower is looked up with
// how slow they are. Cores that reorder instructions are timed instruction by instruction. Both ways give the
// same cycles to the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/qemu/cycle_model.h"
#include "runtime/qemu/riscv_decode.h"

namespace tc::qemu {

class BlockTimer {
 public:
  explicit BlockTimer(const CycleOptions& options);

  // Executes the block of that number: the same number always has the same instructions. `lines` are the
  // memory lines that they accessed, and `is_taken` tells whether its branch was.
  void execute(size_t number, std::span<const Instruction> instructions, std::span<const LineAccess> lines,
               bool is_taken);

  // The core itself, for instructions that are timed one by one before the next call of execute().
  Core& core();

  uint64_t last_issue() const { return is_core_current_ ? core_.last_issue() : now_; }
  uint64_t cycles() const;
  uint64_t first_level_misses() const { return core_.first_level_misses(); }
  uint64_t second_level_misses() const { return core_.second_level_misses(); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // What is remembered at most: 10 MB. Where there is more, all is forgotten.
  static constexpr int kStateBits = 14, kSlowestBits = 12;
  static constexpr size_t kMaxStates = size_t{1} << kStateBits, kMaxSteps = 1 << 16;
  static constexpr uint64_t kTooSlow = (1 << kSlowestBits) - 1;  // accesses that slow are not remembered
  // Blocks, which may be long, are remembered in parts of at most so many instructions: what follows a miss
  // soon is what follows a hit.
  static constexpr size_t kPart = 15, kMaxInstructions = 512, kMaxBlocks = 1 << 18;

  // One execution of a part of a block: from which state to which, and the cycles between them.
  struct Step {
    uint64_t key = UINT64_MAX;
    uint32_t next = kNone;
    uint32_t cycles = 0;
  };

  // Parts of a block: instructions whose accesses all hit; and one with accesses that do not.
  void execute_hits(uint64_t part, std::span<const Instruction> instructions, bool is_taken);
  void execute_slow(uint64_t part, const Instruction& instruction, std::span<const LineAccess> lines,
                    bool is_taken);
  uint64_t key_of(uint64_t part, uint64_t slowest, bool is_taken) const {
    return ((part << 1 | is_taken) << kSlowestBits | slowest) << kStateBits | state_;
  }
  Core& bring_core();  // to the state in which it is
  void find_state();
  void advance(const Step& step);
  void end_step(Step& step, uint64_t key);
  uint32_t number_of_state();
  Step& place_of(uint64_t key);
  void forget();

  Core core_;
  const bool remembers_;
  // The core is at state state_ since cycle now_, unless state_ is kNone. core_ itself is at that state only
  // where is_core_current_ says so.
  uint32_t state_ = kNone;
  uint64_t now_ = 0;
  bool is_core_current_ = true;
  std::vector<Core::State> states_;
  std::vector<uint32_t> places_;  // by hash of a state: its number
  std::vector<Step> steps_;       // by hash of state, block and direction
  size_t step_count_ = 0;
};

}  // namespace tc::qemu
