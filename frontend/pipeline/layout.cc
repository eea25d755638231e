// Chooses the layout of activations over the whole graph: which values have blocked channels.
#include "frontend/pipeline/layout.h"

#include <algorithm>

#include "ir/ops/op.h"
#include "ir/target/narrow_product.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

using Contraction = OpTraits::Contraction;

// A map of bytes with at most so many channels has blocks of this size.
constexpr int kFewBytes = 4;
// Widths of depthwise windows for which a block should be a single register. If a block takes several
// registers, such a window leaves room for few accumulators; with single registers there is room for more
// (for 5 columns 3 and 19, for 13 both have 3). Single registers took 43 % fewer cycles for windows of 5x5
// and 7x7, and up to 40 % more for 3x3.
constexpr int64_t kMinWideWindow = 5, kMaxWideWindow = 11;
constexpr int64_t kLeastOfCommand = 4;
// A feature map has at least a batch, channels and one spatial axis.
constexpr size_t kMinRank = 3;

class LayoutChooser {
 public:
  LayoutChooser(Graph& graph, const Target& target)
      : graph_(graph),
        target_(target),
        block_(target.block),
        shuffles_(target.vector_bits > 0 && !target.scalable) {
    for (ValueId id : graph.outputs) fixed_.insert(id);
    find_single_registers();
  }

  Layouts run() {
    for (Node& node : graph_.nodes) {
      for (ValueId& input : node.inputs) {
        if (const auto found = inside_.find(input); found != inside_.end()) input = found->second;
      }
      choose(node);
    }
    insert_reorders();
    return layouts_;
  }

 private:
  // A feature map: [batch, channels, spatial axes]. The number of spatial axes makes no difference, since
  // blocks divide only the channels.
  bool is_map(ValueId id) const {
    return id != kNoValue && graph_[id].shape && rank(id) >= kMinRank &&
           (graph_[id].dtype == DType::F32 || graph_[id].dtype == DType::I32 ||
            graph_[id].dtype == DType::I64 || is_byte(id));
  }
  size_t rank(ValueId id) const { return graph_[id].shape->size(); }
  bool is_byte(ValueId id) const { return graph_[id].dtype == DType::I8 || graph_[id].dtype == DType::U8; }
  // Whether one instruction sums the products of all channels.
  bool packs_into_byte_products(ValueId id) const {
    return is_byte(id) && channels(id) > 1 && channels(id) <= kFewBytes &&
           byte_products(target_) == kFewBytes;
  }
  int64_t channels(ValueId id) const {
    const Dim& dim = (*graph_[id].shape)[1];
    return dim.is_constant() ? dim.constant() : 0;
  }
  bool worth(ValueId id) const {
    return is_map(id) &&
           (channels(id) * 2 >= block_ || packs_into_byte_products(id) || is_command(channels(id)));
  }
  // Whether the commands of an accelerator should find so many channels next to each other, although they
  // fill no block. Fewer are not worth it: commands sum up as many columns of a window.
  bool is_command(int64_t count) const {
    return target_.accelerator != nullptr && count >= kLeastOfCommand && count < block_;
  }
  bool blocked(ValueId id) const { return id != kNoValue && layouts_.count(id) > 0; }
  // The block size; the same for all values with this number of channels, but for those of a few bytes.
  int block_of(ValueId id) const {
    if (packs_into_byte_products(id)) return kFewBytes;
    if (is_command(channels(id))) return static_cast<int>(channels(id));
    return static_cast<int>(single_registers_.count(channels(id)) > 0
                                ? target_.lanes(DType::F32)
                                : target_.width_for(channels(id), block_));
  }
  bool is_depthwise(const Node& node) const {
    const int64_t groups = int_attribute(node, "group");
    return groups > 1 && groups == channels(node.inputs[0]) && groups == channels(node.outputs[0]);
  }

  // Finds the numbers of channels for which a block is a single register on an in-order core: those whose
  // depthwise convolutions do more multiply-adds in wide windows than in others.
  void find_single_registers() {
    const bool in_pairs = target_.scalable && 2 * target_.lanes(DType::F32) == block_;
    if (!in_pairs || !target_.wider_targets.empty()) return;
    std::map<int64_t, double> gains;
    for (const Node& node : graph_.nodes) {
      if (node.op->traits.contraction != Contraction::Convolution || !graph_[node.inputs[1]].constant)
        continue;
      if (!is_map(node.inputs[0]) || is_byte(node.inputs[0]) || !is_map(node.outputs[0]) ||
          !is_depthwise(node))
        continue;
      const Shape& weights = *graph_[node.inputs[1]].shape;
      const bool wide =
          weights.back().constant() >= kMinWideWindow && weights.back().constant() <= kMaxWideWindow;
      const Dim places = element_count(*graph_[node.outputs[0]].shape);
      const double work = static_cast<double>(element_count(weights).constant()) *
                          static_cast<double>(places.is_constant() ? places.constant() : 1);
      gains[channels(node.inputs[0])] += wide ? work : -work;
    }
    for (const auto& [count, gain] : gains) {
      if (gain > 0) single_registers_.insert(count);
    }
    while (leave_mixed_concats()) {}
  }
  // Removes numbers of channels that a concatenation would mix with blocks of another size, which it could
  // not join. Returns whether it removed any.
  bool leave_mixed_concats() {
    bool changed = false;
    for (const Node& node : graph_.nodes) {
      if (node.op->traits.movement != OpTraits::Movement::Join || int_attribute(node, "axis") != 1) continue;
      std::vector<ValueId> values = node.inputs;
      values.push_back(node.outputs[0]);
      if (!std::all_of(values.begin(), values.end(), [&](ValueId id) { return is_map(id); })) continue;
      const auto is_single = [&](ValueId id) { return single_registers_.count(channels(id)) > 0; };
      if (std::all_of(values.begin(), values.end(), is_single)) continue;
      for (const ValueId id : values) changed = single_registers_.erase(channels(id)) > 0 || changed;
    }
    return changed;
  }
  bool whole_blocks(ValueId id) const { return channels(id) % block_of(id) == 0; }

