// Quantised values as graph passes see them, and in which units they are computed.
#include "ir/passes/quantised.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ir/ops/rows.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

using Quantisation = OpTraits::Quantisation;

std::optional<Dequantised> units_of(const Graph& graph, const Node& node) {
  const Value& scale = graph[node.inputs[1]];
  if (!scale.constant || scale.dtype != DType::F32 || scale.shape->size() > 1 ||
      int_attribute(node, "block_size") != 0)
    return std::nullopt;
  Dequantised result;
  result.node = &node;
  for (int64_t i = 0; i < scale.constant->count(); ++i) {
    const auto number = static_cast<float>(scale.constant->as_double(i));
    if (!std::isfinite(number) || number <= 0) return std::nullopt;
    result.scales.push_back(number);
  }
  if (input_given(node, 2)) {
    const Value& zero = graph[node.inputs[2]];
    if (!zero.constant || !is_integer(zero.dtype) || zero.shape->size() > 1) return std::nullopt;
    for (int64_t i = 0; i < zero.constant->count(); ++i) result.zeros.push_back(zero.constant->as_int(i));
  }
  if (result.scales.empty()) return std::nullopt;
  const auto rank = static_cast<int64_t>(graph[node.inputs[0]].shape->size());
  result.axis = int_attribute(node, "axis");
  if (result.axis < 0) result.axis += rank;
  return result;
}

// Multiplies a value by a factor by multiplying the constants from which the value is computed.
class Units {
 public:
  explicit Units(Graph& graph)
      : graph_(graph), producers_(graph.producers()), consumers_(graph.consumers()) {}

