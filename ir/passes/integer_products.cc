// Sums of products of quantised numbers: in integers, exactly, and scaled once.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "ir/error.h"
#include "ir/ops/rows.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"
#include "ir/passes/quantised.h"

namespace tc {
namespace {

using Contraction = OpTraits::Contraction;

constexpr double kLargestSum = 2147483647.0;   // that 32 bits hold

// The weights less their zero points, with what the sums of products need to know of each output channel.
struct Weights {
  TensorPtr numbers;                   // i8
  std::vector<double> sums, magnitudes;
  std::vector<float> scales;           // one, or one per channel
};

class Products {
 public:
  explicit Products(Graph& graph) : graph_(graph) {}

  void run() {
    consumers_ = graph_.consumers();
    old_ = std::move(graph_.nodes);
    graph_.nodes.clear();
    for (Node& node : old_) {
      if (std::optional<std::vector<Node>> made = replaced(node)) {
        for (Node& each : *made) keep(std::move(each));
      } else {
        keep(std::move(node));
      }
    }
  }

 private:
  void keep(Node node) {
    for (ValueId id : node.outputs) {
      if (id != kNoValue) makers_[id] = graph_.nodes.size();
    }
    graph_.nodes.push_back(std::move(node));
  }

  std::optional<Dequantised> dequantised(ValueId id) const {
    const auto maker = id == kNoValue ? makers_.end() : makers_.find(id);
    return maker == makers_.end() ? std::nullopt : dequantised_by(graph_, graph_.nodes[maker->second]);
  }

  std::optional<std::vector<Node>> replaced(const Node& node) {
    if (node.op->traits.of_bytes != nullptr) return product(node);
    if (moves_elements(node)) return moved(node);
    if (node.op->traits.quantisation == OpTraits::Quantisation::Quantize) return requantised(node);
    return std::nullopt;
  }

  // --- what chooses or moves elements ---

  static bool moves_elements(const Node& node) {
    const OpTraits& traits = node.op->traits;
    if (node.outputs.size() != 1 || node.inputs.empty()) return false;
    return traits.selects || node.op->kind == OpRow::Kind::View || traits.movement == OpTraits::Movement::Permute ||
           traits.movement == OpTraits::Movement::Join;
  }

  std::optional<std::vector<Node>> moved(const Node& node) {
    const bool join = node.op->traits.movement == OpTraits::Movement::Join;
    std::vector<ValueId> numbers = node.inputs;
    std::optional<Dequantised> first;
    for (size_t i = 0; i < (join ? node.inputs.size() : 1); ++i) {
      const auto each = dequantised(node.inputs[i]);
      if (!each || !each->is_byte(graph_) || !each->is_scalar() || !each->node->op->elementwise) return std::nullopt;
      if (first && !(first->same_units(*each) && graph_[first->number].dtype == graph_[each->number].dtype)) return std::nullopt;
      if (!first) first = each;
      numbers[i] = each->number;
    }
    const Node by = *first->node;
    NodeBuilder build(graph_, node);
    const ValueId number = graph_.fresh_value(graph_[node.outputs[0]].name + "_number", graph_[first->number].dtype);
    build.add_to(node.op->name, numbers, {number}, node.attributes);
    std::vector<ValueId> inputs = by.inputs;
    inputs[0] = number;
    build.add_to(by.op->name, inputs, {node.outputs[0]}, by.attributes);
    return build.take();
  }

  // Quantised again as it was.
  std::optional<std::vector<Node>> requantised(const Node& node) {
    const auto from = dequantised(node.inputs[0]);
    const auto to = quantisation_of(graph_, node);
    if (!from || !to || !from->is_scalar() || !from->same_units(*to)) return std::nullopt;
    if (graph_[from->number].dtype != graph_[node.outputs[0]].dtype || is_output(graph_, node.outputs[0])) return std::nullopt;
    NodeBuilder build(graph_, node);
    build.add_to("Identity", {from->number}, {node.outputs[0]});
    return build.take();
  }

  // --- sums of products ---

  // The axis of the weights that counts the output channels; nothing for forms that are left alone.
  std::optional<size_t> channel_axis(const Node& node) const {
    const Shape& weights = *graph_[node.inputs[1]].shape;
    if (node.op->traits.contraction == Contraction::Convolution) return 0;
    if (weights.size() != 2 || graph_[node.inputs[0]].shape->size() < 2) return std::nullopt;
    if (node.op->attribute("transB") == nullptr) return 1;
    const bool plain = float_attribute(node, "alpha") == 1 && float_attribute(node, "beta") == 1 && int_attribute(node, "transA") == 0;
    if (!plain) return std::nullopt;
    return int_attribute(node, "transB") ? 0 : 1;
  }

