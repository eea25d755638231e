// Issue, latencies, vector costs and caches of the modelled core.
#include "runtime/qemu/cycle_model.h"

#include <algorithm>
#include <bit>

namespace tc::qemu {
namespace {

constexpr int kIssueWidth = 2;
constexpr uint64_t kMispredictionCycles = 6;
constexpr uint64_t kFirstLevelLatency = 3;
constexpr uint64_t kSecondLevelLatency = 12;
constexpr uint64_t kMemoryLatency = 80;
constexpr uint64_t kVectorLatency = 4;
constexpr uint64_t kEmpty = UINT64_MAX;

// What does not depend on the vector type: the unit of each timing and, of scalar instructions, the
// cycles that the unit is busy and the latency.
struct Row {
  uint8_t unit;
  uint8_t busy;
  uint8_t latency;
  bool is_vector;
};

enum Unit : uint8_t { kIntegerUnit, kFloatUnit, kDivideUnit, kFloatDivideUnit, kVectorUnit,
                      kMemoryUnit };

constexpr Row row_of(Timing timing) {
  switch (timing) {
    case Timing::kInteger:
    case Timing::kConditionalBranch:
    case Timing::kJump:
    case Timing::kVectorConfig:
    case Timing::kSystem: return {kIntegerUnit, 1, 1, false};
    case Timing::kIntegerMultiply: return {kIntegerUnit, 1, 3, false};
    case Timing::kIntegerDivide: return {kDivideUnit, 20, 20, false};
    case Timing::kFloat: return {kFloatUnit, 1, 4, false};
    case Timing::kFloatSimple: return {kFloatUnit, 1, 2, false};
    case Timing::kFloatDivide: return {kFloatDivideUnit, 12, 12, false};
    case Timing::kLoad:
    case Timing::kStore: return {kMemoryUnit, 1, kFirstLevelLatency, false};
    case Timing::kVectorUnitAccess:
    case Timing::kVectorWholeAccess:
    case Timing::kVectorMaskAccess:
    case Timing::kVectorElementAccess: return {kMemoryUnit, 1, kFirstLevelLatency, true};
    default: return {kVectorUnit, 1, kVectorLatency, true};
  }
}

constexpr auto kRows = [] {
  std::array<Row, kTimingCount> rows = {};
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = row_of(static_cast<Timing>(i));
  return rows;
}();

constexpr uint64_t kDoubleDivideCycles = 20;

int whole_registers(int registers_log2) { return 1 << std::max(registers_log2, 0); }

}  // namespace

Cache::Cache(int bytes, int ways)
    : ways_(static_cast<size_t>(ways)),
      set_mask_((static_cast<uint64_t>(bytes) >> kLineBytesLog2) / ways_ - 1),
      lines_((set_mask_ + 1) * ways_, kEmpty) {}

bool Cache::access(uint64_t line) {
  const auto set = lines_.begin() + static_cast<std::ptrdiff_t>((line & set_mask_) * ways_);
  const auto end = set + static_cast<std::ptrdiff_t>(ways_);
  const auto found = std::find(set, end, line);
  const bool is_hit = found != end;
  // The line comes first; those before its old place, or all but the oldest, move back by one.
  const auto last = is_hit ? found : end - 1;
  *last = line;
  std::rotate(set, last, last + 1);
  return is_hit;
}

Core::Core(const CycleOptions& options)
    : options_(options), first_level_(32 << 10, 8), second_level_(512 << 10, 8) {}

uint64_t Core::passes(int registers_log2) const {
  const uint64_t eighths = uint64_t{1} << (registers_log2 + 3);
  const uint64_t bits = static_cast<uint64_t>(options_.vector_bits) * eighths / 8;
  const uint64_t datapath = static_cast<uint64_t>(options_.datapath_bits);
  return std::max<uint64_t>((bits + datapath - 1) / datapath, 1);
}

uint64_t Core::elements() const {
  const uint64_t eighths = static_cast<uint64_t>(options_.vector_bits) << (group_log2_ + 3);
  const uint64_t most = eighths >> (element_bits_log2_ + 3);
  return std::min(std::max<uint64_t>(most, 1), immediate_length_);
}

Core::Cost Core::vector_cost(const Instruction& instruction) const {
  const int group = group_log2_;
  const int registers = whole_registers(group);
  Cost cost{passes(group), kVectorLatency, registers, registers};
  switch (instruction.timing) {
    case Timing::kVectorWidening:
      cost.busy = passes(std::min(group + 1, 3));
      cost.destination_registers = cost.source_registers = std::min(2 * registers, 8);
      break;
    case Timing::kVectorDivide:
      cost.busy *= (uint64_t{1} << element_bits_log2_) / 4;
      cost.latency += cost.busy;
      break;
    case Timing::kVectorReduction: {
      const int lanes_log2 = std::countr_zero(static_cast<unsigned>(options_.datapath_bits)) -
                             element_bits_log2_;
      cost.latency += 4 * static_cast<uint64_t>(std::max(lanes_log2, 0)) + cost.busy - 1;
      cost.destination_registers = 1;
      break;
    }
    case Timing::kVectorOrderedReduction:
      cost.busy = std::max<uint64_t>(4 * elements(), 1);
      cost.latency = cost.busy;
      cost.destination_registers = 1;
      break;
    case Timing::kVectorGather:
      cost.busy = static_cast<uint64_t>(registers) * static_cast<uint64_t>(registers) * passes(0);
      cost.latency += cost.busy - 1;
      break;
    case Timing::kVectorMask:
      cost = {passes(0), kVectorLatency, 1, 1};
      break;
    case Timing::kVectorScalarMove:
      cost = {1, kVectorLatency, 1, 1};
      break;
    case Timing::kVectorMoveWhole:
      cost.busy = passes(0) * instruction.fields;
      cost.destination_registers = cost.source_registers = instruction.fields;
      break;
    case Timing::kVectorUnitAccess: {
      const int effective = group + 3 + instruction.element_bytes_log2 - element_bits_log2_;
      const int clamped = std::clamp(effective, -3, 3);
      cost = {passes(clamped), kFirstLevelLatency, whole_registers(clamped),
              whole_registers(clamped)};
      break;
    }
    case Timing::kVectorWholeAccess:
      cost = {passes(0) * instruction.fields, kFirstLevelLatency, instruction.fields,
              instruction.fields};
      break;
    case Timing::kVectorMaskAccess:
      cost = {passes(0), kFirstLevelLatency, 1, 1};
      break;
    case Timing::kVectorElementAccess:
      // Elements arrive one per cycle, in no useful order for chaining: all of them, then use.
      cost.busy = std::max<uint64_t>(elements() * instruction.fields, 1);
      cost.latency = kFirstLevelLatency + cost.busy - 1;
      cost.destination_registers = std::min(registers * instruction.fields, 8);
      break;
    default:
      break;
  }
  return cost;
}

uint64_t Core::ready_of(uint8_t first, int count) const {
  if (first < kVectorBase || first == kNoRegister) return ready_[first];
  const int last = std::min(first + count, kRegisterCount);
  uint64_t latest = 0;
  for (int i = first; i < last; ++i) latest = std::max(latest, ready_[static_cast<size_t>(i)]);
  return latest;
}

uint64_t Core::line_latency(uint64_t line, uint64_t start) {
  const bool is_first = first_level_.access(line);
  if (is_first) {
    // Present, or still on its way for an earlier access.
    for (const Fill& fill : fills_) {
      if (fill.line == line && fill.ready > start + kFirstLevelLatency) return fill.ready - start;
    }
    return kFirstLevelLatency;
  }
  ++first_level_misses_;
  const bool is_second = second_level_.access(line);
  if (!is_second) ++second_level_misses_;
  Fill& fill = *std::min_element(fills_.begin(), fills_.end(), [](const Fill& a, const Fill& b) {
    return a.ready < b.ready;
  });
  const uint64_t begin = std::max(start, fill.ready);
  fill = {line, begin + (is_second ? kSecondLevelLatency : kMemoryLatency)};
  return fill.ready - start;
}

void Core::set_vector_type(const Instruction& instruction) {
  if (instruction.has_static_type) {
    const int group = instruction.vector_type & 7;
    element_bits_log2_ = 3 + (instruction.vector_type >> 3 & 3);
    group_log2_ = group < 4 ? group : group - 8;
    if (group == 4) group_log2_ = 0;  // reserved: the core has set vill and will trap
  }
  if (instruction.keeps_length) return;
  immediate_length_ =
      instruction.has_immediate_length ? instruction.immediate_length : UINT64_MAX;
}

void Core::skip(const Instruction& instruction) {
  if (instruction.timing == Timing::kVectorConfig) set_vector_type(instruction);
}

void Core::execute(const Instruction& instruction, std::span<const LineAccess> lines,
                   bool is_taken) {
  const Row& row = kRows[static_cast<size_t>(instruction.timing)];
  Cost cost{row.busy, row.latency, 1, 1};
  if (row.is_vector) {
    cost = vector_cost(instruction);
  } else if (instruction.timing == Timing::kFloatDivide && instruction.is_double) {
    cost.busy = cost.latency = kDoubleDivideCycles;
  }
  uint64_t start = now_;
  for (const uint8_t source : instruction.sources) {
    start = std::max(start, ready_of(source, cost.source_registers));
  }
  const uint64_t older_write = ready_of(instruction.destination, cost.destination_registers);
  if (older_write > cost.latency) start = std::max(start, older_write - cost.latency);
  if (instruction.timing == Timing::kSystem) start = std::max(start, cycles());
  const uint8_t unit = row.unit;
  if (unit != kIntegerUnit) start = std::max(start, unit_free_[unit]);
  if (start == now_ && issued_ == kIssueWidth) ++start;
  if (start != now_) issued_ = 0;
  now_ = start;
  ++issued_;

  uint64_t slowest = kFirstLevelLatency;
  for (const LineAccess& access : lines) {
    slowest = std::max(slowest, line_latency(access.line, start));
  }
  cost.latency += slowest - kFirstLevelLatency;
  // A store has no result to wait for, but holds the port until its line has found a free place.
  const bool is_store =
      instruction.kind == Class::kVectorStore || instruction.timing == Timing::kStore;
  if (is_store && slowest > kMemoryLatency) {
    cost.busy = std::max(cost.busy, slowest - kMemoryLatency);
  }

  if (unit != kIntegerUnit) unit_free_[unit] = start + cost.busy;
  if (instruction.destination != kNoRegister) {
    const int first = instruction.destination;
    const int count = first < kVectorBase ? 1 : cost.destination_registers;
    const int last = std::min(first + count, kRegisterCount);
    for (int i = first; i < last; ++i) ready_[static_cast<size_t>(i)] = start + cost.latency;
  }

  if (instruction.timing == Timing::kVectorConfig) set_vector_type(instruction);
  const bool is_conditional = instruction.timing == Timing::kConditionalBranch;
  if (is_conditional && is_taken != instruction.jumps_backward) {
    now_ = start + 1 + kMispredictionCycles;
    issued_ = 0;
  } else if (instruction.timing == Timing::kJump || (is_conditional && is_taken)) {
    now_ = start + 1;
    issued_ = 0;
  }
}

uint64_t Core::cycles() const {
  const uint64_t issued = issued_ > 0 ? now_ + 1 : now_;
  return std::max({issued, *std::max_element(ready_.begin(), ready_.end()),
                   *std::max_element(unit_free_.begin(), unit_free_.end())});
}

}  // namespace tc::qemu
