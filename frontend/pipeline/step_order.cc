// An order of a graph's groups with a lower peak of memory in use than the model's own order.
#include "frontend/pipeline/step_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "ir/ops/op.h"

namespace tc {
namespace {

// The width of the beam search: how many beginnings of orders it keeps. Networks have few branches at a time,
// and few of their orders matter.
constexpr size_t kWidth = 48;
// With more groups the search would take seconds.
constexpr size_t kMaxGroups = 600;

class UsesFinder {
 public:
  UsesFinder(const Graph& graph, const std::vector<Group>& groups)
      : graph_(graph), groups_(groups), block_of_(graph.values.size()) {
    std::iota(block_of_.begin(), block_of_.end(), 0);
    for (const Group& group : groups) share_memory(group);
  }

  BlockUses find(const std::function<int64_t(ValueId)>& bytes) {
    std::vector<int> maker(graph_.values.size(), -1);
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (ValueId id : groups_[g].outputs) maker[id] = static_cast<int>(g);
    }
    BlockUses uses{
        std::vector<std::vector<int>>(groups_.size()), std::vector<std::vector<int>>(groups_.size()),
        std::vector<std::vector<int>>(groups_.size()), std::vector<int64_t>(graph_.values.size(), 0)};
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (ValueId id : groups_[g].outputs) {
        uses.makes[g].push_back(block_of(id));
        uses.size[block_of(id)] = std::max(uses.size[block_of(id)], bytes(id));
      }
      for (int node : groups_[g].nodes) {
        for (ValueId id : graph_.nodes[node].inputs) {
          if (id == kNoValue || maker[id] == static_cast<int>(g) || maker[id] < 0) continue;
          uses.reads[g].push_back(block_of(id));
          uses.waits_for[g].push_back(maker[id]);
        }
      }
      for (auto* list : {&uses.makes[g], &uses.reads[g], &uses.waits_for[g]}) {
        std::sort(list->begin(), list->end());
        list->erase(std::unique(list->begin(), list->end()), list->end());
      }
    }
    for (ValueId id : graph_.inputs) uses.size[block_of(id)] = 0;
    for (ValueId id : graph_.outputs) uses.size[block_of(id)] = 0;
    return uses;
  }

 private:
  int block_of(ValueId id) {
    while (block_of_[id] != id) id = block_of_[id] = block_of_[block_of_[id]];
    return id;
  }

  void share_memory(const Group& group) {
    const Node& node = graph_.nodes[group.nodes[0]];
    if (group.kind == Group::Kind::View) block_of_[block_of(node.outputs[0])] = block_of(node.inputs[0]);
    if (node.op->traits.movement != OpTraits::Movement::Join) return;
    int64_t axis = int_attribute(node, "axis");
    const Shape& shape = *graph_[node.outputs[0]].shape;
    if (axis < 0) axis += static_cast<int64_t>(shape.size());
    if (std::any_of(shape.begin(), shape.begin() + axis, [](const Dim& dim) { return dim != Dim(1); }))
      return;
    for (ValueId part : node.inputs) {
      if (!graph_[part].constant) block_of_[block_of(part)] = block_of(node.outputs[0]);
    }
  }

  const Graph& graph_;
  const std::vector<Group>& groups_;
  std::vector<int> block_of_;
};

// The beginning of an order, and what is in use at its end.
struct PartialOrder {
  std::vector<int> groups;
  std::vector<bool> done;
  std::vector<int> open;   // by block: how many groups still to come use it
  std::vector<bool> live;  // by block
  int64_t bytes = 0, peak = 0;

  bool operator<(const PartialOrder& other) const {
    return std::tie(peak, bytes, groups) < std::tie(other.peak, other.bytes, other.groups);
  }
};

void run_group(PartialOrder& order, const BlockUses& uses, int group) {
  for (int block : uses.makes[group]) {
    if (!order.live[block]) order.bytes += uses.size[block];
    order.live[block] = true;
  }
  order.peak = std::max(order.peak, order.bytes);
  const auto let_go = [&](int block) {
    if (--order.open[block] > 0 || !order.live[block]) return;
    order.live[block] = false;
    order.bytes -= uses.size[block];
  };
  for (int block : uses.makes[group]) let_go(block);
  for (int block : uses.reads[group]) let_go(block);
  order.done[group] = true;
  order.groups.push_back(group);
}

bool is_ready(const PartialOrder& order, const BlockUses& uses, int group) {
  const auto& before = uses.waits_for[group];
  return !order.done[group] &&
         std::all_of(before.begin(), before.end(), [&](int other) { return order.done[other]; });
}

// The best beginnings that are one group longer than these; for the same set of groups only the best one is
// kept.
std::vector<PartialOrder> extended(const std::vector<PartialOrder>& orders, const BlockUses& uses,
                                   int groups) {
  std::map<std::vector<bool>, PartialOrder> best;
  for (const PartialOrder& order : orders) {
    for (int group = 0; group < groups; ++group) {
      if (!is_ready(order, uses, group)) continue;
      PartialOrder next = order;
      run_group(next, uses, group);
      const auto [found, fresh] = best.try_emplace(next.done, next);
      if (!fresh && next < found->second) found->second = std::move(next);
    }
  }
  std::vector<PartialOrder> result;
  for (auto& [done, order] : best) result.push_back(std::move(order));
  const size_t kept = std::min(kWidth, result.size());
  std::partial_sort(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(kept), result.end());
  result.resize(kept);
  return result;
}

}  // namespace

BlockUses block_uses(const Graph& graph, const std::vector<Group>& groups,
                     const std::function<int64_t(ValueId)>& bytes) {
  return UsesFinder(graph, groups).find(bytes);
}

std::vector<Group> order_for_memory(const Graph& graph, const std::vector<Group>& groups,
                                    const std::function<int64_t(ValueId)>& bytes) {
  if (groups.size() > kMaxGroups) return groups;
  const BlockUses uses = block_uses(graph, groups, bytes);
  const int count = static_cast<int>(groups.size());
  PartialOrder start;
  start.done.assign(groups.size(), false);
  start.live.assign(graph.values.size(), false);
  start.open.assign(graph.values.size(), 0);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (int block : uses.makes[g]) ++start.open[block];
    for (int block : uses.reads[g]) ++start.open[block];
  }
  PartialOrder given = start;
  for (int group = 0; group < count; ++group) run_group(given, uses, group);
  std::vector<PartialOrder> orders = {start};
  for (int done = 0; done < count; ++done) orders = extended(orders, uses, count);
  if (orders.empty() || orders[0].peak >= given.peak) return groups;
  std::vector<Group> result;
  for (int group : orders[0].groups) result.push_back(groups[group]);
  return result;
}

}  // namespace tc
