// Fusion of an attention: two products of matrices and the row program between them become one group.
#include <algorithm>
#include <optional>
#include <set>

#include "frontend/pipeline/attention.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

class Joiner {
 public:
  Joiner(const Graph& graph, const std::vector<Group>& groups)
      : graph_(graph), groups_(groups), readers_(graph.values.size()) {
    for (size_t g = 0; g < groups.size(); ++g) {
      for (int node : groups[g].nodes) {
        for (ValueId id : graph.nodes[static_cast<size_t>(node)].inputs) {
          if (id != kNoValue) readers_[id].insert(g);
        }
      }
      for (ValueId id : groups[g].outputs) readers_[id].erase(g);
    }
    for (ValueId id : graph.outputs) readers_[id].insert(groups.size());
  }

  std::vector<Group> run(const std::function<bool(const GroupsOfAttention&)>& wanted,
                         const std::function<void(const Group&, const GroupsOfAttention&)>& partial) const {
    std::vector<std::optional<Group>> result(groups_.begin(), groups_.end());
    std::set<size_t> taken;
    for (size_t first = 0; first < groups_.size(); ++first) {
      if (taken.count(first) > 0 || !has(groups_[first], &is_product)) continue;
      const std::optional<size_t> rows = only_reader(first);
      if (!rows || !has(groups_[*rows], &is_row_program) || !along_last_axis(groups_[*rows])) continue;
      const std::optional<size_t> second = only_reader(*rows);
      if (!second || taken.count(*second) > 0 || !has(groups_[*second], &is_product)) continue;
      const GroupsOfAttention parts = {groups_[first], groups_[*rows], groups_[*second]};
      if (!wanted(parts)) continue;
      Group joined;
      for (const Group& part : parts)
        joined.nodes.insert(joined.nodes.end(), part.nodes.begin(), part.nodes.end());
      joined.outputs = groups_[*second].outputs;
      partial(joined, parts);
      taken.insert({first, *rows, *second});
      // The joined group takes the position of the last part, where all operands are computed.
      result[first].reset();
      result[*rows].reset();
      result[*second] = std::move(joined);
    }
    std::vector<Group> left;
    for (std::optional<Group>& group : result) {
      if (group) left.push_back(*std::move(group));
    }
    return left;
  }

 private:
  static bool is_product(const Node& node) {
    return node.op->traits.contraction == OpTraits::Contraction::Product;
  }
  static bool is_row_program(const Node& node) { return node.op->traits.row_program; }

  bool has(const Group& group, bool (*kind)(const Node&)) const {
    if (group.kind != Group::Kind::Compute || group.outputs.size() != 1) return false;
    return std::count_if(group.nodes.begin(), group.nodes.end(),
                         [&](int node) { return kind(graph_.nodes[static_cast<size_t>(node)]); }) == 1;
  }

  // Whether the row program runs along the last axis and its result has the shape of what it reads: rows are
  // then independent.
  bool along_last_axis(const Group& group) const {
    const ValueId result = group.outputs[0];
    for (int index : group.nodes) {
      const Node& node = graph_.nodes[static_cast<size_t>(index)];
      if (!is_row_program(node)) continue;
      if (!has_attribute(node, "axis") || !graph_[node.inputs[0]].shape || !graph_[result].shape)
        return false;
      const auto rank = static_cast<int64_t>(graph_[result].shape->size());
      const int64_t axis = int_attribute(node, "axis");
      if ((axis < 0 ? axis + rank : axis) != rank - 1 ||
          *graph_[node.inputs[0]].shape != *graph_[result].shape)
        return false;
    }
    return true;
  }

  // The only group that reads this group's result, where that is a matrix of float32.
  std::optional<size_t> only_reader(size_t group) const {
    const ValueId id = groups_[group].outputs.at(0);
    if (readers_[id].size() != 1 || *readers_[id].begin() == groups_.size()) return std::nullopt;
    const Value& value = graph_[id];
    if (value.dtype != DType::F32 || !value.shape || value.shape->size() < 2) return std::nullopt;
    return *readers_[id].begin();
  }

  const Graph& graph_;
  const std::vector<Group>& groups_;
  std::vector<std::set<size_t>>
      readers_;  // by value: the other groups that read it; groups_.size() stands for the graph's caller
};

}  // namespace

std::vector<Group> join_products(const Graph& graph, const std::vector<Group>& groups,
                                 const std::function<bool(const GroupsOfAttention&)>& wanted,
                                 const std::function<void(const Group&, const GroupsOfAttention&)>& joined) {
  return Joiner(graph, groups).run(wanted, joined);
}

}  // namespace tc
