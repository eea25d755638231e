// Layer normalisation spelled out as primitive operators becomes one operator again.
#include <algorithm>

#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

bool is(const Node& node, BinaryOp op) { return node.op->traits.binary == op; }

// Follows the graph backwards from the last node of the pattern.
class Matcher {
 public:
  explicit Matcher(const Graph& graph) : graph_(graph), producers_(graph.producers()), consumers_(graph.consumers()) {}

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
        const Node* maker = only(last.inputs[i]);
        if (!maker || !is_vector(last.inputs[1 - i])) continue;
        product = maker;
        match.bias = last.inputs[1 - i];
      }
      if (product == &last) return std::nullopt;
    }
    if (!is(*product, BinaryOp::Mul)) return std::nullopt;
    for (int i : {0, 1}) {
      const Node* quotient = only(product->inputs[i]);
      if (!quotient || !is_vector(product->inputs[1 - i])) continue;
      match.scale = product->inputs[1 - i];
      if (match_quotient(*quotient, match)) return match;
    }
    return std::nullopt;
  }

 private:
  const Node* maker(ValueId id) const {
    return id == kNoValue || producers_[id] < 0 ? nullptr : &graph_.nodes[producers_[id]];
  }
  // The maker of a value that one node reads.
  const Node* only(ValueId id) const {
    return maker(id) && only_reader(graph_, consumers_, id) >= 0 ? maker(id) : nullptr;
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
      const Node* difference = maker(centred);
      if (!difference || !is(*difference, BinaryOp::Sub)) return false;
      const Node* mean = only(difference->inputs[1]);
      if (!mean || !is_mean(*mean) || mean->inputs[0] != difference->inputs[0]) return false;
      match.input = difference->inputs[0];
      match.epsilon = *epsilon;
      return true;
    }
    return false;
  }

  bool is_mean(const Node& node) const {
    if (node.op->name != "ReduceMean" || !int_attribute(node, "keepdims") || !has_attribute(node, "axes")) return false;
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
  for (const auto& [index, match] : found) {
    Node& node = graph.nodes[index];
    node.op = find_op("LayerNormalization");
    node.inputs = {match.input, match.scale, match.bias};
    node.attributes = {{"axis", int64_t{-1}}, {"epsilon", match.epsilon}};
  }
}

}  // namespace tc
