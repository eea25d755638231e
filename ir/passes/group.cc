// Fusion: which nodes of a graph become one kernel.
#include "ir/passes/group.h"

#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

// More than this many nodes in one kernel gain nothing and cost registers.
constexpr size_t kLargestGroup = 24;
// A fusion is given up where more than this many nodes have to be checked for a dependence on it: the checks
// would take longer than the rest of the compilation.
constexpr size_t kMaxLookedAt = 1024;
// This many steps that bring an integer sum to its scale count as one node.
constexpr size_t kWholeSteps = 3;

using Movement = OpTraits::Movement;

// Whether the operator moves elements. It is usually fused as a producer, or is a group of its own; a change
// of layout counts as an anchor instead.
bool is_movement_row(const OpRow& row) {
  return row.traits.movement != Movement::None && row.traits.movement != Movement::Layout;
}

class Grouper {
 public:
  Grouper(const Graph& graph, bool recompute_bytes, bool change_moved_bytes)
      : graph_(graph),
        recompute_bytes_(recompute_bytes),
        change_moved_bytes_(change_moved_bytes),
        producers_(graph.producers()),
        consumers_(graph.consumers()),
        owner_(graph.nodes.size(), -1) {
    for (ValueId id : graph.outputs) graph_outputs_.insert(id);
    if (!graph.data_symbols.empty()) find_sizes();
  }

  std::vector<Group> run() {
    for (int node = 0; node < count(); ++node) {
      if (is_anchor(node)) grow(node);
    }
    for (int node = 0; node < count(); ++node) {
      if (owner_[node] < 0 && !is_part(node) && !is_changed_while_moved(node)) grow(node);
    }
    for (int node = 0; node < count(); ++node) {
      if (owner_[node] < 0) grow(node);
    }
    return ordered();
  }

 private:
  int count() const { return static_cast<int>(graph_.nodes.size()); }
  const OpRow& row(int node) const { return *graph_.nodes[node].op; }
  bool is_compute(int node) const { return row(node).kind == OpRow::Kind::Compute; }
  bool is_elementwise(int node) const { return is_compute(node) && row(node).elementwise; }
  bool is_movement(int node) const { return is_compute(node) && is_movement_row(row(node)); }
  bool is_anchor(int node) const {
    return is_compute(node) && !is_elementwise(node) && !is_movement(node) && !row(node).traits.fill;
  }
  // A part (slice or broadcast), which elementwise groups read in place and therefore may take.
  bool is_part(int node) const { return row(node).traits.movement == Movement::Part; }
  // A part that consists of whole rows: a kernel can read vectors along these rows directly from the operand.
  bool is_part_of_rows(int node) const {
    if (!is_part(node)) return false;
    const std::optional<Shape>& whole = graph_[graph_.nodes[node].inputs[0]].shape;
    const Shape* part = shape_of_output(node);
    if (!whole || !part || part->empty() || whole->size() != part->size() || whole->back() != part->back())
      return false;
    // A broadcast repeats elements.
    return std::equal(
        part->begin(), part->end(), whole->begin(),
        [](const Dim& of_part, const Dim& of_whole) { return of_whole != Dim(1) || of_part == of_whole; });
  }
  bool is_permute(int node) const { return row(node).traits.movement == Movement::Permute; }
  bool is_product(int node) const { return row(node).traits.contraction == OpTraits::Contraction::Product; }

  const Shape* shape_of_output(int node) const {
    ValueId id = graph_.nodes[node].outputs.at(0);
    return id == kNoValue || !graph_[id].shape ? nullptr : &*graph_[id].shape;
  }

  // For each node the nodes that compute the sizes that it mentions.
  void find_sizes() {
    sizes_.resize(graph_.nodes.size());
    for (int node = 0; node < count(); ++node) {
      for (const std::string& name : mentioned_symbols(graph_, graph_.nodes[node])) {
        const auto symbol = graph_.data_symbols.find(name);
        if (symbol == graph_.data_symbols.end()) continue;
        const int producer = producers_[symbol->second.source];
        if (producer >= 0 && producer != node) sizes_[node].push_back(producer);
      }
    }
  }

