// What became of each node of a quantised network: collected while a pass decides it, for the report.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tc {

class ArithmeticNotes {
 public:
  // `nodes` and `consumers` are those of the graph before the pass; `graph` has the values.
  ArithmeticNotes(const Graph& graph, const std::vector<Node>& nodes,
                  const std::vector<std::vector<int>>& consumers)
      : graph_(graph), nodes_(nodes), consumers_(consumers) {}

  // In the graph's order: the node was made one of integers, or stays; then `reason`, a clause, says why,
  // where the pass knows it.
  void decide(const Node& node, bool made, const std::string& reason);

  // One note for each node of the file, regions counted in their order; none where nothing of the graph is
  // quantised.
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
    ValueId value = kNoValue;  // by which its region is known
    int weight = 0;            // of several for one node of the file the first of the largest weight is told
  };
  std::vector<Entry> entries_;
  std::set<ValueId> near_integers_;  // floats that a kernel makes of integers, and need not store
  std::map<int, int> parents_;       // of values that integers connect, as a forest
  bool quantised_ = false;
};

// "`node 'a' (Conv)` …" lines of a report: how many nodes of which regions are computed in integers, and
// which stayed floats, and why.
std::vector<std::string> arithmetic_lines(const std::vector<ArithmeticNote>& notes);

// The notes of a graph and of its subgraphs, whose regions are counted on.
std::vector<ArithmeticNote> all_arithmetic(const Graph& graph);

}  // namespace tc
