#include "runtime/qemu/recording.h"

#include <sys/mman.h>

namespace tc::qemu {

Recording* Recording::make() {
  void* memory =
      mmap(nullptr, kMaxBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* recording = new Recording;
  recording->blocks_ = static_cast<uint32_t*>(memory);
  recording->lines_ = recording->blocks_ + kMaxBlocks;
  recording->counts_ = reinterpret_cast<uint16_t*>(recording->lines_ + kMaxLines);
  recording->instructions_ = recording->counts_ + kMaxBlocks;
  return recording;
}

bool Recording::add(size_t block, bool is_taken, std::span<const LineAccess> lines) {
  if (block_count_ == kMaxBlocks || kMaxLines - line_count_ < lines.size() || lines.size() > UINT16_MAX ||
      block > UINT32_MAX / 2)
    return false;
  for (const LineAccess& access : lines) {
    if (access.line > UINT32_MAX || access.instruction > UINT16_MAX) return false;
    lines_[line_count_] = static_cast<uint32_t>(access.line);
    instructions_[line_count_++] = static_cast<uint16_t>(access.instruction);
  }
  blocks_[block_count_] = static_cast<uint32_t>(block << 1 | is_taken);
  counts_[block_count_++] = static_cast<uint16_t>(lines.size());
  return true;
}

}  // namespace tc::qemu
