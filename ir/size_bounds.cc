// Upper bounds of the sizes that a graph computes.
#include "ir/size_bounds.h"

#include "ir/error.h"

namespace tc {

std::map<std::string, Dim> size_bounds(const Graph& graph) {
  std::map<std::string, Dim> bounds, left;
  for (const auto& [name, symbol] : graph.data_symbols) {
    if (symbol.bound) left[name] = *symbol.bound;
  }
  while (!left.empty()) {
    const size_t before = left.size();
    for (auto symbol = left.begin(); symbol != left.end();) {
      if (symbol->second != largest(symbol->second, left)) {
        ++symbol;  // it depends on a bound that is not resolved yet
        continue;
      }
      bounds[symbol->first] = largest(symbol->second, bounds);
      symbol = left.erase(symbol);
    }
    TC_CHECK(left.size() < before, "in graph '", graph.name,
             "': bounds of sizes that are not those of each other");
  }
  return bounds;
}

}  // namespace tc
