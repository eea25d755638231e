// Moves quantisation before nodes that only join, move or choose elements, so that these work on bytes.
#include <algorithm>
#include <cmath>
#include <map>

#include "ir/ops/rows.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"
#include "ir/passes/quantised.h"

namespace tc {
namespace {

using Movement = OpTraits::Movement;

class Early {
 public:
  explicit Early(Graph& graph) : graph_(graph) {}

  // Moves each quantisation one node towards the inputs; false where none moved.
  bool step() {
    consumers_ = graph_.consumers();
    producers_ = graph_.producers();
    std::map<size_t, size_t> rounded;  // nodes that move elements: what quantises their result
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int reader =
          moves_only(graph_.nodes[i]) ? only_reader(graph_, consumers_, graph_.nodes[i].outputs[0]) : -1;
      if (reader >= 0 && rounds_alike(graph_.nodes[static_cast<size_t>(reader)], graph_.nodes[i]))
        rounded[i] = static_cast<size_t>(reader);
    }
    if (rounded.empty()) return false;
    std::vector<bool> gone(graph_.nodes.size(), false);
    for (const auto& [mover, rounding] : rounded) gone[rounding] = true;
    std::vector<Node> old = std::move(graph_.nodes), nodes;
    graph_.nodes.clear();
    for (size_t i = 0; i < old.size(); ++i) {
      if (gone[i]) continue;
      const auto found = rounded.find(i);
      if (found == rounded.end()) {
        nodes.push_back(std::move(old[i]));
        continue;
      }
      for (Node& each : exchanged(old[i], old[found->second])) nodes.push_back(std::move(each));
    }
    graph_.nodes = std::move(nodes);
    return true;
  }

 private:
  // Whether each element of the result is an element of an operand, or padding by a known constant.
  bool moves_only(const Node& node) const {
    if (node.inputs.empty() || node.outputs.size() != 1 || graph_[node.outputs[0]].dtype != DType::F32)
      return false;
    if (node.op->traits.movement == Movement::Pad)
      return !input_given(node, 1) || scalar_of(graph_, node.inputs[1]).has_value();
    return moves_elements(graph_, node) && !is_part_of_integers(node);
  }

  // Whether the node takes a part of a dequantised value: integer_products takes such a part of the integers
  // themselves.
  bool is_part_of_integers(const Node& node) const {
    if (node.op->traits.movement != Movement::Part) return false;
    const int maker = producers_[static_cast<size_t>(node.inputs[0])];
    return maker >= 0 && graph_.nodes[static_cast<size_t>(maker)].op->traits.quantisation ==
                             OpTraits::Quantisation::Dequantize;
  }

  // Whether the node quantises all elements to bytes in the same way, and constant operands of `mover` keep
  // their values.
  bool rounds_alike(const Node& node, const Node& mover) const {
    const auto to = node.op->traits.quantisation == OpTraits::Quantisation::Quantize
                        ? quantisation_of(graph_, node)
                        : std::nullopt;
    if (!to || !to->is_scalar() || !to->is_byte(graph_) || !string_attribute(node, "precision").empty() ||
        !input_given(node, 2))
      return false;
    const size_t operands = mover.op->traits.movement == Movement::Join ? mover.inputs.size() : 1;
    return std::none_of(mover.inputs.begin(), mover.inputs.begin() + static_cast<std::ptrdiff_t>(operands),
                        [&](ValueId id) { return id == kNoValue || graph_[id].constant; });
  }

  std::vector<Node> exchanged(const Node& mover, const Node& rounding) {
    NodeBuilder build(graph_, mover);
    std::vector<ValueId> inputs = mover.inputs;
    const bool join = mover.op->traits.movement == Movement::Join;
    for (size_t i = 0; i < (join ? inputs.size() : 1); ++i) {
      const ValueId number =
          graph_.fresh_value(graph_[inputs[i]].name + "_early", graph_[rounding.outputs[0]].dtype);
      build.add_to(rounding.op->name, {inputs[i], rounding.inputs[1], rounding.inputs[2]}, {number},
                   rounding.attributes);
      inputs[i] = number;
    }
    if (mover.op->traits.movement == Movement::Pad) {
      inputs.resize(2);
      inputs[1] = build.integer(graph_[rounding.outputs[0]].dtype, rounded(padding_of(mover), rounding));
    }
    build.add_to(mover.op->name, inputs, {rounding.outputs[0]}, mover.attributes);
    return build.take();
  }

  double padding_of(const Node& mover) const {
    return input_given(mover, 1) ? *scalar_of(graph_, mover.inputs[1]) : float_attribute(mover, "value");
  }

  // Rounds as QuantizeLinear does.
  int64_t rounded(double number, const Node& rounding) const {
    const auto to = *quantisation_of(graph_, rounding);
    const bool with_sign = is_signed(graph_[rounding.outputs[0]].dtype);
    const double steps = std::nearbyint(static_cast<double>(static_cast<float>(number) / to.scale(0))) +
                         static_cast<double>(to.zero(0));
    return static_cast<int64_t>(std::clamp(steps, with_sign ? -128.0 : 0.0, with_sign ? 127.0 : 255.0));
  }

  Graph& graph_;
  std::vector<std::vector<int>> consumers_;
  std::vector<int> producers_;
};

}  // namespace

void quantise_early(Graph& graph) {
  Early early(graph);
  while (early.step()) infer_shapes(graph);
}

}  // namespace tc