  // The nodes that must come before `node`: those that compute its inputs and the sizes that it mentions.
  std::vector<int> before(int node) const {
    std::vector<int> result;
    for (ValueId id : graph_.nodes[node].inputs) {
      if (id != kNoValue && producers_[id] >= 0) result.push_back(producers_[id]);
    }
    if (!sizes_.empty()) result.insert(result.end(), sizes_[node].begin(), sizes_[node].end());
    return result;
  }

  // Values that nodes of the set compute and that are read outside the set.
  std::vector<ValueId> outputs_of(const std::set<int>& set) const {
    std::vector<ValueId> result;
    for (int node : set) {
      for (ValueId id : graph_.nodes[node].outputs) {
        if (id == kNoValue) continue;
        bool outside = graph_outputs_.count(id) > 0;
        for (int reader : consumers_[id]) outside = outside || !set.count(reader);
        if (outside) result.push_back(id);
      }
    }
    return result;
  }

  // True where some input of `node` that is made outside the set depends on a node of the set.
  bool depends_through_outside(int node, const std::set<int>& set) const {
    const int first = *set.begin();
    std::vector<int> open;
    std::set<int> seen;
    auto push_inputs = [&](int of) {
      for (int producer : before(of)) {
        if (producer > first && !set.count(producer) && seen.insert(producer).second)
          open.push_back(producer);
      }
    };
    push_inputs(node);
    while (!open.empty()) {
      if (seen.size() > kMaxLookedAt) return true;
      int at = open.back();
      open.pop_back();
      for (int producer : before(at)) {
        if (set.count(producer)) return true;
      }
      push_inputs(at);
    }
    return false;
  }

  bool same_shape(int a, int b) const {
    const Shape *sa = shape_of_output(a), *sb = shape_of_output(b);
    return sa && sb && *sa == *sb;
  }

  // An elementwise step on integers of 32 or 64 bits, such as those that bring sums to their scale in fixed
  // point.
  bool is_whole_step(int node) const {
    const DType type = graph_[graph_.nodes[node].outputs[0]].dtype;
    return is_elementwise(node) && (type == DType::I32 || type == DType::I64);
  }
  // An elementwise step from bytes to as many bytes, whose other operands are constants of one element.
  bool changes_bytes(int node) const {
    const std::vector<ValueId>& inputs = graph_.nodes[node].inputs;
    const auto is_byte = [&](ValueId id) { return id != kNoValue && tc::size_of(graph_[id].dtype) == 1; };
    const auto is_one = [&](ValueId id) {
      return is_byte(id) && graph_[id].constant && graph_[id].constant->count() == 1;
    };
    return is_elementwise(node) && is_byte(graph_.nodes[node].outputs[0]) && is_byte(inputs[0]) &&
           std::all_of(inputs.begin() + 1, inputs.end(), is_one);
  }
  // A change of the sign bit, or a cast between signed and unsigned, whose bytes only a transpose reads, at
  // once or after other such steps: it can change them while it moves them.
  bool is_changed_while_moved(int node) const {
    const std::string& op = row(node).name;
    if (!change_moved_bytes_ || !changes_bytes(node) || (op != "BitwiseXor" && op != "Cast")) return false;
    const ValueId id = graph_.nodes[node].outputs[0];
    if (graph_[id].dtype == DType::Bool) return false;
    const std::vector<int>& readers = consumers_[id];
    return graph_outputs_.count(id) == 0 && readers.size() == 1 &&
           (is_permute(readers[0]) || is_changed_while_moved(readers[0]));
  }
  // A float computed from one integer: its conversion, followed by a few steps whose other operands are
  // constants.
  bool is_scaled_integer(int node) const {
    constexpr int kMaxSteps = 4;
    for (int steps = 0; steps < kMaxSteps && node >= 0; ++steps) {
      if (!is_elementwise(node) || graph_[graph_.nodes[node].outputs[0]].dtype != DType::F32) return false;
      const std::vector<ValueId>& inputs = graph_.nodes[node].inputs;
      const auto is_computed = [&](ValueId id) { return id != kNoValue && !graph_[id].constant; };
      if (std::count_if(inputs.begin(), inputs.end(), is_computed) != 1) return false;
      const ValueId computed = *std::find_if(inputs.begin(), inputs.end(), is_computed);
      const DType type = graph_[computed].dtype;
      if (type != DType::F32) return type == DType::I8 || type == DType::U8 || type == DType::I32;
      node = producers_[computed];
    }
    return false;
  }
  size_t size_of(const std::set<int>& set) const {
    const auto steps = static_cast<size_t>(
        std::count_if(set.begin(), set.end(), [&](int node) { return is_whole_step(node); }));
    return set.size() - steps + steps / kWholeSteps;
  }