  std::optional<Weights> weights_of(const Dequantised& from, size_t axis) const {
    const Tensor& tensor = *graph_[from.number].constant;
    const int64_t channels = tensor.shape[axis], count = tensor.count();
    const int64_t own_axis = from.axis;
    if (!from.is_scalar() && own_axis != static_cast<int64_t>(axis)) return std::nullopt;
    int64_t inner = 1;
    for (size_t i = axis + 1; i < tensor.shape.size(); ++i) inner *= tensor.shape[i];
    Weights result{nullptr, std::vector<double>(static_cast<size_t>(channels)), std::vector<double>(static_cast<size_t>(channels)), from.scales};
    auto numbers = std::make_shared<Tensor>(DType::I8, tensor.shape);
    for (int64_t i = 0; i < count; ++i) {
      const auto channel = static_cast<size_t>(i / inner % channels);
      const int64_t number = tensor.as_int(i) - from.zero(channel);
      if (number < -128 || number > 127) return std::nullopt;
      numbers->set_int(i, number);
      result.sums[channel] += static_cast<double>(number);
      result.magnitudes[channel] += std::abs(static_cast<double>(number));
    }
    result.numbers = numbers;
    return result;
  }

  // Numbers of channels as a constant that is added to a result, or multiplies it.
  ValueId per_channel(NodeBuilder& build, const Node& node, DType type, const std::vector<double>& numbers) const {
    std::vector<int64_t> shape;
    if (numbers.size() > 1) {
      shape = {static_cast<int64_t>(numbers.size())};
      const bool convolution = node.op->traits.contraction == Contraction::Convolution;
      if (convolution) shape.resize(graph_[node.inputs[0]].shape->size() - 1, 1);
    }
    return build.constant(number_tensor(type, shape, numbers));
  }

  // Whether all sums, with so much added to them, stay within 32 bits.
  static bool fit(const std::vector<double>& magnitudes, const std::vector<double>& added) {
    for (size_t i = 0; i < added.size(); ++i) {
      if (magnitudes[i] * 255 + std::abs(added[i]) > kLargestSum) return false;
    }
    return true;
  }

  // What is added to the sums: as integers where the bias is in their units and they have room, else to the floats. False
  // where it is of another kind.
  bool find_bias(const Node& node, const Weights& weights, const std::vector<float>& scales, std::vector<double>& whole,
                 std::vector<double>& real) const {
    if (!input_given(node, 2)) return true;
    const size_t channels = whole.size();
    const auto from = dequantised(node.inputs[2]);
    const Tensor* tensor = from ? graph_[from->number].constant.get() : graph_[node.inputs[2]].constant.get();
    if (tensor == nullptr) return false;
    const auto count = static_cast<size_t>(tensor->count());
    if (count != 1 && (count != channels || tensor->shape.back() != static_cast<int64_t>(channels))) return false;
    bool units = from.has_value();
    std::vector<double> floats(channels), numbers(channels);
    for (size_t i = 0; i < channels; ++i) {
      const auto at = static_cast<int64_t>(count == 1 ? 0 : i);
      if (!from) {
        floats[i] = tensor->as_double(at);
        continue;
      }
      numbers[i] = static_cast<double>(tensor->as_int(at) - from->zero(i));
      floats[i] = static_cast<float>(numbers[i]) * from->scale(i);
      constexpr float kSame = 1e-6F;
      const float scale = scales[scales.size() == 1 ? 0 : i];
      units = units && std::abs(from->scale(i) - scale) <= kSame * scale;
    }
    for (size_t i = 0; i < channels; ++i) numbers[i] += whole[i];
    if (units && fit(weights.magnitudes, numbers)) whole = numbers;
    else real = floats;
    return true;
  }

  std::optional<std::vector<Node>> product(const Node& node) {
    const auto input = dequantised(node.inputs[0]), from = dequantised(node.inputs[1]);
    if (!input || !from || !input->is_scalar() || !input->is_byte(graph_) || !from->is_byte(graph_)) return std::nullopt;
    if (!graph_[from->number].constant || graph_[node.outputs[0]].dtype != DType::F32) return std::nullopt;
    const auto axis = channel_axis(node);
    if (!axis) return std::nullopt;
    const auto weights = weights_of(*from, *axis);
    if (!weights) return std::nullopt;
    const size_t channels = weights->sums.size();
    std::vector<float> scales;
    for (const float each : weights->scales) scales.push_back(each * input->scale(0));
    std::vector<double> whole(channels), real;
    for (size_t i = 0; i < channels; ++i) whole[i] = -weights->sums[i] * static_cast<double>(input->zero(0));
    if (!fit(weights->magnitudes, whole) || !find_bias(node, *weights, scales, whole, real)) return std::nullopt;
    add_in_floats(*weights, scales, step_of(node.outputs[0]), whole, real);
    return write(node, *input, *weights, {scales, whole, real});
  }

