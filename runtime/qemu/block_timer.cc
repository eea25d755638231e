#include "runtime/qemu/block_timer.h"

#include <algorithm>
#include <optional>

namespace tc::qemu {
namespace {

constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;

uint64_t hash_of(const Core::State& state) {
  uint64_t hash = 0;
  for (size_t i = 0; i + 1 < state.size(); i += 2) {
    hash = (hash ^ (state[i] | static_cast<uint64_t>(state[i + 1]) << 32)) * kFactor;
    hash ^= hash >> 29;
  }
  return hash;
}

// A part of a block: its first instructions, and how many; none for one alone whose accesses are slow.
uint64_t part_of(size_t number, size_t first, size_t count) { return (number << 9 | first) << 4 | count; }

}  // namespace

// Both tables are at most half full.
BlockTimer::BlockTimer(const CycleOptions& options) : core_(options), remembers_(core_.has_state()) {
  if (!remembers_) return;
  states_.reserve(kMaxStates);
  places_.assign(2 * kMaxStates, kNone);
  steps_.assign(2 * kMaxSteps, Step());
}

void BlockTimer::execute(size_t number, std::span<const Instruction> instructions,
                         std::span<const LineAccess> lines, bool is_taken) {
  const auto take_lines = [&](size_t i) {
    size_t count = 0;
    while (count < lines.size() && lines[count].instruction == i) ++count;
    const auto own = lines.first(count);
    lines = lines.subspan(count);
    return own;
  };
  const size_t size = instructions.size();
  if (!remembers_ || number >= kMaxBlocks || size > kMaxInstructions) {
    bring_core();
    for (size_t i = 0; i < size; ++i) core_.execute(instructions[i], take_lines(i), is_taken);
    state_ = kNone;
    return;
  }
  for (size_t begin = 0; begin < size;) {
    const uint64_t now = last_issue();
    const size_t end = std::min(begin / kPart * kPart + kPart, size);
    // Up to the first instruction with a slow access; most have none at all.
    size_t i = end;
    std::span<const LineAccess> slow;
    while (slow.empty() && !lines.empty() && lines.front().instruction < end) {
      const size_t instruction = lines.front().instruction;
      const auto own = take_lines(instruction);
      if (core_.has_lines(own, now)) continue;
      slow = own;
      i = instruction + 1;
    }
    const size_t hits = slow.empty() ? i : i - 1;
    if (hits > begin)
      execute_hits(part_of(number, begin, hits - begin), instructions.subspan(begin, hits - begin),
                   hits == size && is_taken);
    if (!slow.empty())
      execute_slow(part_of(number, hits, 0), instructions[hits], slow, i == size && is_taken);
    begin = i;
  }
}

void BlockTimer::execute_hits(uint64_t part, std::span<const Instruction> instructions, bool is_taken) {
  find_state();
  const uint64_t key = key_of(part, 0, is_taken);
  Step& step = place_of(key);
  if (step.key == key) {
    advance(step);
    return;
  }
  bring_core();
  for (const Instruction& instruction : instructions) core_.execute(instruction, {}, is_taken);
  end_step(step, key);
}

// How slow the accesses are depends on when they begin, and what follows on how slow they are: two steps.
void BlockTimer::execute_slow(uint64_t part, const Instruction& instruction,
                              std::span<const LineAccess> lines, bool is_taken) {
  find_state();
  const uint64_t begin = now_, start_key = key_of(part, kTooSlow, is_taken);
  Step& until_start = place_of(start_key);
  std::optional<Core::Start> start;
  if (until_start.key != start_key) {
    start = bring_core().issue(instruction);
    until_start = {start_key, kNone, static_cast<uint32_t>(start->place.start - begin)};
    ++step_count_;
  }
  const uint64_t slowest = core_.slowest_of(lines, begin + until_start.cycles);
  const uint64_t key = key_of(part, std::min(slowest, kTooSlow), is_taken);
  Step& step = place_of(key);
  if (slowest < kTooSlow && step.key == key && !start) {
    advance(step);
    return;
  }
  if (!start) start = bring_core().issue(instruction);
  core_.complete(instruction, *start, slowest, is_taken);
  if (slowest < kTooSlow) {
    now_ = begin;
    end_step(step, key);
  } else {
    state_ = kNone;
  }
}

void BlockTimer::advance(const Step& step) {
  now_ += step.cycles;
  state_ = step.next;
  is_core_current_ = false;
}

// The core has executed from cycle now_ on what `key` says.
void BlockTimer::end_step(Step& step, uint64_t key) {
  const uint64_t begin = now_;
  if (step.key != key) ++step_count_;
  state_ = number_of_state();
  step = {key, state_, static_cast<uint32_t>(now_ - begin)};
}

Core& BlockTimer::bring_core() {
  if (!is_core_current_) core_.restore(states_[state_], now_);
  is_core_current_ = true;
  now_ = core_.last_issue();
  return core_;
}

Core& BlockTimer::core() {
  bring_core();
  state_ = kNone;
  return core_;
}

uint64_t BlockTimer::cycles() const {
  return is_core_current_ ? core_.cycles() : now_ + Core::cycles_left(states_[state_]);
}

// Makes room for another state and another two steps.
void BlockTimer::find_state() {
  if (states_.size() == kMaxStates || step_count_ + 2 > kMaxSteps) forget();
  if (state_ == kNone) state_ = number_of_state();
}

// The number of the state in which the core is.
uint32_t BlockTimer::number_of_state() {
  now_ = core_.last_issue();
  Core::State state;
  core_.save(state);
  const size_t mask = places_.size() - 1;
  for (size_t i = hash_of(state) & mask;; i = (i + 1) & mask) {
    if (places_[i] == kNone) {
      places_[i] = static_cast<uint32_t>(states_.size());
      states_.push_back(state);
    }
    if (states_[places_[i]] == state) return places_[i];
  }
}

BlockTimer::Step& BlockTimer::place_of(uint64_t key) {
  const size_t mask = steps_.size() - 1;
  size_t i = key * kFactor >> 40 & mask;
  while (steps_[i].key != key && steps_[i].key != UINT64_MAX) i = (i + 1) & mask;
  return steps_[i];
}

void BlockTimer::forget() {
  bring_core();
  states_.clear();
  std::fill(places_.begin(), places_.end(), kNone);
  std::fill(steps_.begin(), steps_.end(), Step());
  step_count_ = 0;
  state_ = kNone;
}

}  // namespace tc::qemu
