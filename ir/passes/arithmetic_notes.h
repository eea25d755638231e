// How each node of a quantised network is computed, recorded for the report while the pass that decides it
// runs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tc {

class ArithmeticNotes {
 public:
  // `nodes` and `consumers` are those of the graph before the pass; `graph` holds the values.
  ArithmeticNotes(const Graph& graph, const std::vector<Node>& nodes,
                  const std::vector<std::vector<int>>& consumers)
      : graph_(graph), nodes_(nodes), consumers_(consumers) {}

  // Call it for the nodes in the graph's order. `made`: the node was rewritten to integers; otherwise it
  // stays, and `reason`, a clause, says why if the pass knows it.
  void decide(const Node& node, bool made, const std::string& reason);

  // One note for each node of the file, with regions numbered in order of appearance; no notes where nothing
  // in the graph is quantised.
  std::vector<ArithmeticNote> take() const;

 private:
  using Kind = ArithmeticNote::Kind;

  void join(const Node& node);
  int root(int value) const;
  void note(const Node& node, Kind kind, const std::string& reason);
  std::string why_not_bytes(const Node& node) const;
  bool is_float_result(const Node& node) const;
  bool of_constants(const Node& node) const;
  bool reads_quantised(const Node& node) const;

  const Graph& graph_;
  const std::vector<Node>& nodes_;
  const std::vector<std::vector<int>>& consumers_;
  struct Entry {
    ArithmeticNote note;
    ValueId value = kNoValue;  // identifies its region
    int weight = 0;            // of a node's entries the first with the largest weight is reported
  };
  std::vector<Entry> entries_;
  std::set<ValueId> near_integers_;  // floats that a kernel computes from integers and need not store
  std::map<int, int> parents_;       // union-find of values that integers connect
  bool quantised_ = false;
};

// "`node 'a' (Conv)` …" lines of a report: how many nodes of which regions are computed in integers, and
// which stayed floats, and why.
std::vector<std::string> arithmetic_lines(const std::vector<ArithmeticNote>& notes);

// The notes of a graph and of its subgraphs; the numbers of regions continue from one graph to the next.
std::vector<ArithmeticNote> all_arithmetic(const Graph& graph);

}  // namespace tc