  // The scale of the integer that a result becomes, where it does; else 0.
  float step_of(ValueId id) const {
    constexpr int kDeepest = 8;
    for (int depth = 0; depth < kDeepest; ++depth) {
      const int reader = only_reader(graph_, consumers_, id);
      if (reader < 0) return 0;
      const Node& node = old_[static_cast<size_t>(reader)];
      if (node.op->traits.quantisation == OpTraits::Quantisation::Quantize) {
        const auto to = quantisation_of(graph_, node);
        return to ? *std::min_element(to->scales.begin(), to->scales.end()) : 0;
      }
      if (!node.op->elementwise || node.outputs.size() != 1) return 0;
      id = node.outputs[0];
    }
    return 0;
  }

  // Sums that floats hold exactly are scaled and added to in one step; but where both are so many steps of the result that their
  // difference, rounded, would be another integer, they stay integers.
  static void add_in_floats(const Weights& weights, const std::vector<float>& scales, float step, std::vector<double>& whole,
                            std::vector<double>& real) {
    constexpr double kExact = 1 << 24, kMostSteps = 1 << 12;
    for (size_t i = 0; i < whole.size(); ++i) {
      const auto scale = static_cast<double>(scales[scales.size() == 1 ? 0 : i]);
      if (weights.magnitudes[i] * 255 > kExact || std::abs(whole[i]) > kExact) return;
      if (step > 0 && std::abs(whole[i]) * scale > kMostSteps * static_cast<double>(step)) return;
    }
    if (std::all_of(whole.begin(), whole.end(), [](double number) { return number == 0; })) return;
    real.resize(whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      real[i] += std::exchange(whole[i], 0) * static_cast<double>(scales[scales.size() == 1 ? 0 : i]);
    }
  }

  struct Epilogue {
    std::vector<float> scales;
    std::vector<double> whole, real;   // added to the sums, and to what they are scaled to; may be empty
  };

  std::vector<Node> write(const Node& node, const Dequantised& input, const Weights& weights, const Epilogue& epilogue) {
    NodeBuilder build(graph_, node);
    std::map<std::string, Attribute> attributes;
    for (const auto& [name, value] : node.attributes) {
      if (find_op(node.op->traits.of_bytes)->attribute(name) != nullptr) attributes[name] = value;
    }
    ValueId numbers = build.constant(weights.numbers);
    if (node.op->attribute("transB") != nullptr && int_attribute(node, "transB")) {
      numbers = build.add("Transpose", {numbers}, {{"perm", std::vector<int64_t>{1, 0}}});
    }
    const ValueId padded = with_padding(build, node, input, attributes);
    ValueId sum = build.add(node.op->traits.of_bytes, {padded, numbers}, attributes);
    const bool adds = std::any_of(epilogue.whole.begin(), epilogue.whole.end(), [](double number) { return number != 0; });
    if (adds) sum = build.add("Add", {sum, per_channel(build, node, DType::I32, epilogue.whole)});
    std::vector<double> scales(epilogue.scales.begin(), epilogue.scales.end());
    const ValueId scale = per_channel(build, node, DType::F32, scales);
    const ValueId real = build.add("Cast", {sum}, {{"to", std::string(name_of(DType::F32))}});
    if (epilogue.real.empty()) {
      build.add_to("Mul", {real, scale}, {node.outputs[0]});
    } else {
      const ValueId scaled = build.add("Mul", {real, scale});
      build.add_to("Add", {scaled, per_channel(build, node, DType::F32, epilogue.real)}, {node.outputs[0]});
    }
    return build.take();
  }

  // Padding of a convolution adds the number that stands for 0: itself, or where that is not 0, by elements around the map.
  ValueId with_padding(NodeBuilder& build, const Node& node, const Dequantised& input, std::map<std::string, Attribute>& attributes) {
    if (node.op->traits.contraction != Contraction::Convolution || input.zero(0) == 0) return input.number;
    const Shape& shape = *graph_[input.number].shape;
    const Shape& weights = *graph_[node.inputs[1]].shape;
    std::vector<int64_t> kernel;
    for (size_t i = 2; i < weights.size(); ++i) kernel.push_back(weights[i].constant());
    const Window window = window_of(node, {shape.begin() + 2, shape.end()}, kernel, false);
    const size_t axes = kernel.size();
    std::vector<int64_t> pads(2 * shape.size(), 0);
    bool any = false;
    for (size_t i = 0; i < axes; ++i) {
      pads[2 + i] = window.before[i];
      pads[shape.size() + 2 + i] = window.after[i];
      any = any || window.before[i] != 0 || window.after[i] != 0;
    }
    if (!any) return input.number;
    attributes.erase("pads");
    attributes.erase("auto_pad");
    const ValueId zero = build.integer(graph_[input.number].dtype, input.zero(0));
    return build.add("Pad", {input.number, zero}, {{"pads", pads}});
  }

  Graph& graph_;
  std::vector<Node> old_;
  std::vector<std::vector<int>> consumers_;
  std::map<ValueId, size_t> makers_;
};

}  // namespace

void integer_products(Graph& graph) { Products(graph).run(); }

}  // namespace tc