  void run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      const auto to = node.op->traits.quantisation == Quantisation::Quantize ? quantisation_of(graph_, node)
                                                                             : std::nullopt;
      if (!to || !to->is_scalar() || to->scale(0) == 1 || !has_default_precision(node)) continue;
      changes_.clear();
      if (!collect(node.inputs[0], static_cast<int>(i), 0)) continue;
      const double factor = 1 / static_cast<double>(to->scale(0));
      for (const auto& [maker, input] : changes_)
        scale(graph_.nodes[static_cast<size_t>(maker)], input, factor);
      graph_.nodes[i].inputs[1] = graph_.add_constant("one", number_tensor(DType::F32, {}, {1}));
      if (const int reader = reader_that_dequantises(i); reader >= 0)
        quantised_then_dequantised_[i] = static_cast<size_t>(reader);
    }
    round_in_place();
  }

 private:
  // The node that alone reads the integers and dequantises them for an elementwise node, if that node will be
  // fused after the sum that the integers come from; else -1. It will if its other operands are constants or
  // stored as integers, as those that come from a later sum are.
  int reader_that_dequantises(size_t node) const {
    const ValueId number = graph_.nodes[node].outputs[0];
    const int reader = only_reader(graph_, consumers_, number);
    if (reader < 0 || bits_of(graph_[number].dtype) > 16) return -1;
    const Node& back = graph_.nodes[static_cast<size_t>(reader)];
    const auto from = dequantised_by(graph_, back);
    const auto own = quantisation_of(graph_, graph_.nodes[node]);
    const int next = from && from->is_scalar() && from->zero(0) == own->zero(0)
                         ? only_reader(graph_, consumers_, back.outputs[0])
                         : -1;
    if (next < 0 || !graph_.nodes[static_cast<size_t>(next)].op->elementwise) return -1;
    for (const ValueId other : graph_.nodes[static_cast<size_t>(next)].inputs) {
      if (other == kNoValue || other == back.outputs[0] || graph_[other].constant) continue;
      const int maker = producers_[static_cast<size_t>(other)];
      if (maker < 0 ||
          graph_.nodes[static_cast<size_t>(maker)].op->traits.quantisation != Quantisation::Dequantize)
        return -1;
      const ValueId bytes = graph_.nodes[static_cast<size_t>(maker)].inputs[0];
      const bool is_stored = only_reader(graph_, consumers_, bytes) < 0;
      // Of the sums whose results it reads, the elementwise node is fused with the first
      // (ir/passes/group.cc).
      const int own_sum = first_sum(number, 0), other_sum = first_sum(bytes, 0);
      if (!is_stored && (own_sum < 0 || other_sum < 0 || own_sum >= other_sum)) return -1;
    }
    return reader;
  }

  // Of the sums of products from which the value is computed by elementwise nodes, the one that comes first
  // in the graph; else -1.
  int first_sum(ValueId id, int depth) const {
    constexpr int kDeepest = 8;
    // `producers_` does not cover the constants that this pass has added.
    if (id == kNoValue || static_cast<size_t>(id) >= producers_.size() || depth > kDeepest) return -1;
    const int maker = producers_[static_cast<size_t>(id)];
    if (maker < 0) return -1;
    const Node& node = graph_.nodes[static_cast<size_t>(maker)];
    if (node.op->traits.contraction != OpTraits::Contraction::None) return maker;
    if (!node.op->elementwise) return -1;
    int first = -1;
    for (const ValueId input : node.inputs) {
      const int found = first_sum(input, depth + 1);
      if (found >= 0 && (first < 0 || found < first)) first = found;
    }
    return first;
  }

  // Values that are quantised and then directly dequantised stay floats and are only rounded.
  void round_in_place() {
    if (quantised_then_dequantised_.empty()) return;
    std::map<size_t, ValueId> whole;  // by the index of the dequantising node
    std::vector<Node> old = std::move(graph_.nodes), nodes;
    graph_.nodes.clear();
    for (size_t i = 0; i < old.size(); ++i) {
      NodeBuilder build(graph_, old[i]);
      if (const auto found = quantised_then_dequantised_.find(i);
          found != quantised_then_dequantised_.end()) {
        const auto own = quantisation_of(graph_, old[i]);
        const DType type = graph_[old[i].outputs[0]].dtype;
        const double size = std::ldexp(1.0, static_cast<int>(bits_of(type))),
                     low = is_signed(type) ? -size / 2 : 0;
        const auto zero = static_cast<double>(own->zero(0));
        const ValueId cut =
            build.add("Clip", {old[i].inputs[0]}, {{"min", low - zero}, {"max", low + size - 1 - zero}});
        whole[found->second] = build.add("Round", {cut});
      } else if (const auto back = whole.find(i); back != whole.end()) {
        build.add_to("Mul", {back->second, old[i].inputs[1]}, {old[i].outputs[0]});
      } else {
        nodes.push_back(std::move(old[i]));
        continue;
      }
      for (Node& each : build.take()) nodes.push_back(std::move(each));
    }
    graph_.nodes = std::move(nodes);
  }

  static bool has_default_precision(const Node& node) { return string_attribute(node, "precision").empty(); }

  bool is_constant(ValueId id) const { return graph_[id].constant && graph_[id].dtype == DType::F32; }

  // Whether the value is a 32-bit integer converted to float.
  bool is_whole(ValueId id) const {
    const int maker = producers_[static_cast<size_t>(id)];
    if (maker < 0) return false;
    const Node& node = graph_.nodes[static_cast<size_t>(maker)];
    return node.inputs.size() == 1 && node.op->elementwise && graph_[id].dtype == DType::F32 &&
           graph_[node.inputs[0]].dtype == DType::I32;
  }

  bool collect(ValueId id, int reader, int depth) {
    constexpr int kDeepest = 8;
    const int maker = producers_[static_cast<size_t>(id)];
    if (depth > kDeepest || maker < 0 || only_reader(graph_, consumers_, id) != reader ||
        graph_[id].dtype != DType::F32)
      return false;
    const Node& node = graph_.nodes[static_cast<size_t>(maker)];
    if (node.op->traits.quantisation == Quantisation::Dequantize) {
      if (!dequantised_by(graph_, node)) return false;
      changes_.emplace_back(maker, 1);
      return true;
    }
    const auto op = node.op->traits.binary;
    if (op == BinaryOp::Mul) {
      for (const int i : {0, 1}) {
        if (!is_constant(node.inputs[static_cast<size_t>(i)]) ||
            !is_whole(node.inputs[static_cast<size_t>(1 - i)]))
          continue;
        changes_.emplace_back(maker, i);
        return true;
      }
      return false;
    }
    if (op == BinaryOp::Add || op == BinaryOp::Sub) {
      if (node.inputs[0] == node.inputs[1]) return false;
      for (const int i : {0, 1}) {
        const ValueId operand = node.inputs[static_cast<size_t>(i)];
        if (is_constant(operand)) changes_.emplace_back(maker, i);
        else if (!collect(operand, maker, depth + 1)) return false;
      }
      return true;
    }
    return node.op->traits.homogeneous && node.inputs.size() == 1 &&
           collect(node.inputs[0], maker, depth + 1);
  }

  void scale(Node& node, int input, double factor) {
    auto tensor = std::make_shared<Tensor>(*graph_[node.inputs[static_cast<size_t>(input)]].constant);
    for (int64_t i = 0; i < tensor->count(); ++i) tensor->set(i, tensor->as_double(i) * factor);
    node.inputs[static_cast<size_t>(input)] =
        graph_.add_constant(graph_[node.outputs[0]].name + "_units", tensor);
  }

  Graph& graph_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> consumers_;
  std::map<size_t, size_t> quantised_then_dequantised_;  // quantising nodes, with the nodes that dequantise
  std::vector<std::pair<int, int>> changes_;             // constants to multiply: node and input
};

}  // namespace

