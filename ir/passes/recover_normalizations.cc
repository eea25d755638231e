// Turns normalisations that are written as primitive operators into one operator.
#include <algorithm>
#include <map>

#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

bool is(const Node& node, BinaryOp op) { return node.op->traits.binary == op; }

bool all_are(const Node& node, const char* name, int64_t value) {
  const std::vector<int64_t> given =
      has_attribute(node, name) ? ints_attribute(node, name) : std::vector<int64_t>();
  return std::all_of(given.begin(), given.end(), [&](int64_t each) { return each == value; });
}

// How many channels the pool averages, if it is a pool over the channels of a tensor of this shape, which
// have been made the third axis and padded with equally many zeros before and after; else 0.
int64_t channels_of_pool(const Graph& graph, const Node& pad, const Node& pool, const Shape& shape) {
  const Shape& padded = *graph[pad.inputs[0]].shape;
  const std::vector<int64_t> window = ints_attribute(pool, "kernel_shape");
  if (shape.size() < 2 || padded.size() < 3 || padded[0] != shape[0] || padded[1] != Dim(1) ||
      padded[2] != shape[1])
    return 0;
  const int64_t size = window[0];
  if (size % 2 == 0 || std::any_of(window.begin() + 1, window.end(), [](int64_t each) { return each != 1; }))
    return 0;
  if (!all_are(pool, "strides", 1) || !all_are(pool, "dilations", 1) || !all_are(pool, "pads", 0)) return 0;
  if (string_attribute(pool, "auto_pad") != "NOTSET" || string_attribute(pad, "mode") != "constant" ||
      !has_attribute(pad, "pads"))
    return 0;
  if (pad.inputs.size() > 1 && pad.inputs[1] != kNoValue && scalar_of(graph, pad.inputs[1]) != 0.0) return 0;
  const std::vector<Dim> pads = dims_attribute(pad, "pads");
  for (size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] != Dim(i % padded.size() == 2 ? size / 2 : 0)) return 0;
  }
  return size;
}

// Follows the graph backwards from the last node of the pattern.
class Matcher {
 public:
  explicit Matcher(const Graph& graph)
      : graph_(graph), producers_(graph.producers()), consumers_(graph.consumers()) {}

  struct Match {
    ValueId input = kNoValue, scale = kNoValue, bias = kNoValue;
    double epsilon = 0;
  };

  // (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale + bias, over the last axis.
  std::optional<Match> match(const Node& last) const {
    Match match;
    const Node* product = &last;
    if (is(last, BinaryOp::Add)) {
      for (int i : {0, 1}) {
        const Node* producer = only(last.inputs[i]);
        if (!producer || !is_vector(last.inputs[1 - i])) continue;
        product = producer;
        match.bias = last.inputs[1 - i];
      }
      if (product == &last) return std::nullopt;
    }
    if (!is(*product, BinaryOp::Mul)) return std::nullopt;
    for (int i : {0, 1}) {
      const Node* quotient = only(product->inputs[i]);
      if (!quotient || !is_vector(product->inputs[1 - i])) continue;
      match.scale = product->inputs[1 - i];
      if (match_quotient(*quotient, match) && stays_inside(match.scale, match.input) &&
          stays_inside(match.bias, match.input))
        return match;
    }
    return std::nullopt;
  }

  // x / (bias + alpha * mean of x * x over `size` channels, with zeros beyond the first and last)^beta, as
  // PyTorch spells it: the channels are an axis of their own in a pool.
  std::optional<std::map<std::string, Attribute>> match_response(const Node& quotient) const {
    if (!is(quotient, BinaryOp::Div)) return std::nullopt;
    const ValueId input = quotient.inputs[0];
    const auto power = with_constant(only(quotient.inputs[1]), BinaryOp::Pow);
    const auto sum = power ? with_constant(only(power->first), BinaryOp::Add) : std::nullopt;
    const auto scaled = sum ? with_constant(only(sum->first), BinaryOp::Mul) : std::nullopt;
    const Node* flat = scaled ? only(scaled->first) : nullptr;
    const Node* pool = flat && flat->op->kind == OpRow::Kind::View ? only(flat->inputs[0]) : nullptr;
    const Node* pad = pool && pool->op->name == "AveragePool" ? only(pool->inputs[0]) : nullptr;
    const Node* deep = pad && pad->op->name == "Pad" ? only(pad->inputs[0]) : nullptr;
    const Node* square = deep && deep->op->kind == OpRow::Kind::View ? only(deep->inputs[0]) : nullptr;
    if (!square || !is_square_of(*square, input)) return std::nullopt;
    const int64_t size = channels_of_pool(graph_, *pad, *pool, *graph_[input].shape);
    if (size == 0) return std::nullopt;
    return std::map<std::string, Attribute>{
        {"size", size}, {"alpha", scaled->second}, {"bias", sum->second}, {"beta", power->second}};
  }

