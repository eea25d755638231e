// Kernels that change parts of a tensor, and how to drop the copy of the whole tensor with which they begin.
#include "frontend/pipeline/updates.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "ir/error.h"
#include "ir/ops/keep_buffers.h"

namespace tc {
namespace {

// Whether the statement copies a whole input to an output of the same shape, each element once and to the
// same index.
bool copies_all(const Kernel& kernel, const Statement& statement) {
  if (statement.reduction != Reduction::None || !statement.constraints.empty() ||
      statement.value->kind != Expr::Kind::Load)
    return false;
  const Access &to = statement.write, &from = statement.value->access;
  const Buffer &target = kernel.buffers.at(static_cast<size_t>(to.buffer)),
               &source = kernel.buffers.at(static_cast<size_t>(from.buffer));
  if (target.scope != Scope::Output || source.scope != Scope::Input || target.dtype != source.dtype ||
      target.shape != source.shape)
    return false;
  std::set<std::string> left;
  for (const Iterator& iterator : statement.iterators) left.insert(iterator.name);
  for (size_t i = 0; i < target.shape.size(); ++i) {
    if (to.index[i].dynamic || from.index[i].dynamic || to.index[i].affine != from.index[i].affine)
      return false;
    if (target.shape[i] == Affine(1) && to.index[i].affine == Affine(0)) continue;
    const auto iterator =
        std::find_if(statement.iterators.begin(), statement.iterators.end(), [&](const Iterator& each) {
          return to.index[i].affine == Affine::variable(each.name) && each.extent == target.shape[i];
        });
    if (iterator == statement.iterators.end() || left.erase(iterator->name) == 0) return false;
  }
  return left.empty();
}

bool mentions(const Statement& statement, int buffer) {
  bool found = statement.write.buffer == buffer;
  const auto look = [&](const Expr& load) { found = found || load.access.buffer == buffer; };
  for (const Subscript& subscript : statement.write.index) {
    if (subscript.dynamic) for_each_load(subscript.dynamic, look);
  }
  for_each_load(statement.value, look);
  return found;
}

// The value that the kernel's buffer is an argument for, or kNoValue.
ValueId argument_of(const KernelPart& part, int buffer) {
  ValueId value = kNoValue;
  for_each_argument(part.kernel, [&](const Buffer& each, size_t number) {
    if (&each == &part.kernel.buffers.at(static_cast<size_t>(buffer))) value = part.arguments.at(number);
  });
  return value;
}

// Which groups each group has to come after.
class Dependences {
 public:
  Dependences(const Graph& graph, const std::vector<Group>& groups)
      : graph_(graph), groups_(groups), before_(groups.size()), root_(graph.values.size()) {
    std::iota(root_.begin(), root_.end(), 0);
    std::vector<int> maker(graph.values.size(), -1);
    for (size_t g = 0; g < groups.size(); ++g) {
      for (int node : groups[g].nodes) {
        for (ValueId id : graph.nodes[static_cast<size_t>(node)].outputs) {
          if (id != kNoValue) maker[static_cast<size_t>(id)] = static_cast<int>(g);
        }
      }
      if (groups[g].kind == Group::Kind::View) {
        const Node& view = graph.nodes[static_cast<size_t>(groups[g].nodes[0])];
        root_[static_cast<size_t>(view.outputs[0])] = root(view.inputs[0]);
      }
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      for_each_need(groups[g], [&](ValueId id) {
        const int from = maker[static_cast<size_t>(id)];
        if (from >= 0 && from != static_cast<int>(g)) before_[g].insert(from);
      });
    }
  }

  // The value whose memory this one has: the operand of a view, else the value itself.
  ValueId root(ValueId id) const { return root_[static_cast<size_t>(id)]; }

  // Makes group `later` come after all others that read the value, except for those that need its own result.
  // Returns whether that changes the order.
  bool read_before(ValueId value, size_t later) {
    bool changed = false;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (g == later || groups_[g].kind == Group::Kind::View || !reads(groups_[g], value) || needs(g, later))
        continue;
      before_[later].insert(static_cast<int>(g));
      changed = changed || g > later;
    }
    return changed;
  }

  // The groups in an order that keeps these dependences; among groups that are ready, the one that comes
  // first in the given order.
  std::vector<Group> ordered() const {
    std::vector<Group> result;
    std::vector<size_t> waiting(groups_.size());
    std::vector<std::vector<size_t>> after(groups_.size());
    std::set<size_t> ready;
    for (size_t g = 0; g < groups_.size(); ++g) {
      waiting[g] = before_[g].size();
      if (waiting[g] == 0) ready.insert(g);
      for (int each : before_[g]) after[static_cast<size_t>(each)].push_back(g);
    }
    while (!ready.empty()) {
      const size_t next = *ready.begin();
      ready.erase(ready.begin());
      result.push_back(groups_[next]);
      for (size_t each : after[next]) {
        if (--waiting[each] == 0) ready.insert(each);
      }
    }
    TC_CHECK(result.size() == groups_.size(), "groups of graph '", graph_.name, "' wait for each other");
    return result;
  }

 private:
  // Visits what the group's nodes read, and the values that hold the sizes which they mention.
  template <class Visit>
  void for_each_need(const Group& group, const Visit& visit) const {
    for (int index : group.nodes) {
      const Node& node = graph_.nodes[static_cast<size_t>(index)];
      for (ValueId id : node.inputs) {
        if (id != kNoValue) visit(id);
      }
      if (graph_.data_symbols.empty()) continue;
      for (const std::string& name : mentioned_symbols(graph_, node)) {
        const auto symbol = graph_.data_symbols.find(name);
        if (symbol != graph_.data_symbols.end()) visit(symbol->second.source);
      }
    }
  }

