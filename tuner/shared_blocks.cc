#include "tuner/shared_blocks.h"

#include <array>
#include <utility>

#include "runtime/checksum.h"
#include "runtime/rpc/sample_data.h"

namespace tc {
namespace {

// Blocks end where these upper bits of a sum over the last 64 bytes are 0: 32 KiB behind the least size on
// average.
constexpr int kBits = 15;
constexpr size_t kWindow = 64;

std::array<uint64_t, 256> make_words() {
  std::array<uint64_t, 256> words;
  for (size_t i = 0; i < words.size(); ++i) words[i] = runtime::mix_bits(i + 1);
  return words;
}

}  // namespace

size_t SharedBlocks::first_block(const char* data, size_t size) {
  static const std::array<uint64_t, 256> words = make_words();
  const size_t most = size < kMaxBlock ? size : kMaxBlock;
  uint64_t sum = 0;
  for (size_t i = kMinBlock - kWindow; i < most; ++i) {
    // A byte's share is shifted out after 64 more.
    sum = (sum << 1) + words[static_cast<unsigned char>(data[i])];
    if (i >= kMinBlock && sum >> (64 - kBits) == 0) return i + 1;
  }
  return most;
}

uint64_t SharedBlocks::hash_of(const char* data, size_t size) {
  runtime::Checksum hash;
  hash.add(data, size);
  return hash.value();
}

const FileRange* SharedBlocks::find(uint64_t hash, size_t size) const {
  const auto found = places_.find(hash);
  const bool is_known = found != places_.end() && found->second.range.bytes == static_cast<int64_t>(size);
  return is_known ? &found->second.range : nullptr;
}

void SharedBlocks::add(const std::vector<std::pair<uint64_t, FileRange>>& blocks, int64_t most_bytes) {
  Sent sent;
  sent.number = next_number_++;
  for (const auto& [hash, range] : blocks) {
    places_[hash] = {range, sent.number};
    sent.hashes.push_back(hash);
    sent.bytes += range.bytes;
  }
  bytes_ += sent.bytes;
  files_.push_back(std::move(sent));
  while (bytes_ > most_bytes && files_.size() > 1) {
    const Sent& oldest = files_.front();
    for (const uint64_t hash : oldest.hashes) {
      const auto place = places_.find(hash);
      // A later file may have the block, too.
      if (place != places_.end() && place->second.file == oldest.number) places_.erase(place);
    }
    bytes_ -= oldest.bytes;
    files_.pop_front();
  }
}

void SharedBlocks::clear() {
  places_.clear();
  files_.clear();
  bytes_ = 0;
}

}  // namespace tc