  bool may_be_epilogue(int node, int anchor, const std::set<int>& set) const {
    if (owner_[node] >= 0 || size_of(set) >= kLargestGroup) return false;
    if (depends_through_outside(node, set)) return false;
    if (is_elementwise(node)) return same_shape(node, anchor) && !ends_in_transpose(set);
    return is_product(anchor) && is_permute(node);
  }

  bool ends_in_transpose(const std::set<int>& set) const {
    return std::any_of(set.begin(), set.end(), [&](int node) {
      return is_permute(node) && *set.begin() != node &&
             std::none_of(consumers_[graph_.nodes[node].outputs[0]].begin(),
                          consumers_[graph_.nodes[node].outputs[0]].end(),
                          [&](int reader) { return set.count(reader) > 0; });
    });
  }

  // Adds consumers to the set; `set` becomes the largest state that has a single output.
  void take_epilogue(int anchor, std::set<int>& set) const {
    std::set<int> attempt = set;
    while (true) {
      bool grew = false;
      for (ValueId id : outputs_of(attempt)) {
        if (graph_outputs_.count(id)) return;
        for (int reader : consumers_[id]) {
          if (attempt.count(reader) || !may_be_epilogue(reader, anchor, attempt)) continue;
          attempt.insert(reader);
          grew = true;
        }
      }
      if (!grew) return;
      if (outputs_of(attempt).size() == 1) set = attempt;
    }
  }

  // Adds producers that only the set reads: transposes and tensors of one value before matrix products;
  // transposes, parts and elementwise nodes before elementwise groups; elementwise nodes before row programs.
  void take_prologue(int anchor, std::set<int>& set) const {
    bool grew = true;
    while (grew && size_of(set) < kLargestGroup) {
      grew = false;
      for (int node : std::vector<int>(set.begin(), set.end())) {
        for (ValueId id : graph_.nodes[node].inputs) {
          if (id == kNoValue || producers_[id] < 0) continue;
          int producer = producers_[id];
          if (owner_[producer] >= 0 || set.count(producer) || graph_outputs_.count(id)) continue;
          if (graph_.nodes[producer].outputs.size() != 1) continue;
          bool only_here = std::all_of(consumers_[id].begin(), consumers_[id].end(),
                                       [&](int reader) { return set.count(reader) > 0; });
          if (!only_here) continue;
          // Fusing such producers saves traffic: they read fewer bytes than they write.
          const bool widens = row(producer).traits.quantisation == OpTraits::Quantisation::Dequantize ||
                              is_whole_step(producer) || is_scaled_integer(producer);
          bool wanted = widens && is_elementwise(node) && same_shape(producer, anchor);
          if (is_product(anchor) && node == anchor) wanted = wanted || is_permute(producer);
          if (is_product(anchor) && (node == anchor || is_permute(node)) && node_leads_to(anchor, node, set))
            wanted = wanted || is_part_of_rows(producer) || row(producer).traits.fill;
          if (recompute_bytes_ && is_product(anchor) && id == graph_.nodes[node].inputs[0])
            wanted = wanted || (node_leads_to(anchor, node, set) && changes_bytes(producer));
          if (row(anchor).traits.row_program && node_leads_to(anchor, node, set)) {
            wanted = is_elementwise(producer) && shape_of_output(producer) &&
                     graph_[graph_.nodes[anchor].inputs[0]].shape &&
                     *shape_of_output(producer) == *graph_[graph_.nodes[anchor].inputs[0]].shape;
          }
          if (is_elementwise(anchor)) {
            wanted = wanted || is_part(producer) || is_permute(producer) ||
                     (is_elementwise(producer) && same_shape(producer, anchor));
          }
          if (is_permute(anchor)) wanted = wanted || is_changed_while_moved(producer);
          if (!wanted) continue;
          set.insert(producer);
          grew = true;
        }
      }
    }
  }

