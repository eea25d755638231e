// Merges what is there more than once: chains of views and transposes, equal nodes, equal constants; and the
// two forms of gathering.
#include <algorithm>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

std::vector<int64_t> permutation_of(const Node& node, size_t rank) {
  std::vector<int64_t> order =
      has_attribute(node, "perm") ? ints_attribute(node, "perm") : std::vector<int64_t>();
  if (order.empty()) {
    for (size_t i = rank; i > 0; --i) order.push_back(static_cast<int64_t>(i) - 1);
  }
  return order;
}

bool is_permute(const Node& node) { return node.op->traits.movement == OpTraits::Movement::Permute; }

// True for a transpose that moves only axes of extent 1.
bool moves_nothing(const Graph& graph, const Node& node) {
  const Shape& in = *graph[node.inputs[0]].shape;
  int64_t last = -1;
  for (int64_t axis : permutation_of(node, in.size())) {
    if (in[axis] == Dim(1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// Text that is equal for nodes that compute the same.
std::string key_of(const Node& node) {
  std::string key = node.op->name;
  for (ValueId id : node.inputs) key += text(" ", id);
  key += text(" > ", node.outputs.size());
  for (ValueId id : node.outputs) key += id == kNoValue ? "-" : "+";
  for (const auto& [name, attribute] : node.attributes) {
    key += text("\n", name, "=", attribute.index(), ":");
    std::visit(
        [&](const auto& value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, TensorPtr> || std::is_same_v<T, GraphPtr>) {
            key += text(static_cast<const void*>(value.get()));
          } else if constexpr (std::is_same_v<T, std::vector<Dim>>) {
            key += str(value);
          } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::string>) {
            key += text(value);
          } else if constexpr (std::is_same_v<T, double>) {
            key.append(reinterpret_cast<const char*>(&value), sizeof(value));
          } else if constexpr (std::is_same_v<T, std::vector<double>>) {
            key.append(reinterpret_cast<const char*>(value.data()), value.size() * sizeof(double));
          } else {
            for (const auto& part : value) key += text(part, ";");
          }
        },
        attribute);
  }
  return key;
}

// Flat indices into axes of these sizes, merged into one, for constant tuples of indices; null where the
// tuples are not constant or one is out of range.
TensorPtr places_of(const Value& tuples, const std::vector<int64_t>& sizes) {
  if (!tuples.constant || tuples.constant->shape.empty()) return nullptr;
  std::vector<int64_t> shape = tuples.constant->shape;
  const int64_t depth = shape.back();
  shape.pop_back();
  if (depth < 1 || depth > static_cast<int64_t>(sizes.size())) return nullptr;
  auto places = std::make_shared<Tensor>(DType::I64, shape);
  for (int64_t i = 0; i < places->count(); ++i) {
    int64_t place = 0;
    for (int64_t axis = 0; axis < depth; ++axis) {
      const int64_t size = sizes[axis], index = tuples.constant->as_int(i * depth + axis);
      if (index < -size || index >= size) return nullptr;
      place = place * size + (index < 0 ? index + size : index);
    }
    places->set_int(i, place);
  }
  return places;
}

}  // namespace

void choose_by_place(Graph& graph) {
  static const OpRow* const chooses = find_op("GatherND");
  std::vector<Node> nodes;
  for (Node& node : std::vector<Node>(std::move(graph.nodes))) {
    const bool applies = node.op == chooses && int_attribute(node, "batch_dims") == 0 &&
                         is_constant(*graph[node.inputs[0]].shape);
    const std::vector<int64_t> sizes =
        applies ? constant_shape(*graph[node.inputs[0]].shape) : std::vector<int64_t>();
    const TensorPtr places = applies ? places_of(graph[node.inputs[1]], sizes) : nullptr;
    if (!places) {
      nodes.push_back(std::move(node));
      continue;
    }
    // One axis for all the indexed axes, and one for the remaining ones.
    const int64_t depth = graph[node.inputs[1]].constant->shape.back();
    Shape flat = {Dim(1), Dim(1)}, chosen = shape_of(places->shape);
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      Dim& all = flat[static_cast<int64_t>(axis) < depth ? 0 : 1];
      all = all * Dim(sizes[axis]);
    }
    chosen.push_back(flat[1]);
    const Value result = graph[node.outputs[0]];
    const ValueId rows = graph.fresh_value(result.name + "_rows", result.dtype, flat);
    const ValueId which = graph.fresh_value(result.name + "_places", DType::I64, shape_of(places->shape));
    const ValueId found = graph.fresh_value(result.name + "_chosen", result.dtype, chosen);
    graph[which].constant = places;
    const auto add = [&](const char* op, std::vector<ValueId> inputs, ValueId output,
                         std::map<std::string, Attribute> attributes) {
      Node made;
      made.op = find_op(op);
      made.inputs = std::move(inputs);
      made.outputs = {output};
      made.attributes = std::move(attributes);
      made.origin = node.origin;
      nodes.push_back(std::move(made));
    };
    add("Reshape", {node.inputs[0]}, rows, {{"shape", flat}, {"allowzero", int64_t{1}}});
    add("Gather", {rows, which}, found, {{"axis", int64_t{0}}});
    add("Reshape", {found}, node.outputs[0], {{"shape", *result.shape}, {"allowzero", int64_t{1}}});
  }
  graph.nodes = std::move(nodes);
}