std::optional<Dequantised> dequantised_by(const Graph& graph, const Node& node) {
  if (node.op->traits.quantisation != Quantisation::Dequantize || graph[node.outputs[0]].dtype != DType::F32)
    return std::nullopt;
  auto result = units_of(graph, node);
  if (result) result->number = node.inputs[0];
  return result;
}

std::optional<Dequantised> quantisation_of(const Graph& graph, const Node& node) {
  if (node.op->traits.quantisation != Quantisation::Quantize || graph[node.inputs[0]].dtype != DType::F32)
    return std::nullopt;
  auto result = units_of(graph, node);
  if (result) result->number = node.outputs[0];
  return result;
}

bool moves_elements(const Graph& graph, const Node& node) {
  using Movement = OpTraits::Movement;
  const OpTraits& traits = node.op->traits;
  if (node.inputs.empty() || node.inputs[0] == kNoValue) return false;
  if (traits.movement == Movement::Split) return true;
  if (node.outputs.size() != 1) return false;
  if (node.op->name == "Resize") {
    // Nearest neighbour: each table of indices (every second input) has one column, and no index is outside.
    for (size_t i = 1; i < node.inputs.size(); i += 2) {
      const TensorPtr table = graph[node.inputs[i]].constant;
      if (!table || table->shape.size() != 2 || table->shape[1] != 1) return false;
      for (int64_t row = 0; row < table->count(); ++row) {
        if (table->as_int(row) < 0) return false;
      }
    }
    return true;
  }
  return traits.selects || node.op->kind == OpRow::Kind::View || traits.movement == Movement::Permute ||
         traits.movement == Movement::Join || traits.movement == Movement::Part;
}

void quantised_units(Graph& graph) { Units(graph).run(); }

void repeat_dequantisation(Graph& graph) {
  const auto consumers = graph.consumers();
  const auto producers = graph.producers();
  std::vector<Node> old = std::move(graph.nodes), nodes;
  graph.nodes.clear();
  std::set<ValueId> taken;
  for (size_t i = 0; i < old.size(); ++i) {
    Node node = old[i];
    for (ValueId& id : node.inputs) {
      if (id == kNoValue || producers[static_cast<size_t>(id)] < 0 ||
          consumers[static_cast<size_t>(id)].size() < 2)
        continue;
      const Node& maker = old[static_cast<size_t>(producers[static_cast<size_t>(id)])];
      if (maker.op->traits.quantisation != Quantisation::Dequantize || taken.insert(id).second) continue;
      Node copy = maker;
      copy.outputs = {graph.fresh_value(graph[id].name, graph[id].dtype, graph[id].shape)};
      id = copy.outputs[0];
      nodes.push_back(std::move(copy));
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace tc