  // True for the anchor itself and for nodes of the set whose results lead to it.
  bool node_leads_to(int anchor, int node, const std::set<int>& set) const {
    if (node == anchor) return true;
    for (ValueId id : graph_.nodes[node].outputs) {
      if (id == kNoValue) continue;
      for (int reader : consumers_[id]) {
        if (set.count(reader) && node_leads_to(anchor, reader, set)) return true;
      }
    }
    return false;
  }

  void grow(int anchor) {
    interruption_point();
    std::set<int> set{anchor};
    const bool alone = row(anchor).kind != OpRow::Kind::Compute || graph_.nodes[anchor].outputs.size() != 1 ||
                       row(anchor).traits.movement == Movement::Join ||
                       row(anchor).traits.movement == Movement::Layout;
    if (!alone) {
      take_epilogue(anchor, set);
      take_prologue(anchor, set);
    }
    Group group;
    group.kind = row(anchor).kind == OpRow::Kind::View      ? Group::Kind::View
                 : row(anchor).kind == OpRow::Kind::Control ? Group::Kind::Control
                                                            : Group::Kind::Compute;
    group.nodes.assign(set.begin(), set.end());
    group.outputs = outputs_of(set);
    for (int node : set) owner_[node] = static_cast<int>(groups_.size());
    groups_.push_back(std::move(group));
  }

  // Kahn's algorithm; among the ready groups it takes the one whose last node comes first in the graph.
  std::vector<Group> ordered() {
    std::vector<std::set<int>> after(groups_.size());
    std::vector<int> waiting(groups_.size(), 0);
    for (int node = 0; node < count(); ++node) {
      for (int producer : before(node)) {
        int from = owner_[producer], to = owner_[node];
        if (from != to && after[from].insert(to).second) ++waiting[to];
      }
    }
    auto key = [&](int g) { return std::pair(groups_[g].nodes.back(), g); };
    std::set<std::pair<int, int>> ready;
    for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
      if (waiting[g] == 0) ready.insert(key(g));
    }
    std::vector<Group> result;
    while (!ready.empty()) {
      int g = ready.begin()->second;
      ready.erase(ready.begin());
      result.push_back(groups_[g]);
      for (int next : after[g]) {
        if (--waiting[next] == 0) ready.insert(key(next));
      }
    }
    TC_CHECK(result.size() == groups_.size(), "fusion made a cycle of groups");
    return result;
  }

  const Graph& graph_;
  const bool recompute_bytes_, change_moved_bytes_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> consumers_;
  std::set<ValueId> graph_outputs_;
  std::vector<std::vector<int>> sizes_;  // empty where the graph computes none
  std::vector<int> owner_;
  std::vector<Group> groups_;
};

}  // namespace

std::vector<Group> fuse_groups(const Graph& graph, bool recompute_bytes, bool change_moved_bytes) {
  return Grouper(graph, recompute_bytes, change_moved_bytes).run();
}

std::string str(const Graph& graph, const std::vector<Group>& groups) {
  std::string result;
  for (const Group& group : groups) {
    result += group.kind == Group::Kind::View      ? "view"
              : group.kind == Group::Kind::Control ? "control"
                                                   : "kernel";
    for (int node : group.nodes) result += " " + graph.nodes[node].op->name;
    result += " ->";
    for (ValueId id : group.outputs) result += " " + graph[id].name;
    result += "\n";
  }
  return result;
}

}  // namespace tc