  bool reads(const Group& group, ValueId value) const {
    return std::any_of(group.nodes.begin(), group.nodes.end(), [&](int index) {
      const std::vector<ValueId>& inputs = graph_.nodes[static_cast<size_t>(index)].inputs;
      return std::any_of(inputs.begin(), inputs.end(),
                         [&](ValueId id) { return id != kNoValue && root(id) == value; });
    });
  }

  // Whether the group has to come after the other, directly or through groups in between.
  bool needs(size_t group, size_t other) const {
    std::set<size_t> seen;
    std::vector<size_t> open = {group};
    while (!open.empty()) {
      const size_t at = open.back();
      open.pop_back();
      if (at == other) return true;
      for (int each : before_[at]) {
        if (seen.insert(static_cast<size_t>(each)).second) open.push_back(static_cast<size_t>(each));
      }
    }
    return false;
  }

  const Graph& graph_;
  const std::vector<Group>& groups_;
  std::vector<std::set<int>> before_;
  std::vector<ValueId> root_;
};

}  // namespace

WholeCopy first_copy(const KernelPart& part) {
  const std::vector<Statement>& statements = part.kernel.statements;
  if (statements.size() < 2 || !copies_all(part.kernel, statements[0])) return {};
  const int target = statements[0].write.buffer;
  const bool goes_on = std::all_of(statements.begin() + 1, statements.end(),
                                   [&](const Statement& each) { return each.write.buffer == target; });
  if (!goes_on) return {};
  return {argument_of(part, statements[0].value->access.buffer), argument_of(part, target)};
}

void drop_first_copy(KernelPart& part) {
  Kernel& kernel = part.kernel;
  const int source = kernel.statements[0].value->access.buffer;
  kernel.statements.erase(kernel.statements.begin());
  const bool read = std::any_of(kernel.statements.begin(), kernel.statements.end(),
                                [&](const Statement& each) { return mentions(each, source); });
  if (read) return;
  const ValueId value = argument_of(part, source);
  part.arguments.erase(std::find(part.arguments.begin(), part.arguments.end(), value));
  std::vector<bool> kept(kernel.buffers.size(), true);
  kept[static_cast<size_t>(source)] = false;
  keep_buffers(kernel, kept);
}

namespace {

// The value, for which `may_be` says so, of which the group changes parts to make its output. Lowering every
// group to look at its first statement would cost too much: types and shapes rule out most.
WholeCopy changed(const Graph& graph, const Group& group, const LowersGroup& kernel_of,
                  const std::function<bool(ValueId)>& may_be) {
  if (group.kind != Group::Kind::Compute || group.nodes.size() != 1 || group.outputs.size() != 1) return {};
  const std::vector<ValueId>& inputs = graph.nodes[static_cast<size_t>(group.nodes[0])].inputs;
  const Value& result = graph[group.outputs[0]];
  const bool alike = std::any_of(inputs.begin(), inputs.end(), [&](ValueId id) {
    if (id == kNoValue || graph[id].constant) return false;
    return graph[id].dtype == result.dtype && *graph[id].shape == *result.shape && may_be(id);
  });
  return alike ? first_copy(kernel_of(group)) : WholeCopy();
}

// How many groups read each value, and once more if it is an output of the graph.
std::vector<int> readers_of(const Graph& graph, const std::vector<Group>& groups) {
  std::vector<int> readers(graph.values.size(), 0);
  for (const Group& group : groups) {
    std::set<ValueId> read;
    for (const int node : group.nodes) {
      const std::vector<ValueId>& inputs = graph.nodes[static_cast<size_t>(node)].inputs;
      read.insert(inputs.begin(), inputs.end());
    }
    read.erase(kNoValue);
    for (const ValueId id : read) ++readers[static_cast<size_t>(id)];
  }
  for (const ValueId id : graph.outputs) ++readers[static_cast<size_t>(id)];
  return readers;
}

}  // namespace

std::vector<WholeCopy> changed_alone(const Graph& graph, const std::vector<Group>& groups,
                                     const LowersGroup& kernel_of) {
  const std::vector<int> readers = readers_of(graph, groups);
  std::vector<bool> computed(graph.values.size(), false);
  for (const Group& group : groups) {
    for (const ValueId id : group.outputs) {
      if (group.kind == Group::Kind::Compute && id != kNoValue) computed[static_cast<size_t>(id)] = true;
    }
  }
  const auto is_alone = [&](ValueId id) {
    return computed[static_cast<size_t>(id)] && readers[static_cast<size_t>(id)] == 1;
  };
  std::vector<WholeCopy> result;
  for (const Group& group : groups) {
    const WholeCopy copy = changed(graph, group, kernel_of, is_alone);
    if (copy.from != kNoValue && is_alone(copy.from)) result.push_back(copy);
  }
  return result;
}

std::vector<Group> readers_first(const Graph& graph, const std::vector<Group>& groups,
                                 const LowersGroup& kernel_of) {
  const auto is_input = [&](ValueId id) {
    return std::count(graph.inputs.begin(), graph.inputs.end(), id) > 0;
  };
  std::optional<Dependences> dependences;
  bool moved = false;
  for (size_t g = 0; g < groups.size(); ++g) {
    const ValueId value = changed(graph, groups[g], kernel_of, is_input).from;
    if (value == kNoValue) continue;
    if (!dependences) dependences.emplace(graph, groups);
    moved = dependences->read_before(dependences->root(value), g) || moved;
  }
  return moved ? dependences->ordered() : groups;
}

}  // namespace tc