 private:
  const Node* producer(ValueId id) const {
    return id == kNoValue || producers_[id] < 0 ? nullptr : &graph_.nodes[producers_[id]];
  }
  // The node that computes a value with only one reader; else null.
  const Node* only(ValueId id) const {
    return producer(id) && only_reader(graph_, consumers_, id) >= 0 ? producer(id) : nullptr;
  }
  // Whether a vector is no longer than the input's rows. A row of one element would broadcast to a longer
  // vector.
  bool stays_inside(ValueId vector, ValueId input) const {
    const Dim& length = graph_[vector].shape->back();
    return length == Dim(1) || length == graph_[input].shape->back();
  }
  bool is_vector(ValueId id) const {
    const Value& value = graph_[id];
    return value.constant && value.shape->size() == 1 && is_float(value.dtype);
  }

  bool match_quotient(const Node& quotient, Match& match) const {
    if (!is(quotient, BinaryOp::Div)) return false;
    const ValueId centred = quotient.inputs[0];
    const Node* root = only(quotient.inputs[1]);
    if (!root || root->op->traits.unary != UnaryOp::Sqrt) return false;
    const Node* sum = only(root->inputs[0]);
    if (!sum || !is(*sum, BinaryOp::Add)) return false;
    for (int i : {0, 1}) {
      const auto epsilon = scalar_of(graph_, sum->inputs[1 - i]);
      const Node* variance = only(sum->inputs[i]);
      if (!epsilon || !variance || !is_mean(*variance)) continue;
      const Node* square = only(variance->inputs[0]);
      if (!square || !is_square_of(*square, centred)) continue;
      const Node* difference = producer(centred);
      if (!difference || !is(*difference, BinaryOp::Sub)) return false;
      const Node* mean = only(difference->inputs[1]);
      if (!mean || !is_mean(*mean) || mean->inputs[0] != difference->inputs[0]) return false;
      match.input = difference->inputs[0];
      match.epsilon = *epsilon;
      return true;
    }
    return false;
  }

  // The operand and the constant of a binary operation: the constant is the second operand or, if the
  // operation commutes, the first.
  std::optional<std::pair<ValueId, double>> with_constant(const Node* node, BinaryOp op) const {
    if (!node || !is(*node, op)) return std::nullopt;
    for (int i : {1, 0}) {
      if (i == 0 && op == BinaryOp::Pow) break;
      if (const auto number = scalar_of(graph_, node->inputs[i]))
        return std::make_pair(node->inputs[1 - i], *number);
    }
    return std::nullopt;
  }

  bool is_mean(const Node& node) const {
    if (node.op->name != "ReduceMean" || !int_attribute(node, "keepdims") || !has_attribute(node, "axes"))
      return false;
    const std::vector<int64_t> axes = ints_attribute(node, "axes");
    const int64_t rank = static_cast<int64_t>(graph_[node.inputs[0]].shape->size());
    return axes.size() == 1 && (axes[0] == -1 || axes[0] == rank - 1);
  }

  bool is_square_of(const Node& node, ValueId id) const {
    if (is(node, BinaryOp::Pow)) return node.inputs[0] == id && scalar_of(graph_, node.inputs[1]) == 2.0;
    return is(node, BinaryOp::Mul) && node.inputs[0] == id && node.inputs[1] == id;
  }

  const Graph& graph_;
  std::vector<int> producers_;
  std::vector<std::vector<int>> consumers_;
};

}  // namespace

void recover_normalizations(Graph& graph) {
  const Matcher matcher(graph);
  std::vector<std::pair<size_t, Matcher::Match>> found;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!is(node, BinaryOp::Add)) continue;
    if (auto match = matcher.match(node)) found.push_back({i, *match});
  }
  std::map<size_t, std::map<std::string, Attribute>> responses;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (auto attributes = matcher.match_response(graph.nodes[i])) responses[i] = std::move(*attributes);
  }
  for (auto& [index, attributes] : responses) {
    Node& node = graph.nodes[index];
    node.op = find_op("LRN");
    node.inputs = {node.inputs[0]};
    node.attributes = std::move(attributes);
  }
  for (const auto& [index, match] : found) {
    Node& node = graph.nodes[index];
    node.op = find_op("LayerNormalization");
    node.inputs = {match.input, match.scale, match.bias};
    node.attributes = {{"axis", int64_t{-1}}, {"epsilon", match.epsilon}};
  }
}

}  // namespace tc
