// The checksum at the end of shared artefacts and files of weights. It detects damage: a change within one
// aligned word of 8 bytes always, any other change except with a probability of 2^-64. It is not a signature:
// whoever changes an artefact on purpose can compute a new checksum.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace tc::runtime {

// Appended to the library file, where neither loaders nor linkers look.
struct Seal {
  char mark[16];
  uint64_t checksum;  // of all bytes of the file before it
};
constexpr char kSealMark[sizeof Seal::mark] = {'\n', 't', 'c', ' ', 'c', 'h', 'e',  'c',
                                               'k',  's', 'u', 'm', ' ', '1', '\n', 0};

// In place of it in files of weights, whose name is the checksum in hexadecimal digits.
constexpr char kWeightsMark[sizeof Seal::mark] = {'\n', 't', 'c', ' ', 'w', 'e', 'i',  'g',
                                                  'h',  't', 's', ' ', ' ', '1', '\n', 0};

inline uint64_t rotated_left(uint64_t word, int bits) { return word << bits | word >> (64 - bits); }

// The checksum of bytes that are added piece by piece. Each of eight lanes takes every eighth word, so that a
// core can start a multiplication in every cycle. Each step is invertible when one of its operands is known,
// so contents that differ in only one lane always have different checksums.
class Checksum {
 public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    size_ += size;
    if (kept_ > 0) {
      const size_t taken = size < kBlock - kept_ ? size : kBlock - kept_;
      memcpy(rest_ + kept_, bytes, taken);
      kept_ += taken;
      bytes += taken;
      size -= taken;
      if (kept_ < kBlock) return;
      add_blocks(rest_, kBlock);
      kept_ = 0;
    }
    add_blocks(bytes, size / kBlock * kBlock);
    kept_ = size % kBlock;
    if (kept_ > 0) memcpy(rest_, bytes + (size - kept_), kept_);
  }

  uint64_t value() const {
    Checksum last = *this;
    memset(last.rest_ + kept_, 0, kBlock - kept_);
    last.add_blocks(last.rest_, kBlock);
    uint64_t result = size_ * kOdd;
    for (int lane = 0; lane < kLanes; ++lane) result = rotated_left((result ^ last.lanes_[lane]) * kOdd, 29);
    result ^= result >> 32;
    result *= kOther;
    return result ^ result >> 29;
  }

 private:
  static constexpr int kLanes = 8;
  static constexpr size_t kBlock = kLanes * sizeof(uint64_t);
  // Odd, with about as many ones as zeros: 2^64 divided by the golden ratio, and by the square root of 3.
  static constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u, kOther = 0x93cd3a2c8198e269u;

  // `size` is a multiple of a block.
  void add_blocks(const unsigned char* bytes, size_t size) {
    uint64_t lanes[kLanes];  // a copy that stays in registers
    memcpy(lanes, lanes_, sizeof lanes);
    for (size_t at = 0; at < size; at += kBlock) {
      uint64_t words[kLanes];
      memcpy(words, bytes + at, sizeof words);
#pragma GCC unroll 8
      for (int lane = 0; lane < kLanes; ++lane)
        lanes[lane] = rotated_left((lanes[lane] ^ words[lane]) * kOdd, 29);
    }
    memcpy(lanes_, lanes, sizeof lanes);
  }

  uint64_t lanes_[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
  uint64_t size_ = 0;
  size_t kept_ = 0;                  // bytes of `rest_`
  unsigned char rest_[kBlock] = {};  // bytes that do not fill a block yet
};

}  // namespace tc::runtime