namespace {

// Whether the run has to check that the view's result has as many elements as its operand.
bool is_checked(const Graph& graph, const Node& view) {
  return element_count(*graph[view.inputs[0]].shape) != element_count(*graph[view.outputs[0]].shape);
}

}  // namespace

void merge_views(Graph& graph) {
  const std::vector<int> producers = graph.producers();
  for (Node& node : graph.nodes) {
    if (node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.empty()) continue;
    const int producer = producers[node.inputs[0]];
    const Node* before = producer < 0 ? nullptr : &graph.nodes[producer];
    if (before && is_permute(node) && is_permute(*before)) {
      const size_t rank = graph[node.outputs[0]].shape->size();
      const std::vector<int64_t> first = permutation_of(*before, rank), second = permutation_of(node, rank);
      std::vector<int64_t> both;
      for (int64_t axis : second) both.push_back(first[axis]);
      node.inputs = {before->inputs[0]};
      node.attributes = {{"perm", both}};
    }
    const Attribute shape = std::vector<Dim>(*graph[node.outputs[0]].shape);
    if (is_permute(node) && moves_nothing(graph, node)) {
      node.op = find_op("Reshape");
      node.attributes = {{"shape", shape}, {"allowzero", int64_t{1}}};
    }
    const int source = producers[node.inputs[0]];
    if (source >= 0 && node.op->kind == OpRow::Kind::View &&
        graph.nodes[source].op->kind == OpRow::Kind::View) {
      // Two views that are checked at run time stay: [2, 3] has as many elements as [3, 2], but each view
      // asserts that one size equals another.
      if (is_checked(graph, node) && is_checked(graph, graph.nodes[source])) continue;
      // Only the last shape of a chain of views matters.
      node.op = find_op("Reshape");
      node.inputs = {graph.nodes[source].inputs[0]};
      node.attributes = {{"shape", shape}, {"allowzero", int64_t{1}}};
    }
  }
}

void narrow_sums(Graph& graph) {
  static const OpRow* const cast = find_op("Cast");
  static const OpRow* const sum = find_op("CumSum");
  const std::vector<int> producers = graph.producers();
  const auto consumers = graph.consumers();
  const auto made_by = [&](ValueId id, const OpRow* op) -> const Node* {
    const int producer = producers[id];
    return producer >= 0 && graph.nodes[producer].op == op ? &graph.nodes[producer] : nullptr;
  };
  for (Node& node : graph.nodes) {
    if (node.op != cast) continue;
    const Node* running = made_by(node.inputs[0], sum);
    const Node* widening = running ? made_by(running->inputs[0], cast) : nullptr;
    if (!widening || only_reader(graph, consumers, node.inputs[0]) < 0) continue;
    // Integers wrap: the lower bits of a sum are the sum of the lower bits.
    const auto has = [&](ValueId id, DType dtype) { return graph[id].dtype == dtype; };
    if (!has(widening->inputs[0], DType::I32) || !has(node.inputs[0], DType::I64) ||
        !has(node.outputs[0], DType::I32))
      continue;
    Node replaced = *running;
    replaced.inputs[0] = widening->inputs[0];
    replaced.outputs = node.outputs;
    node = std::move(replaced);
  }
}

void merge_duplicates(Graph& graph) {
  // Equal constants first, so that their readers become equal.
  std::map<std::string, ValueId> constants;
  const std::set<ValueId> captured = [&] {
    std::set<ValueId> ids;
    for (const auto& capture : graph.captures) ids.insert(capture.second);
    return ids;
  }();
  std::map<ValueId, ValueId> replaced;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    constexpr size_t kLargest = 4096;
    if (!value.constant || value.constant->bytes.size() > kLargest || captured.count(static_cast<ValueId>(i)))
      continue;
    std::string key = text(name_of(value.dtype), str(shape_of(value.constant->shape)));
    key.append(reinterpret_cast<const char*>(value.constant->bytes.data()), value.constant->bytes.size());
    auto [found, fresh] = constants.try_emplace(key, static_cast<ValueId>(i));
    if (!fresh) replaced[static_cast<ValueId>(i)] = found->second;
  }
  std::map<std::string, size_t> seen;
  std::vector<bool> removed(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    for (ValueId& id : node.inputs) {
      auto found = replaced.find(id);
      if (found != replaced.end()) id = found->second;
    }
    if (node.op->kind == OpRow::Kind::Control || node.op->kind == OpRow::Kind::Expand) continue;
    auto [found, fresh] = seen.try_emplace(key_of(node), i);
    if (fresh) continue;
    const Node& first = graph.nodes[found->second];
    const bool named = std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [&](ValueId id) { return id != kNoValue && is_output(graph, id); });
    if (named) continue;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] != kNoValue) replaced[node.outputs[o]] = first.outputs[o];
    }
    removed[i] = true;
  }
  remove_nodes(graph, removed);
}

}  // namespace tc
