// Data from a seed, which the tuner and the agents generate in the same way, so that inputs need not be sent.
#pragma once

#include <cstdint>

namespace tc::runtime {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), applied to one counter value.
inline uint64_t mix_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The random bits from which element `element` of input `port` is made under `seed`.
inline uint64_t sample_bits(uint64_t seed, uint64_t port, uint64_t element) {
  return mix_bits(mix_bits(seed ^ (port << 48)) + element);
}

// A float element: uniform in [-1, 1), a multiple of 2^-23, exact in float32.
inline double sample_float(uint64_t seed, uint64_t port, uint64_t element) {
  return static_cast<double>(sample_bits(seed, port, element) >> 40) * 0x1p-23 - 1.0;
}

// An integer or bool element: 0 or 1, which is a valid index into nearly every tensor.
inline int64_t sample_integer(uint64_t seed, uint64_t port, uint64_t element) {
  return static_cast<int64_t>(sample_bits(seed, port, element) >> 63);
}

}  // namespace tc::runtime
