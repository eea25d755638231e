// Which value is too large, and what made it.
#include "frontend/pipeline/memory_limit.h"

#include <unistd.h>

#include <algorithm>

#include "ir/error.h"

namespace tc {

int64_t machine_memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : INT64_MAX;
}

void check_memory(const Graph& graph, ValueId id, int64_t limit) {
  const Value& value = graph[id];
  const Dim elements = element_count(*value.shape);
  const int64_t size = static_cast<int64_t>(size_of(value.dtype));
  if (!elements.is_constant() || elements.constant() <= limit / size) return;
  const int maker = graph.producers()[id];
  fail(ErrorKind::Unsupported, maker < 0 ? text("input '", value.name, "'") : graph.nodes[maker].origin.str(), ": tensor '",
       value.name, "' of shape ", str(*value.shape), " takes ", elements.constant() * size, " bytes, but a model may use ",
       limit, " at most; check the sizes that the model is given, or give it more by max_ram (default: the memory of this machine)");
}

void check_memory(const Plan& plan, int threads, int64_t limit) {
  constexpr size_t kNamed = 3;
  if (!plan.arena_bytes.is_constant()) return;
  __int128 constants = 0;
  for (const PlanConstant& constant : plan.constants) constants += constant.byte_count();
  const __int128 working = plan.arena_bytes.constant() + static_cast<__int128>(plan.scratch_bytes) * threads;
  if (constants + working <= limit) return;
  std::vector<std::pair<int64_t, std::string>> tensors;
  for (const ArenaBlock& block : plan.blocks) {
    if (block.bytes.is_constant()) tensors.emplace_back(-block.bytes.constant(), block.name);
  }
  std::sort(tensors.begin(), tensors.end());
  std::string largest;
  for (size_t i = 0; i < tensors.size() && i < kNamed; ++i) {
    largest += text(i ? ", '" : "; its largest tensors are '", tensors[i].second, "' (", -tensors[i].first, " bytes)");
  }
  fail(ErrorKind::Unsupported, "model '", plan.model, "' needs ", static_cast<int64_t>(constants), " bytes for constants and ",
       static_cast<int64_t>(working), " to work in, but it may use ", limit, " at most", largest,
       "; use smaller sizes or fewer threads, or give it more by max_ram (default: the memory of this machine)");
}

}  // namespace tc
