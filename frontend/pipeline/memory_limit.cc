// Which value is too large, and what made it.
#include "frontend/pipeline/memory_limit.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/plan_steps.h"
#include "ir/scratch.h"
#include "runtime/memory_present.h"

namespace tc {

int64_t machine_memory() {
  static const int64_t memory = runtime::memory_present().bytes;
  return memory;
}

void check_memory(const Graph& graph, ValueId id, int64_t limit) {
  const Value& value = graph[id];
  const Dim elements = element_count(*value.shape);
  const int64_t size = static_cast<int64_t>(size_of(value.dtype));
  if (!elements.is_constant() || elements.constant() <= limit / size) return;
  const int maker = graph.producers()[id];
  fail(
      ErrorKind::Unsupported, maker < 0 ? text("input '", value.name, "'") : graph.nodes[maker].origin.str(),
      ": tensor '", value.name, "' of shape ", str(*value.shape), " takes ", elements.constant() * size,
      " bytes, but a model may use ", limit,
      " at most; check the sizes that the model is given, or give it more by max_ram (default: half of this machine's memory)");
}

std::optional<MemoryNeed> memory_need(const Plan& plan, int threads) {
  if (!plan.arena_bytes.is_constant()) return std::nullopt;
  constexpr __int128 kMost = INT64_MAX / 2;
  const __int128 constants = constant_offsets(plan.constants).back();
  __int128 kept = 0;
  for (const KeptState& state : plan.states) {
    if (element_count(plan.inputs.at(static_cast<size_t>(state.input)).shape).is_constant())
      kept += state_bytes(plan, state);
  }
  const __int128 working = kept + plan.arena_bytes.constant() +
                           plan.first_scratch_bytes.value_or(plan.scratch_bytes) +
                           static_cast<__int128>(plan.scratch_bytes) * (threads - 1);
  return MemoryNeed{static_cast<int64_t>(std::min(constants, kMost)),
                    static_cast<int64_t>(std::min(working, kMost))};
}

bool fits(const Plan& plan, int threads, const MemoryLimits& limits) {
  const std::optional<MemoryNeed> need = memory_need(plan, threads);
  if (!need) return true;
  return limits.constants > 0 ? need->constants <= limits.constants && need->working <= limits.memory
                              : need->total() <= limits.memory;
}

namespace {

constexpr size_t kNamed = 6;

// "'a' (4000 bytes), 'b' (64 bytes) and 3 more (96 bytes)", the largest first.
std::string listed(std::vector<std::pair<int64_t, std::string>> tensors, size_t most) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string result;
  int64_t rest = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i < most) result += text(i ? ", '" : "'", tensors[i].second, "' (", tensors[i].first, " bytes)");
    else rest += tensors[i].first;
  }
  return tensors.size() > most ? text(result, " and ", tensors.size() - most, " more (", rest, " bytes)")
                               : result;
}

// The label of the first step that uses one of these blocks of the arena.
std::string first_user(const Plan& plan, const std::set<int>& blocks) {
  for (const PlanStep* step : all_steps(plan)) {
    for (const Location& location : step->locations) {
      if (location.kind == Location::Kind::Arena && blocks.count(location.index)) return step->label;
    }
  }
  return "";
}

// "; most is in use in step 'b': 'a' (4000 bytes), …"
std::string busiest_step(const Plan& plan) {
  // Bytes in use at each step at which the life of a block begins: the most is in use at one of these.
  std::map<int, __int128> in_use;
  for (const ArenaBlock& block : plan.blocks) in_use[block.first] = 0;
  const auto lives_at = [](const ArenaBlock& block, int step) {
    return block.segment < 0 && block.bytes.is_constant() && block.first <= step && step <= block.last;
  };
  for (auto& [step, bytes] : in_use) {
    for (const ArenaBlock& block : plan.blocks) {
      if (lives_at(block, step)) bytes += block.bytes.constant();
    }
  }
  if (in_use.empty()) return "";
  const auto busiest = std::max_element(in_use.begin(), in_use.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<std::pair<int64_t, std::string>> tensors;
  std::set<int> new_blocks;
  for (size_t i = 0; i < plan.blocks.size(); ++i) {
    const ArenaBlock& block = plan.blocks[i];
    if (lives_at(block, busiest->first)) tensors.emplace_back(block.bytes.constant(), block.name);
    if (block.segment < 0 && block.first == busiest->first) new_blocks.insert(static_cast<int>(i));
  }
  return text("; most is in use in step '", first_user(plan, new_blocks), "': ", listed(tensors, kNamed));
}

}  // namespace

void refuse_memory(const Plan& plan, const std::vector<std::string>& constant_names, int threads,
                   const MemoryLimits& limits) {
  const MemoryNeed need = *memory_need(plan, threads);
  const bool apart = limits.constants > 0;
  std::string constants, scratch;
  if (apart ? need.constants > limits.constants : need.constants > need.working) {
    std::vector<std::pair<int64_t, std::string>> tensors;
    for (size_t i = 0; i < plan.constants.size(); ++i)
      tensors.emplace_back(plan.constants[i].byte_count(), constant_names.at(i));
    constants = text("; its largest constants are ", listed(tensors, kNamed));
  }
  if (apart && need.constants > limits.constants) {
    fail(ErrorKind::Unsupported, "model '", plan.model, "' needs ", need.constants,
         " bytes for constants, but max_flash gives it ", limits.constants, constants,
         "; use a smaller or a quantised model, or give it more by max_flash");
  }
  if (plan.scratch_bytes > 0 && threads > 1)
    scratch = text(", and ", plan.scratch_bytes, " bytes for the intermediate results of each of ",
                   threads - 1, " other threads");
  const std::string needed =
      apart ? text(need.working, " bytes to work in")
            : text(need.constants, " bytes for constants and ", need.working, " to work in");
  fail(ErrorKind::Unsupported, "model '", plan.model, "' needs ", needed, ", but it may use ", limits.memory,
       " at most", constants, busiest_step(plan), scratch,
       "; use smaller sizes or fewer threads, or give it at least ", apart ? need.working : need.total(),
       " by max_ram (default: half of this machine's memory)");
}

}  // namespace tc
