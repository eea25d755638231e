// Removes nodes and values that no output needs.
#include <algorithm>

#include "ir/names.h"
#include "ir/ops/op.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

// Drops values that nothing mentions, which frees the memory of constants, and renumbers the others; returns
// the positions of the captures that are kept.
std::vector<size_t> drop_values(Graph& graph, bool drop_captures) {
  std::vector<bool> mentioned(graph.values.size(), false);
  auto mention = [&](const std::vector<ValueId>& ids) {
    for (ValueId id : ids) {
      if (id != kNoValue) mentioned[id] = true;
    }
  };
  mention(graph.inputs);
  mention(graph.outputs);
  if (!drop_captures) {
    for (const auto& capture : graph.captures) mention({capture.second});
  }
  for (const Node& node : graph.nodes) {
    mention(node.inputs);
    mention(node.outputs);
  }
  std::vector<ValueId> renumbered(graph.values.size(), kNoValue);
  std::vector<Value> values;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (!mentioned[i]) continue;
    renumbered[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[i]));
  }
  graph.values = std::move(values);
  forget_names(graph);
  auto renumber = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) id = id == kNoValue ? id : renumbered[id];
  };
  renumber(graph.inputs);
  renumber(graph.outputs);
  for (Node& node : graph.nodes) {
    renumber(node.inputs);
    renumber(node.outputs);
  }
  for (auto& [name, symbol] : graph.data_symbols) symbol.source = renumbered[symbol.source];
  std::vector<size_t> kept;
  std::vector<std::pair<std::string, ValueId>> captures;
  for (size_t c = 0; c < graph.captures.size(); ++c) {
    const ValueId id = renumbered[graph.captures[c].second];
    if (id == kNoValue) continue;
    kept.push_back(c);
    captures.push_back({graph.captures[c].first, id});
  }
  graph.captures = std::move(captures);
  return kept;
}

// Drops nodes and values that no output needs, and captures if `drop_captures`; returns the positions of the
// captures that are kept.
std::vector<size_t> keep_live(Graph& graph, bool drop_captures) {
  std::vector<bool> live(graph.values.size(), false);
  for (ValueId id : graph.outputs) live[id] = true;
  // The source of a size is live as long as something mentions the size.
  auto keep_sizes = [&](const std::set<std::string>& mentioned) {
    for (const std::string& name : mentioned) {
      const auto symbol = graph.data_symbols.find(name);
      if (symbol != graph.data_symbols.end()) live[symbol->second.source] = true;
    }
  };
  std::vector<bool> removed(graph.nodes.size(), false);
  for (size_t i = graph.nodes.size(); i > 0; --i) {
    Node& node = graph.nodes[i - 1];
    const bool needed = std::any_of(node.outputs.begin(), node.outputs.end(),
                                    [&](ValueId id) { return id != kNoValue && live[id]; });
    removed[i - 1] = !needed;
    if (!needed) continue;
    const std::vector<GraphPtr> bodies = subgraphs_of(node);
    size_t first = node.inputs.size();
    for (const GraphPtr& body : bodies) first -= body->captures.size();
    std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.begin() + static_cast<int64_t>(first));
    for (const GraphPtr& body : bodies) {
      const size_t count = body->captures.size();
      for (size_t kept : keep_live(*body, true)) inputs.push_back(node.inputs[first + kept]);
      first += count;
    }
    node.inputs = inputs;
    if (!graph.data_symbols.empty()) keep_sizes(mentioned_symbols(graph, node));
    for (ValueId id : node.inputs) {
      if (id != kNoValue) live[id] = true;
    }
  }
  remove_nodes(graph, removed);
  for (Node& node : graph.nodes) {
    // Optional outputs that nothing reads are not computed; control flow and splits keep the numbering of
    // their outputs.
    const bool numbered =
        node.op->kind == OpRow::Kind::Control || node.op->traits.movement == OpTraits::Movement::Split;
    if (numbered || node.outputs.size() < 2) continue;
    for (size_t o = 1; o < node.outputs.size(); ++o) {
      if (node.outputs[o] != kNoValue && !live[node.outputs[o]]) node.outputs[o] = kNoValue;
    }
    while (node.outputs.size() > 1 && node.outputs.back() == kNoValue) node.outputs.pop_back();
  }
  for (auto symbol = graph.data_symbols.begin(); symbol != graph.data_symbols.end();) {
    symbol = live[symbol->second.source] ? std::next(symbol) : graph.data_symbols.erase(symbol);
  }
  return drop_values(graph, drop_captures);
}

}  // namespace

// Captures of this graph stay: the node that holds a subgraph drops the subgraph's captures.
void dead_code(Graph& graph) { keep_live(graph, false); }

}  // namespace tc