  bool blocks_hold_groups(const Node& node) const {
    const int64_t groups = int_attribute(node, "group"), filters = channels(node.outputs[0]) / groups;
    const int block = block_of(node.outputs[0]);
    return groups > 1 && filters > 1 && filters < block && block % filters == 0;
  }

  // A convolution can compute blocked channels where no block contains a part of a group. Where a block holds
  // several whole groups, each lane reads the channels of its own group; if the input has the plain layout,
  // that is as good.
  bool convolution_fits(const Node& node) const {
    const int64_t groups = int_attribute(node, "group");
    const int64_t in = channels(node.inputs[0]), out = channels(node.outputs[0]);
    if (groups == 1 || is_depthwise(node)) return true;
    if (blocks_hold_groups(node)) {
      return shuffles_ && in == out && whole_blocks(node.outputs[0]) && blocked(node.inputs[0]);
    }
    if ((out / groups) % block_of(node.outputs[0]) != 0) return false;
    return !groups_cut_input(node) || !blocked(node.inputs[0]);
  }
  // Whether a block of the input's channels would belong to two groups. The convolution then reads the plain
  // layout.
  bool groups_cut_input(const Node& node) const {
    const int64_t groups = int_attribute(node, "group"), in = channels(node.inputs[0]);
    if (groups == 1 || is_depthwise(node) || blocks_hold_groups(node)) return false;
    return (in / groups) % block_of(node.inputs[0]) != 0;
  }

  bool transposed_fits(const Node& node) const {
    return int_attribute(node, "group") == 1 && graph_[node.inputs[1]].constant;
  }

