// The list scheduler of the passes that order the instructions of a block, and the latencies that it goes by.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "ir/target/target.h"

namespace tc {

// Cycles for which instructions wait on a core that executes in order, from the core's row.
class CoreTimes {
 public:
  explicit CoreTimes(const Target& core) : core_(core) {}

  // From an operation of the vector unit to one that reads its result.
  int result() const { return core_.latency; }
  // In which the vector unit is occupied by an operation whose result takes so many registers.
  double occupied(int registers) const { return registers / core_.multiply_adds; }
  // How many operations of so many registers, none of which waits for another, hide the wait for a result.
  int operations_in_flight(int registers) const;

  // From a load to the use of what the second-level cache holds: its latency, and a cycle to issue each. An
  // element comes from that cache or from the first.
  double load() const { return core_.l2_latency + 2; }
  // The same where each product reads a vector of its own from main memory, whose lines come one after the
  // other: a quarter more than the latency, so that as many lines are on their way as the core and its
  // registers allow.
  double streamed_load() const { return 1.25 * core_.memory_latency; }
  // The same for weights that are packed in words: twice the second-level cache's latency. Their three sums,
  // two pairs of words and the number being assembled take all registers. With 26 cycles where that is 24,
  // recurrent steps with such weights take 1 % more cycles of the core model, with 32 and with 20 values are
  // spilled.
  double packed_load() const { return 2.0 * core_.l2_latency; }

 private:
  const Target& core_;
};

// Lists the instructions of a block, by their places, each after all that it needs.
class ListScheduler {
 public:
  // `needs`: of each instruction, the places of those that have to come before it.
  explicit ListScheduler(std::vector<std::vector<size_t>> needs)
      : needs_(std::move(needs)), listed_(needs_.size()) {}

  bool is_listed(size_t place) const { return listed_[place]; }
  const std::vector<size_t>& needs(size_t place) const { return needs_[place]; }

  // Appends the instruction to the order, after those of its needs that are not listed yet: one after the
  // other, each with its own needs before it.
  void list(size_t place, std::vector<size_t>& order);
  // Appends all others, the one with the least key first, and of equal keys the first in the block.
  void list_by(const std::vector<double>& keys, std::vector<size_t>& order);

 private:
  std::vector<std::vector<size_t>> needs_;
  std::vector<bool> listed_;
};

}  // namespace tc
