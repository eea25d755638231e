// Small edits that graph passes share.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace tc {

// The subgraphs of a node in the order of their captures.
std::vector<GraphPtr> subgraphs_of(const Node& node);

// A map from values to the values that replace them, so that one walk over the nodes applies any number of
// replacements.
class Replacements {
 public:
  void replace(ValueId from, ValueId to) { found_[from] = to; }
  void apply(Node& node) const;
  // To all nodes and to the graph's outputs.
  void apply(Graph& graph) const;

 private:
  ValueId now(ValueId id) const;

  std::unordered_map<ValueId, ValueId> found_;
};

// Makes every later reader of `from` read `to` instead, once `readers` is applied to that reader. A graph
// output keeps its name: where `from` is one, `to` takes the name; false, and nothing is changed, where `to`
// cannot (it is an input, a constant or an output itself).
bool bypass(Graph& graph, ValueId from, ValueId to, Replacements& readers);

// The only node that reads the value, or -1 where there are none or several, or where the value is
// also an output of the graph.
int only_reader(const Graph& graph, const std::vector<std::vector<int>>& consumers, ValueId id);
bool is_output(const Graph& graph, ValueId id);

// Removes nodes by index.
void remove_nodes(Graph& graph, const std::vector<bool>& removed);

// The constant of a one-element tensor as a number, or nothing.
std::optional<double> scalar_of(const Graph& graph, ValueId id);

}  // namespace tc