  // Whether the value can be broadcast to blocked channels: it has one element, or one for each channel of a
  // map of this rank ([1, c, 1, 1] or [c, 1, 1] for a map of two spatial axes).
  bool broadcasts(ValueId id) const {
    if (!graph_[id].shape) return false;
    const Shape& shape = *graph_[id].shape;
    return is_constant(shape) && element_count(shape).constant() == 1;
  }
  bool channel_constant(ValueId id, size_t map_rank) const {
    if (!graph_[id].constant || !graph_[id].shape) return false;
    const Shape& shape = *graph_[id].shape;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape.size() - i != map_rank - 1 && shape[i] != Dim(1)) return false;
    }
    return true;
  }

  bool elementwise_fits(const Node& node) const {
    const ValueId out = node.outputs[0];
    bool any = false;
    for (ValueId id : node.inputs) {
      if (id == kNoValue || broadcasts(id) || channel_constant(id, rank(out))) continue;
      if (!is_map(id) || rank(id) != rank(out) || channels(id) != channels(out) || graph_[id].constant)
        return false;
      any = any || blocked(id);
    }
    return any && (whole_blocks(out) || node.op->traits.finite_at_zero);
  }

  // Whether only convolutions of all channels read the value, as blocks of a few bytes.
  bool is_read_as_few_bytes(ValueId id) const {
    const bool moves_bytes = adds_products_in_scalars(target_) || sums_are_scalars(target_.matrix);
    if (!moves_bytes || !is_byte(id) || channels(id) > kFewBytes || !worth(id) || block_of(id) != kFewBytes)
      return false;
    bool any = false;
    for (const Node& node : graph_.nodes) {
      for (const ValueId input : node.inputs) {
        if (input != id) continue;
        any = true;
        if (node.op->traits.contraction != Contraction::Convolution || input != node.inputs[0] ||
            !wants_blocked(node, input))
          return false;
      }
    }
    return any;
  }

  // Whether the node can compute its output in blocks, and gains by it.
  bool fits_blocks(const Node& node) const {
    const OpTraits& traits = node.op->traits;
    const ValueId out = node.outputs[0];
    if (traits.contraction == Contraction::Convolution)
      return convolution_fits(node) && graph_[node.inputs[1]].constant;
    if (traits.contraction == Contraction::TransposedConvolution) return transposed_fits(node);
    if (traits.blocks == OpTraits::Blocks::Channelwise) {
      return blocked(node.inputs[0]) && channels(node.inputs[0]) == channels(out);
    }
    if (traits.blocks == OpTraits::Blocks::Neighbours) return blocked(node.inputs[0]) && whole_blocks(out);
    // Pixels of few channels become words at once, where code moves their bytes one by one in any case, or
    // one instruction gathers them.
    if (traits.movement == OpTraits::Movement::Permute) return is_read_as_few_bytes(out);
    // Padding of what quantised convolutions read.
    if (traits.movement == OpTraits::Movement::Pad) {
      return is_byte(out) && blocked(node.inputs[0]) && channels(node.inputs[0]) == channels(out) &&
             whole_blocks(out);
    }
    if (traits.movement == OpTraits::Movement::Join) {
      return int_attribute(node, "axis") == 1 &&
             std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
               return blocked(id) && whole_blocks(id) && block_of(id) == block_of(out);
             });
    }
    return node.op->elementwise && elementwise_fits(node);
  }

  // Whether this is an elementwise node whose operands are all in blocks and whose result is an output of the
  // graph. Such a node is computed in blocks, by the kernel that makes its operands, and its result is
  // reordered afterwards instead of an operand before.
  bool fits_before_output(const Node& node) const {
    if (!node.op->elementwise || !fits_blocks(node)) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return id == kNoValue || blocked(id) || broadcasts(id) || channel_constant(id, rank(node.outputs[0]));
    });
  }

  void choose(Node& node) {
    if (node.outputs.empty() || node.outputs.size() != 1) return;
    ValueId out = node.outputs[0];
    if (!worth(out)) return;
    if (fixed_.count(out)) {
      if (!fits_before_output(node)) return;
      const ValueId inside =
          graph_.fresh_value(graph_[out].name + "_blocked", graph_[out].dtype, graph_[out].shape);
      inside_[out] = inside;
      node.outputs[0] = out = inside;
      layouts_[out] = block_of(out);
    } else if (fits_blocks(node)) {
      layouts_[out] = block_of(out);
    }
  }

  // Whether the node reads this input with blocked channels.
  bool wants_blocked(const Node& node, ValueId input) const {
    const OpTraits& traits = node.op->traits;
    const bool out_blocked = node.outputs.size() == 1 && blocked(node.outputs[0]);
    if (traits.contraction == Contraction::Convolution) {
      return input == node.inputs[0] && worth(input) && convolution_fits(node) && !groups_cut_input(node) &&
             graph_[node.inputs[1]].constant && (out_blocked || !blocks_hold_groups(node));
    }
    if (traits.contraction == Contraction::TransposedConvolution) {
      return input == node.inputs[0] && worth(input) && out_blocked && transposed_fits(node);
    }
    if (traits.reads_blocks) return blocked(input);
    if (!out_blocked) return false;
    if (node.op->elementwise) return is_map(input) && !broadcasts(input) && !graph_[input].constant;
    return blocked(input);
  }

  static void add_reorder(std::vector<Node>& nodes, ValueId from, ValueId to, const Node& near) {
    Node copy;
    copy.op = find_op("Reorder");
    copy.inputs = {from};
    copy.outputs = {to};
    copy.origin = near.origin;
    nodes.push_back(std::move(copy));
  }

  void insert_reorders() {
    std::map<std::pair<ValueId, bool>, ValueId> made;
    std::map<ValueId, ValueId> outputs;
    for (const auto& [out, inside] : inside_) outputs[inside] = out;
    std::vector<Node> nodes;
    std::vector<Node> old = std::move(graph_.nodes);
    for (Node& node : old) {
      for (ValueId& input : node.inputs) {
        if (input == kNoValue || graph_[input].constant) continue;
        const bool want = wants_blocked(node, input);
        if (want == blocked(input)) continue;
        auto [found, fresh] = made.try_emplace({input, want}, kNoValue);
        if (fresh) {
          found->second = graph_.fresh_value(graph_[input].name + (want ? "_blocked" : "_plain"),
                                             graph_[input].dtype, graph_[input].shape);
          if (want) layouts_[found->second] = block_of(input);
          add_reorder(nodes, input, found->second, node);
        }
        input = found->second;
      }
      nodes.push_back(std::move(node));
      const auto output =
          nodes.back().outputs.size() == 1 ? outputs.find(nodes.back().outputs[0]) : outputs.end();
      if (output == outputs.end()) continue;
      const Node near = nodes.back();
      add_reorder(nodes, output->first, output->second, near);
      made[{output->first, false}] = output->second;
    }
    graph_.nodes = std::move(nodes);
  }

  Graph& graph_;
  const Target& target_;
  int block_;      // the target's block size; block_of() tells a value's
  bool shuffles_;  // a cheap instruction moves elements between lanes
  std::set<ValueId> fixed_;
  std::set<int64_t> single_registers_;  // numbers of channels whose blocks are single registers
  // For each output that is computed in blocks: the value before the reorder.
  std::map<ValueId, ValueId> inside_;
  Layouts layouts_;
};

}  // namespace

Layouts choose_layouts(Graph& graph, const Target& target) { return LayoutChooser(graph, target).run(); }

}  // namespace tc
