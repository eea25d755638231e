// What one run of a guest executed, so that it can be timed again without executing it again: its blocks and
// the memory lines that they accessed, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/qemu/cycle_model.h"

namespace tc::qemu {

class Recording {
 public:
  // Memory that a recording takes at most; it is used as the recording grows.
  static constexpr size_t kMaxBlocks = size_t{16} << 20, kMaxLines = size_t{64} << 20;
  static constexpr size_t kMaxBytes = kMaxBlocks * (4 + 2) + kMaxLines * (4 + 2);

  // Null where there is no memory for it.
  static Recording* make();

  // Adds a block; false where there is no room for it, or its lines are too many or at too large an address.
  bool add(size_t block, bool is_taken, std::span<const LineAccess> lines);

  // Calls `execute(block, is_taken, lines)` for each.
  template <class Function>
  void replay(const Function& execute) const {
    std::vector<LineAccess> lines;
    const uint32_t* line = lines_;
    const uint16_t* instruction = instructions_;
    for (size_t i = 0; i < block_count_; ++i) {
      lines.resize(counts_[i]);
      for (LineAccess& access : lines) access = {*instruction++, *line++};
      execute(blocks_[i] >> 1, (blocks_[i] & 1) != 0, std::span<const LineAccess>(lines));
    }
  }

  void forget() { block_count_ = line_count_ = 0; }

 private:
  Recording() = default;

  size_t block_count_ = 0, line_count_ = 0;
  uint32_t* blocks_ = nullptr;        // each block's number, twice, and 1 where its branch was taken
  uint32_t* lines_ = nullptr;         // the lines of all blocks
  uint16_t* counts_ = nullptr;        // how many of them are the block's
  uint16_t* instructions_ = nullptr;  // each line's instruction, by its index in the block
};

}  // namespace tc::qemu
