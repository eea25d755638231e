// Which value is too large, and what made it.
#include "frontend/pipeline/memory_limit.h"

#include <unistd.h>

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
       limit, " at most, the memory of this machine; check the sizes that the model is given");
}

}  // namespace tc
