// Issue, latencies, vector costs and caches of the modelled core.
#include "runtime/qemu/cycle_model.h"

#include <algorithm>
#include <bit>

namespace tc::qemu {
namespace {

// clang-format off
constexpr uint64_t kEmpty = UINT64_MAX;

enum Unit : uint8_t { kIntegerUnit, kFloatUnit, kDivideUnit, kFloatDivideUnit, kVectorUnit,
                      kVectorDivideUnit, kMemoryUnit };
// clang-format on

uint64_t cycles_of(int number) { return static_cast<uint64_t>(number); }

constexpr bool is_vector(Timing timing) { return timing >= Timing::kVectorArithmetic; }

constexpr Unit unit_of(Timing timing) {
  switch (timing) {
    case Timing::kInteger:
    case Timing::kConditionalBranch:
    case Timing::kJump:
    case Timing::kVectorConfig:
    case Timing::kSystem:
    case Timing::kIntegerMultiply: return kIntegerUnit;
    case Timing::kIntegerDivide: return kDivideUnit;
    case Timing::kFloat:
    case Timing::kFloatSimple: return kFloatUnit;
    case Timing::kFloatDivide: return kFloatDivideUnit;
    case Timing::kLoad:
    case Timing::kStore:
    case Timing::kVectorUnitAccess:
    case Timing::kVectorWholeAccess:
    case Timing::kVectorMaskAccess:
    case Timing::kVectorElementAccess: return kMemoryUnit;
    default: return kVectorUnit;
  }
}

constexpr auto kUnits = [] {
  std::array<Unit, kTimingCount> units = {};
  for (size_t i = 0; i < units.size(); ++i) units[i] = unit_of(static_cast<Timing>(i));
  return units;
}();

Unit unit_of(Timing timing, const CoreRow& core) {
  if (timing == Timing::kVectorDivide && core.divider.own_unit) return kVectorDivideUnit;
  return kUnits[static_cast<size_t>(timing)];
}

// Whether only the first of several units of the kind can execute the instruction.
constexpr bool takes_first_unit(Timing timing) {
  switch (timing) {
    case Timing::kVectorDivide:
    case Timing::kVectorReduction:
    case Timing::kVectorOrderedReduction:
    case Timing::kVectorGather: return true;
    default: return is_vector(timing) && unit_of(timing) == kMemoryUnit;
  }
}

// Numbers of fields or registers, and of sizes of elements, that instructions have.
constexpr size_t kMaxFields = 9, kElementSizes = 4;

int whole_registers(int registers_log2) { return 1 << std::max(registers_log2, 0); }

}  // namespace

Cache::Cache(int bytes, int ways)
    : ways_(static_cast<size_t>(ways)),
      set_mask_((static_cast<uint64_t>(bytes) >> kLineBytesLog2) / ways_ - 1),
      lines_((set_mask_ + 1) * ways_, kEmpty) {}

bool Cache::access(uint64_t line) {
  const auto set = lines_.begin() + static_cast<std::ptrdiff_t>((line & set_mask_) * ways_);
  if (*set == line) return true;
  const auto end = set + static_cast<std::ptrdiff_t>(ways_);
  const auto found = std::find(set, end, line);
  const bool is_hit = found != end;
  // The line moves to the front; the lines before its old place (on a miss, all but the oldest) move back by
  // one.
  const auto last = is_hit ? found : end - 1;
  *last = line;
  std::rotate(set, last, last + 1);
  return is_hit;
}

bool Cache::access_present(uint64_t line) {
  const auto set = lines_.begin() + static_cast<std::ptrdiff_t>((line & set_mask_) * ways_);
  if (*set == line) return true;
  const auto end = set + static_cast<std::ptrdiff_t>(ways_);
  const auto found = std::find(set + 1, end, line);
  if (found == end) return false;
  std::rotate(set, found, found + 1);
  return true;
}

Units::Place Units::find(uint64_t from, uint64_t cycles, size_t count) const {
  Place best{0, UINT64_MAX};
  // Starts with the last unit, so that scalar accesses leave the first one to vectors.
  for (size_t unit = count; unit-- > 0;) {
    uint64_t start = from;
    for (const Span& span : busy_[unit]) {
      if (start + cycles <= span.begin) break;
      start = std::max(start, span.end);
    }
    if (start < best.start) best = {unit, start};
  }
  return best;
}

void Units::occupy(const Place& place, uint64_t cycles) {
  std::vector<Span>& spans = busy_[place.unit];
  const auto after =
      std::find_if(spans.begin(), spans.end(), [&](const Span& span) { return span.begin > place.start; });
  const Span span{place.start, place.start + cycles};
  if (after != spans.begin() && std::prev(after)->end == span.begin) {
    std::prev(after)->end = span.end;
    return;
  }
  spans.insert(after, span);
}

void Units::forget_before(uint64_t cycle) {
  for (std::vector<Span>& spans : busy_) {
    // The last span is kept, since it tells when everything is done.
    const auto kept =
        std::find_if(spans.begin(), spans.end(), [&](const Span& span) { return span.end > cycle; });
    if (kept != spans.begin()) spans.erase(spans.begin(), kept == spans.end() ? std::prev(kept) : kept);
  }
}

uint64_t Units::last() const {
  uint64_t latest = 0;
  for (const std::vector<Span>& spans : busy_) {
    if (!spans.empty()) latest = std::max(latest, spans.back().end);
  }
  return latest;
}

Core::Core(const CycleOptions& options)
    : options_(options),
      units_{
          Units(0), Units(options.core->float_units), Units(1), Units(1), Units(options.core->vector_units),
          Units(1), Units(options.core->memory_ports)},
      retired_(static_cast<size_t>(options.core->window)),
      first_level_(options.core->first_level_kib << 10, options.core->first_level_ways),
      second_level_(options.core->second_level_kib << 10, options.core->second_level_ways),
      fills_(static_cast<size_t>(options.core->misses)),
      known_costs_(static_cast<size_t>(kTimingCount) * kMaxFields * kElementSizes) {}

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

Core::Cost Core::scalar_cost(const Instruction& instruction) const {
  const CoreLatencies& latency = options_.core->latency;
  auto pipelined = [](int cycles) { return Cost{1, cycles_of(cycles), 1, 1}; };
  auto divided = [](int cycles) { return Cost{cycles_of(cycles), cycles_of(cycles), 1, 1}; };
  switch (instruction.timing) {
    case Timing::kIntegerMultiply: return pipelined(latency.integer_multiply);
    case Timing::kIntegerDivide: return divided(latency.integer_divide);
    case Timing::kFloat: return pipelined(latency.floating);
    case Timing::kFloatSimple: return pipelined(latency.float_simple);
    case Timing::kFloatDivide:
      return divided(instruction.is_double ? latency.double_divide : latency.float_divide);
    case Timing::kLoad:
    case Timing::kStore: return pipelined(latency.load);
    default: return {};
  }
}

uint64_t Core::gather_cycles(int registers) const {
  const GatherCost& cost = options_.core->gather;
  const uint64_t count = cycles_of(registers);
  const uint64_t elements_cycles = cost.per_element == 0 ? 0 : cycles_of(cost.per_element) * elements();
  return (cycles_of(cost.per_pair) * count + cycles_of(cost.per_register)) * count * passes(0) +
         elements_cycles;
}

Core::Cost Core::vector_cost(const Instruction& instruction) const {
  const int group = group_log2_;
  const int registers = whole_registers(group);
  const CoreRow& core = *options_.core;
  const uint64_t latency = cycles_of(core.latency.vector), load = cycles_of(core.latency.load);
  const uint64_t simple = core.latency.vector_simple > 0 ? cycles_of(core.latency.vector_simple) : latency;
  Cost cost{passes(group), latency, registers, registers};
  switch (instruction.timing) {
    case Timing::kVectorWidening:
      cost.busy = passes(std::min(group + 1, 3));
      cost.destination_registers = cost.source_registers = std::min(2 * registers, 8);
      break;
    case Timing::kVectorSimple: cost.latency = simple; break;
    case Timing::kVectorMatrix: cost = {1, cycles_of(core.latency.matrix), 2, 1}; break;
    case Timing::kVectorDivide:
      cost.busy *= cycles_of(core.divider.per_pass);
      if (core.divider.by_width) cost.busy = (cost.busy << element_bits_log2_) / 32;
      cost.latency += cost.busy;
      break;
    case Timing::kVectorReduction: {
      const int lanes_log2 =
          std::countr_zero(static_cast<unsigned>(options_.datapath_bits)) - element_bits_log2_;
      cost.latency += cycles_of(core.reduction.per_level * std::max(lanes_log2, 0)) +
                      cycles_of(core.reduction.per_pass) * (cost.busy - 1);
      if (core.reduction.busy > 0) cost.latency = cost.busy += cycles_of(core.reduction.busy);
      cost.destination_registers = 1;
      break;
    }
    case Timing::kVectorOrderedReduction:
      cost.busy = std::max<uint64_t>(cycles_of(core.reduction.per_element) * elements(), 1);
      cost.latency = cost.busy;
      cost.destination_registers = 1;
      break;
    case Timing::kVectorGather:
      cost.busy = gather_cycles(registers);
      cost.latency += cost.busy - 1;
      break;
    case Timing::kVectorMask: cost = {passes(0), simple, 1, 1}; break;
    case Timing::kVectorScalarMove: cost = {1, simple, 1, 1}; break;
    case Timing::kVectorMoveWhole:
      cost.busy = passes(0) * instruction.fields;
      cost.latency = simple;
      cost.destination_registers = cost.source_registers = instruction.fields;
      break;
    case Timing::kVectorUnitAccess: {
      const int effective = group + 3 + instruction.element_bytes_log2 - element_bits_log2_;
      const int clamped = std::clamp(effective, -3, 3);
      cost = {passes(clamped), load, whole_registers(clamped), whole_registers(clamped)};
      break;
    }
    case Timing::kVectorWholeAccess:
      cost = {passes(0) * instruction.fields, load, instruction.fields, instruction.fields};
      break;
    case Timing::kVectorMaskAccess: cost = {passes(0), load, 1, 1}; break;
    case Timing::kVectorElementAccess:
      // Elements arrive one per cycle, in an order that does not allow chaining: a use waits for all of them.
      cost.busy = std::max<uint64_t>(elements() * (core.whole_segments ? 1 : instruction.fields), 1);
      cost.latency = load + cost.busy - 1;
      cost.destination_registers = std::min(registers * instruction.fields, 8);
      break;
    default: break;
  }
  return cost;
}

const Core::Cost& Core::known_vector_cost(const Instruction& instruction) {
  const size_t place =
      (static_cast<size_t>(instruction.timing) * kMaxFields + instruction.fields % kMaxFields) *
          kElementSizes +
      instruction.element_bytes_log2 % kElementSizes;
  KnownCost& known = known_costs_[place];
  if (known.type != type_number_) known = {type_number_, vector_cost(instruction)};
  return known.cost;
}

uint64_t Core::ready_of(uint8_t first, int count) const {
  if (first < kVectorBase || first == kNoRegister) return ready_[first];
  const int last = std::min(first + count, kRegisterCount);
  uint64_t latest = 0;
  for (int i = first; i < last; ++i) latest = std::max(latest, ready_[static_cast<size_t>(i)]);
  return latest;
}

uint64_t Core::line_latency(uint64_t line, uint64_t start) {
  const CoreLatencies& latency = options_.core->latency;
  const uint64_t load = cycles_of(latency.load);
  const bool is_first = first_level_.access(line);
  if (is_first) {
    // The line is present, or an earlier access is still loading it.
    if (last_fill_ <= start + load) return load;
    for (const Fill& fill : fills_) {
      if (fill.line == line && fill.ready > start + load) return fill.ready - start;
    }
    return load;
  }
  ++first_level_misses_;
  const bool is_second = second_level_.access(line);
  if (!is_second) ++second_level_misses_;
  Fill& fill = *std::min_element(fills_.begin(), fills_.end(),
                                 [](const Fill& a, const Fill& b) { return a.ready < b.ready; });
  const uint64_t begin = std::max(start, fill.ready);
  fill = {line, begin + cycles_of(is_second ? latency.second_level : latency.memory)};
  last_fill_ = std::max(last_fill_, fill.ready);
  return fill.ready - start;
}

void Core::set_vector_type(const Instruction& instruction) {
  ++type_number_;
  if (instruction.has_static_type) {
    const int group = instruction.vector_type & 7;
    element_bits_log2_ = 3 + (instruction.vector_type >> 3 & 3);
    group_log2_ = group < 4 ? group : group - 8;
    if (group == 4) group_log2_ = 0;  // reserved: the core has set vill and will trap
  }
  if (instruction.keeps_length) return;
  immediate_length_ = instruction.has_immediate_length ? instruction.immediate_length : UINT64_MAX;
}

void Core::skip(const Instruction& instruction) {
  if (instruction.timing == Timing::kVectorConfig) set_vector_type(instruction);
}

Units::Place Core::place(const Instruction& instruction, const Cost& cost, uint64_t from) const {
  const Unit unit = unit_of(instruction.timing, *options_.core);
  if (unit == kIntegerUnit) return {0, from};
  const Units& units = units_[unit];
  const size_t count = takes_first_unit(instruction.timing) ? 1 : units.count();
  return is_in_order() ? units.find_in_order(from, count) : units.find(from, cost.busy, count);
}

Units::Place Core::in_order(const Instruction& instruction, const Cost& cost, uint64_t ready) {
  const uint64_t older_write = ready_of(instruction.destination, cost.destination_registers);
  uint64_t start = std::max(now_, ready);
  if (older_write > cost.latency) start = std::max(start, older_write - cost.latency);
  if (instruction.timing == Timing::kSystem) start = std::max(start, cycles());
  Units::Place place = this->place(instruction, cost, start);
  if (place.start == now_ && issued_ == options_.core->issue_width)
    place = this->place(instruction, cost, now_ + 1);
  if (place.start != now_) issued_ = 0;
  now_ = place.start;
  ++issued_;
  return place;
}

Units::Place Core::reordered(const Instruction& instruction, const Cost& cost, uint64_t ready) {
  uint64_t dispatch = std::max(now_, retired_[next_]);
  if (instruction.timing == Timing::kSystem) dispatch = std::max(dispatch, cycles());
  if (dispatch == now_ && issued_ == options_.core->issue_width) ++dispatch;
  if (dispatch != now_) issued_ = 0;
  now_ = dispatch;
  ++issued_;
  return place(instruction, cost, std::max(dispatch, ready));
}

void Core::retire(uint64_t done) {
  if (retired_.empty()) return;
  const size_t before = (next_ + retired_.size() - 1) % retired_.size();
  retired_[next_] = std::max(done, retired_[before]);
  next_ = (next_ + 1) % retired_.size();
}

Core::Start Core::issue(const Instruction& instruction) {
  Start start;
  start.cost = is_vector(instruction.timing) ? known_vector_cost(instruction) : scalar_cost(instruction);
  uint64_t ready = 0;
  for (const uint8_t source : instruction.sources) {
    ready = std::max(ready, ready_of(source, start.cost.source_registers));
  }
  start.place =
      is_in_order() ? in_order(instruction, start.cost, ready) : reordered(instruction, start.cost, ready);
  return start;
}

uint64_t Core::slowest_of(std::span<const LineAccess> lines, uint64_t start) {
  uint64_t slowest = cycles_of(options_.core->latency.load);
  for (const LineAccess& access : lines) slowest = std::max(slowest, line_latency(access.line, start));
  return slowest;
}

void Core::complete(const Instruction& instruction, const Start& issued, uint64_t slowest, bool is_taken) {
  const Units::Place place = issued.place;
  const uint64_t start = place.start, memory = cycles_of(options_.core->latency.memory);
  const bool out_of_order = !is_in_order();
  Cost cost = issued.cost;
  cost.latency += slowest - cycles_of(options_.core->latency.load);
  // Nothing waits for a store's result, but on an in-order core the store occupies the port until one of the
  // lines under way is done (`misses`).
  const bool is_store = instruction.kind == Class::kVectorStore || instruction.timing == Timing::kStore;
  if (is_store && !out_of_order && slowest > memory) cost.busy = std::max(cost.busy, slowest - memory);

  const Unit unit = unit_of(instruction.timing, *options_.core);
  if (unit != kIntegerUnit && out_of_order) {
    units_[unit].forget_before(now_);
    units_[unit].occupy(place, cost.busy);
  } else if (unit != kIntegerUnit) {
    units_[unit].occupy_in_order(place, cost.busy);
    all_done_ = std::max(all_done_, start + cost.busy);
  }
  if (instruction.destination != kNoRegister) {
    const int first = instruction.destination;
    const int count = first < kVectorBase ? 1 : cost.destination_registers;
    const int last = std::min(first + count, kRegisterCount);
    for (int i = first; i < last; ++i) ready_[static_cast<size_t>(i)] = start + cost.latency;
    all_done_ = std::max(all_done_, start + cost.latency);
  }
  retire(start + (is_store ? cost.busy : std::max(cost.busy, cost.latency)));

  if (instruction.timing == Timing::kVectorConfig) set_vector_type(instruction);
  const bool is_conditional = instruction.timing == Timing::kConditionalBranch;
  if (is_conditional && is_taken != instruction.jumps_backward) {
    now_ = start + 1 + cycles_of(options_.core->latency.misprediction);
    issued_ = 0;
  } else if (instruction.timing == Timing::kJump || (is_conditional && is_taken)) {
    ++now_;
    issued_ = 0;
  }
}

bool Core::has_state() const {
  size_t count = 0;
  for (const Units& units : units_) count += units.count();
  return is_in_order() && count <= kMaxUnits;
}

void Core::save(State& state) const {
  const auto left = [&](uint64_t cycle) { return cycle > now_ ? static_cast<uint32_t>(cycle - now_) : 0u; };
  state = {};
  auto next = std::transform(ready_.begin(), ready_.begin() + kRegisterCount, state.begin(), left);
  for (const Units& units : units_)
    next = std::transform(units.ends().begin(), units.ends().end(), next, left);
  next = state.end() - 5;
  *next++ = left(all_done_);
  *next++ = static_cast<uint32_t>(issued_);
  *next++ = static_cast<uint32_t>(element_bits_log2_);
  *next++ = static_cast<uint32_t>(group_log2_);
  *next = static_cast<uint32_t>(std::min<uint64_t>(immediate_length_, UINT32_MAX));
}

void Core::restore(const State& state, uint64_t now) {
  const auto at = [&](uint32_t left) { return now + left; };
  now_ = now;
  std::transform(state.begin(), state.begin() + kRegisterCount, ready_.begin(), at);
  auto next = state.begin() + kRegisterCount;
  for (Units& units : units_)
    for (uint64_t& end : units.ends()) end = at(*next++);
  next = state.end() - 5;
  all_done_ = at(*next++);
  issued_ = static_cast<int>(*next++);
  element_bits_log2_ = static_cast<int>(*next++);
  group_log2_ = static_cast<int>(*next++);
  immediate_length_ = *next == UINT32_MAX ? UINT64_MAX : *next;
  ++type_number_;
}

uint64_t Core::cycles_left(const State& state) {
  const uint32_t *last = state.data() + state.size() - 5, done = last[0], issued = last[1];
  return std::max<uint64_t>(done, issued > 0 ? 1 : 0);
}

bool Core::has_lines(std::span<const LineAccess> lines, uint64_t now) {
  const uint64_t soon = now + cycles_of(options_.core->latency.load);
  for (const LineAccess& access : lines) {
    if (!first_level_.access_present(access.line)) return false;
    if (last_fill_ <= soon) continue;
    for (const Fill& fill : fills_)
      if (fill.line == access.line && fill.ready > soon) return false;
  }
  return true;
}

uint64_t Core::cycles() const {
  const uint64_t issued = issued_ > 0 ? now_ + 1 : now_;
  if (is_in_order()) return std::max(issued, all_done_);
  uint64_t latest = std::max(issued, *std::max_element(ready_.begin(), ready_.begin() + kRegisterCount));
  for (const Units& units : units_) latest = std::max(latest, units.last());
  return latest;
}

}  // namespace tc::qemu
