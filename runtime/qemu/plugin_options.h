// The arguments of count_plugin.cc, which says what they mean.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/qemu/cycle_model.h"

namespace tc::qemu {

struct Range {
  uint64_t start = 0;
  uint64_t end = 0;
};

struct Options {
  std::string output;
  std::string profile;  // empty: none is written
  std::vector<Range> ranges;
  bool has_cycles = false;
  bool has_replies = false;
  bool times_twice = false;     // replies=twice
  uint64_t guest_bytes = 0;     // 0: not known
  uint64_t longest_cycles = 0;  // 0: no limit
  CycleOptions model;

  bool contains(uint64_t address) const {
    if (ranges.empty()) return true;
    for (const Range& range : ranges) {
      if (range.start <= address && address < range.end) return true;
    }
    return false;
  }
};

// Reads the plugin's arguments; returns what is wrong with them, or nothing.
std::optional<std::string> parse_options(int count, char** arguments, Options& options);

}  // namespace tc::qemu
