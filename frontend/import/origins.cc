// Where the content of a value comes from.
#include "frontend/import/origins.h"

#include <map>
#include <vector>

namespace tc {

std::set<ValueId> given_values_of(const Graph& graph, ValueId value) {
  std::map<ValueId, const Node*> producers;
  for (const Node& node : graph.nodes) {
    for (ValueId output : node.outputs) producers[output] = &node;
  }
  std::set<ValueId> found, seen;
  std::vector<ValueId> waiting = {value};
  while (!waiting.empty()) {
    const ValueId next = waiting.back();
    waiting.pop_back();
    if (next == kNoValue || !seen.insert(next).second) continue;
    if (graph[next].constant || graph[next].elements) continue;
    const auto producer = producers.find(next);
    if (producer == producers.end()) {
      found.insert(next);
    } else {
      waiting.insert(waiting.end(), producer->second->inputs.begin(), producer->second->inputs.end());
    }
  }
  return found;
}

}  // namespace tc
