// Small edits that graph passes share.
#include "ir/passes/edit.h"

#include <algorithm>

namespace tc {

std::vector<GraphPtr> subgraphs_of(const Node& node) {
  std::vector<GraphPtr> result;
  for (const char* name : {"then_branch", "else_branch", "body"}) {
    auto found = node.attributes.find(name);
    if (found != node.attributes.end()) result.push_back(std::get<GraphPtr>(found->second));
  }
  return result;
}

bool is_output(const Graph& graph, ValueId id) {
  return std::find(graph.outputs.begin(), graph.outputs.end(), id) != graph.outputs.end();
}

ValueId Replacements::now(ValueId id) const {
  for (auto found = found_.find(id); found != found_.end(); found = found_.find(id)) id = found->second;
  return id;
}

void Replacements::apply(Node& node) const {
  for (ValueId& id : node.inputs) id = now(id);
}

void Replacements::apply(Graph& graph) const {
  if (found_.empty()) return;
  for (Node& node : graph.nodes) apply(node);
  for (ValueId& id : graph.outputs) id = now(id);
}

bool bypass(Graph& graph, ValueId from, ValueId to, Replacements& readers) {
  if (is_output(graph, from)) {
    const bool input = std::find(graph.inputs.begin(), graph.inputs.end(), to) != graph.inputs.end();
    const bool captured = std::any_of(graph.captures.begin(), graph.captures.end(),
                                      [&](const auto& capture) { return capture.second == to; });
    if (input || captured || graph[to].constant || is_output(graph, to)) return false;
    std::swap(graph[from].name, graph[to].name);
    std::replace(graph.outputs.begin(), graph.outputs.end(), from, to);
  }
  readers.replace(from, to);
  return true;
}

int only_reader(const Graph& graph, const std::vector<std::vector<int>>& consumers, ValueId id) {
  return consumers[id].size() == 1 && !is_output(graph, id) ? consumers[id][0] : -1;
}

void remove_nodes(Graph& graph, const std::vector<bool>& removed) {
  std::vector<Node> kept;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!removed[i]) kept.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(kept);
}

std::optional<double> scalar_of(const Graph& graph, ValueId id) {
  if (id == kNoValue || !graph[id].constant || graph[id].constant->count() != 1) return std::nullopt;
  return graph[id].constant->as_double(0);
}

}  // namespace tc
