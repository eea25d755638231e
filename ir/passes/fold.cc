// Computes constant nodes while compiling.
#include "ir/fold_node.h"
#include "ir/held_constants.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

// How often nodes, outputs and sizes read each value.
std::vector<int> readers_of(const Graph& graph, const std::vector<Node>& nodes) {
  std::vector<int> readers(graph.values.size(), 0);
  const auto read = [&](ValueId id) {
    if (id != kNoValue) ++readers.at(static_cast<size_t>(id));
  };
  for (const Node& node : nodes) {
    for (ValueId id : node.inputs) read(id);
  }
  for (ValueId id : graph.outputs) read(id);
  for (const auto& [name, symbol] : graph.data_symbols) read(symbol.source);
  return readers;
}

}  // namespace

void fold_constants(Graph& graph) {
  std::vector<Node> old = std::move(graph.nodes);
  graph.nodes.clear();
  std::vector<int> readers = readers_of(graph, old);
  std::vector<Node> kept;
  for (Node& node : old) {
    if (!fold_node(graph, node, kMaxFoldedOperations)) {
      kept.push_back(std::move(node));
      continue;
    }
    // Where constants are counted (ir/held_constants.h), those that no node reads any more are freed at once;
    // otherwise callers may still read them.
    for (ValueId id : node.inputs) {
      if (id != kNoValue && --readers[static_cast<size_t>(id)] == 0 && constants_are_counted())
        graph[id].constant.reset();
    }
  }
  graph.nodes = std::move(kept);
}

}  // namespace tc
