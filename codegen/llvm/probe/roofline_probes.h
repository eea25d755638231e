// Code that is limited by one property of a machine, to measure that limit: multiply-adds on registers, and
// streams of loads and stores. No LLVM type here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/backend/backend.h"
#include "ir/target/target.h"

namespace tc {

// A function `void SYMBOL(int64 trips)` of independent multiply-adds with no access to memory.
struct PeakProbe {
  std::string symbol;
  std::string instructions;   // "AVX-512", "AMX", …
  std::string types;          // of operands and, where it differs, the sum: "f32", "bf16 to f32"
  int64_t multiply_adds = 0;  // per trip
  int vector_bits = 0;        // 0: scalar, or matrix registers
};

struct Probes {
  std::vector<PeakProbe> peaks;  // of all units that the target has, narrow ones first
  std::vector<Bytes> objects;    // to be linked together
};

// `void SYMBOL(uint8* data, int64 bytes, int64 repeats)`: reads, or fills, all bytes `repeats` times.
inline constexpr const char* kReadProbe = "tc_probe_read";
inline constexpr const char* kWriteProbe = "tc_probe_write";
// `bytes` has to be a multiple of this.
inline constexpr int64_t kProbeUnit = 1024;

// The probes for everything that the target's features allow.
Probes make_probes(const Target& target);

}  // namespace tc
