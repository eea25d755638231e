// Computes sums of products of quantised numbers exactly, in integers, and scales each sum once.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "ir/error.h"
#include "ir/ops/rows.h"
#include "ir/passes/arithmetic_notes.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"
#include "ir/passes/quantised.h"

namespace tc {
namespace {

using Contraction = OpTraits::Contraction;

constexpr double kLargestSum = 2147483647.0;  // the largest in 32 bits

// The weights, with their zero points subtracted, and for each output channel their sum and the sum of their
// magnitudes.
struct Weights {
  TensorPtr numbers;  // i8
  std::vector<double> sums, magnitudes;
  std::vector<float> scales;  // one, or one per channel
};

class Products {
 public:
  explicit Products(Graph& graph) : graph_(graph) {}

  void run() {
    consumers_ = graph_.consumers();
    old_ = std::move(graph_.nodes);
    graph_.nodes.clear();
    ArithmeticNotes notes(graph_, old_, consumers_);
    for (const Node& node : old_) {
      reason_.clear();
      std::optional<std::vector<Node>> made = replaced(node);
      notes.decide(node, made.has_value(), reason_);
      if (!made) keep(node);
      else
        for (Node& each : *made) keep(std::move(each));
    }
    graph_.arithmetic = notes.take();
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

  // Returns nothing, and records the reason, a clause, for the report.
  std::nullopt_t kept(const std::string& reason) {
    reason_ = reason;
    return std::nullopt;
  }

  std::optional<std::vector<Node>> replaced(const Node& node) {
    if (node.op->traits.of_bytes != nullptr)
      return node.op->traits.contraction == Contraction::None ? mean(node) : product(node);
    if (moves_elements(graph_, node)) return moved(node);
    if (node.op->traits.movement == OpTraits::Movement::Pad) return padded(node);
    if (node.op->traits.quantisation == OpTraits::Quantisation::Quantize) return requantised(node);
    return std::nullopt;
  }

  // Why a value cannot be read as integers of at most 8 bits, or nothing where it can. `what` names the
  // value, e.g. "its input".
  std::optional<std::string> why_no_bytes(ValueId id, const std::string& what) const {
    const auto from = dequantised(id);
    const auto maker = makers_.find(id);
    const bool quantised = maker != makers_.end() && graph_.nodes[maker->second].op->traits.quantisation ==
                                                         OpTraits::Quantisation::Dequantize;
    if (!from && quantised)
      return text("the scale or the zero point of ", what, " is no constant number or vector of floats");
    if (!from) return what + " is not quantised";
    const DType type = graph_[from->number].dtype;
    const bool narrow = is_integer(type) && bits_of(type) < 8 &&
                        graph_[from->number].constant;  // is converted to bytes while compiling
    if (!from->is_byte(graph_) && !narrow)
      return text(what, " is ", name_of(type), ", and 8-bit integers are added up");
    return std::nullopt;
  }

  // --- what chooses or moves elements ---

  std::optional<std::vector<Node>> moved(const Node& node) {
    const bool join = node.op->traits.movement == OpTraits::Movement::Join;
    std::vector<ValueId> numbers = node.inputs;
    std::optional<Dequantised> first;
    for (size_t i = 0; i < (join ? node.inputs.size() : 1); ++i) {
      const auto each = dequantised(node.inputs[i]);
      if (!each) return std::nullopt;
      if (!each->is_byte(graph_))
        return kept(
            text("its operand is ", name_of(graph_[each->number].dtype), ", and 8-bit integers are moved"));
      if (!each->is_scalar()) return kept("its operand has a scale for each channel");
      if (first && !(first->same_units(*each) && graph_[first->number].dtype == graph_[each->number].dtype)) {
        return kept(
            "its operands have different scales, zero points or types, and its result is not quantised");
      }
      if (!first) first = each;
      numbers[i] = each->number;
    }
    return behind(node, *first, numbers);
  }

  // The node applied to the integers `numbers`, followed by a dequantisation of its result.
  std::vector<Node> behind(const Node& node, const Dequantised& from, std::vector<ValueId> numbers) {
    const Node by = *from.node;
    const DType type = graph_[from.number].dtype;
    NodeBuilder build(graph_, node);
    std::vector<ValueId> results;
    for (const ValueId id : node.outputs)
      results.push_back(id == kNoValue ? kNoValue : graph_.fresh_value(graph_[id].name + "_number", type));
    build.add_to(node.op->name, std::move(numbers), results, node.attributes);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i] == kNoValue) continue;
      std::vector<ValueId> inputs = by.inputs;
      inputs[0] = results[i];
      build.add_to(by.op->name, inputs, {node.outputs[i]}, by.attributes);
    }
    return build.take();
  }

  // Padding by a value that an integer represents exactly.
  std::optional<std::vector<Node>> padded(const Node& node) {
    const auto from = dequantised(node.inputs[0]);
    if (!from) return std::nullopt;
    if (!from->is_byte(graph_) || !from->is_scalar())
      return kept("its operand is not of 8-bit integers with one scale");
    if (string_attribute(node, "mode") != "constant") return behind(node, *from, {from->number});
    const std::optional<double> value =
        input_given(node, 1) ? scalar_of(graph_, node.inputs[1]) : float_attribute(node, "value");
    if (!value) return kept("what it pads with is computed by the run");
    const double steps = *value / static_cast<double>(from->scale(0)) + static_cast<double>(from->zero(0));
    const bool with_sign = graph_[from->number].dtype == DType::I8;
    if (steps != std::floor(steps) || steps < (with_sign ? -128 : 0) || steps > (with_sign ? 127 : 255)) {
      return kept("no integer of its operand's scale stands for what it pads with");
    }
    NodeBuilder build(graph_, node);
    return behind(node, *from,
                  {from->number, build.integer(graph_[from->number].dtype, static_cast<int64_t>(steps))});
  }

  // A value that is quantised again with the scale and zero point that it had.
  std::optional<std::vector<Node>> requantised(const Node& node) {
    const auto from = dequantised(node.inputs[0]);
    const auto to = quantisation_of(graph_, node);
    if (!from || !to || !from->is_scalar() || !from->same_units(*to)) return std::nullopt;
    if (graph_[from->number].dtype != graph_[node.outputs[0]].dtype || is_output(graph_, node.outputs[0]))
      return std::nullopt;
    NodeBuilder build(graph_, node);
    build.add_to("Identity", {from->number}, {node.outputs[0]});
    return build.take();
  }

  // --- sums of products ---

  // The weights' axis of output channels; nothing for forms that stay as they are.
  std::optional<size_t> channel_axis(const Node& node) const {
    const Shape& weights = *graph_[node.inputs[1]].shape;
    if (node.op->traits.contraction == Contraction::Convolution) return 0;
    if (node.op->traits.contraction == Contraction::TransposedConvolution) return 1;
    if (weights.size() != 2 || graph_[node.inputs[0]].shape->size() < 2) return std::nullopt;
    if (node.op->attribute("transB") == nullptr) return 1;
    const bool plain = float_attribute(node, "alpha") == 1 && float_attribute(node, "beta") == 1 &&
                       int_attribute(node, "transA") == 0;
    if (!plain) return std::nullopt;
    return int_attribute(node, "transB") ? 0 : 1;
  }

  std::optional<Weights> weights_of(const Dequantised& from, size_t axis) {
    const Tensor& tensor = *graph_[from.number].constant;
    const int64_t channels = tensor.shape[axis], count = tensor.count();
    const int64_t own_axis = from.axis;
    if (!from.is_scalar() && own_axis != static_cast<int64_t>(axis))
      return kept("its weights have scales along another axis than that of its results");
    int64_t inner = 1;
    for (size_t i = axis + 1; i < tensor.shape.size(); ++i) inner *= tensor.shape[i];
    Weights result{nullptr, std::vector<double>(static_cast<size_t>(channels)),
                   std::vector<double>(static_cast<size_t>(channels)), from.scales};
    auto numbers = std::make_shared<Tensor>(DType::I8, tensor.shape);
    for (int64_t i = 0; i < count; ++i) {
      const auto channel = static_cast<size_t>(i / inner % channels);
      const int64_t number = tensor.as_int(i) - from.zero(channel);
      if (number < -128 || number > 127)
        return kept("its weights less their zero point are no 8-bit integers with a sign");
      numbers->set_int(i, number);
      result.sums[channel] += static_cast<double>(number);
      result.magnitudes[channel] += std::abs(static_cast<double>(number));
    }
    result.numbers = numbers;
    return result;
  }

  // One number for each channel, as a constant that is added to a result or multiplies it.
  ValueId per_channel(NodeBuilder& build, const Node& node, DType type,
                      const std::vector<double>& numbers) const {
    std::vector<int64_t> shape;
    if (numbers.size() > 1) {
      shape = {static_cast<int64_t>(numbers.size())};
      if (node.op->traits.contraction != Contraction::Product)
        shape.resize(graph_[node.inputs[0]].shape->size() - 1, 1);
    }
    return build.constant(number_tensor(type, shape, numbers));
  }

  // Whether all sums stay within 32 bits after `added` is added to them.
  static bool fit(const std::vector<double>& magnitudes, const std::vector<double>& added) {
    for (size_t i = 0; i < added.size(); ++i) {
      if (magnitudes[i] * 255 + std::abs(added[i]) > kLargestSum) return false;
    }
    return true;
  }

  // Finds the bias. It is added to the integer sums (`whole`) where it is in their units and does not
  // overflow them, else to the floats (`real`). False where it cannot be used.
  bool find_bias(const Node& node, const Weights& weights, const std::vector<float>& scales,
                 std::vector<double>& whole, std::vector<double>& real) const {
    if (!input_given(node, 2)) return true;
    const size_t channels = whole.size();
    const auto from = dequantised(node.inputs[2]);
    const Tensor* tensor = from ? graph_[from->number].constant.get() : graph_[node.inputs[2]].constant.get();
    if (tensor == nullptr) return false;
    const auto count = static_cast<size_t>(tensor->count());
    if (count != 1 && (count != channels || tensor->shape.back() != static_cast<int64_t>(channels)))
      return false;
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
    if (!is_float(graph_[node.outputs[0]].dtype)) {
      return kept(
          "its scales, zero points or weights are computed by the run, or leave 8 bits: it adds up products of 32-bit integers");
    }
    if (const auto why = why_no_bytes(node.inputs[0], "its input")) return kept(*why);
    const auto input = dequantised(node.inputs[0]);
    if (!input->is_scalar()) return kept("its input has a scale for each channel");
    if (const auto why = why_no_bytes(node.inputs[1], "its second operand")) return kept(*why);
    const auto from = dequantised(node.inputs[1]);
    if (!graph_[from->number].constant) return kept("its second operand is computed by the run");
    if (node.op->traits.contraction == Contraction::TransposedConvolution &&
        (int_attribute(node, "group") != 1 || input->zero(0) != 0)) {
      return kept("transposed convolutions add up integers without groups, and whose zero point is 0");
    }
    const auto axis = channel_axis(node);
    if (!axis) return kept("sums of integers take weights of two axes, and alpha and beta of 1");
    const auto weights = weights_of(*from, *axis);
    if (!weights) return std::nullopt;
    const size_t channels = weights->sums.size();
    std::vector<float> scales;
    for (const float each : weights->scales) scales.push_back(each * input->scale(0));
    std::vector<double> whole(channels), real;
    for (size_t i = 0; i < channels; ++i) whole[i] = -weights->sums[i] * static_cast<double>(input->zero(0));
    if (!fit(weights->magnitudes, whole)) return kept("its sums could leave 32 bits");
    if (!find_bias(node, *weights, scales, whole, real))
      return kept("its bias is computed by the run, or is not one number for each channel");
    add_in_floats(*weights, scales, step_of(node.outputs[0]), whole, real);
    return write(node, *input, *weights, {scales, whole, real});
  }

  // --- means ---

  // The axes that a reduction's attributes name, or those of a map.
  static std::set<int64_t> axes_of_mean(const Node& node, int64_t rank) {
    std::set<int64_t> axes;
    if (node.op->attribute("axes") == nullptr) {
      for (int64_t axis = 2; axis < rank; ++axis) axes.insert(axis);
      return axes;
    }
    if (has_attribute(node, "axes")) {
      for (const int64_t axis : ints_attribute(node, "axes")) axes.insert(axis < 0 ? axis + rank : axis);
    }
    for (int64_t axis = 0; axes.empty() && axis < rank && !int_attribute(node, "noop_with_empty_axes");
         ++axis)
      axes.insert(axis);
    return axes;
  }

  // How many elements each mean averages, if all average equally many; else nothing.
  static std::optional<int64_t> elements_of_mean(const Node& node, const Shape& shape) {
    int64_t count = 1;
    for (const int64_t axis : axes_of_mean(node, static_cast<int64_t>(shape.size()))) {
      const Dim& extent = shape[static_cast<size_t>(axis)];
      if (!extent.is_constant() || extent.constant() <= 0) return std::nullopt;
      count *= extent.constant();
    }
    return count;
  }

  // The same for windows, all of which must be within the map unless padding counts. `pads`: whether there is
  // padding.
  static std::optional<int64_t> elements_of_window(const Node& node, const Shape& shape, bool& pads) {
    const std::vector<int64_t> kernel = ints_attribute(node, "kernel_shape");
    const Window window =
        window_of(node, {shape.begin() + 2, shape.end()}, kernel, int_attribute(node, "ceil_mode") != 0);
    const bool counts = int_attribute(node, "count_include_pad") != 0;
    int64_t count = 1;
    for (size_t i = 0; i < kernel.size(); ++i) {
      const Dim last = (window.output[i] - Dim(1)) * Dim(window.strides[i]) +
                       Dim((kernel[i] - 1) * window.dilations[i] - window.before[i]);
      const Dim room = shape[2 + i] + Dim(counts ? window.after[i] : 0) - Dim(1) - last;
      if ((window.before[i] > 0 && !counts) || !room.is_constant() || room.constant() < 0)
        return std::nullopt;
      pads = pads || window.before[i] > 0 || window.after[i] > 0;
      count *= kernel[i];
    }
    return count;
  }

  ValueId sum_of_mean(NodeBuilder& build, const Node& node, ValueId number) const {
    const OpRow& row = *find_op(node.op->traits.of_bytes);
    std::map<std::string, Attribute> attributes;
    for (const auto& [name, value] : node.attributes) {
      if (row.attribute(name) != nullptr) attributes[name] = value;
    }
    if (row.attribute("axes") == nullptr) return build.add(row.name, {number}, attributes);
    // Means over whole maps become those of GlobalAveragePool, which is read in blocks of channels. Other
    // reductions have the type of their operand.
    const auto rank = static_cast<int64_t>(build.shape(number).size());
    std::vector<int64_t> spatial;
    for (int64_t axis = 2; axis < rank; ++axis) spatial.push_back(axis);
    const std::set<int64_t> axes = axes_of_mean(node, rank);
    if (rank < 3 || rank > 5 || !std::equal(axes.begin(), axes.end(), spatial.begin(), spatial.end())) {
      return build.add(row.name, {build.cast(number, DType::I32)}, attributes);
    }
    const ValueId sums = build.add("IntegerGlobalPool", {number});
    return int_attribute(node, "keepdims") ? sums : build.add("Squeeze", {sums}, {{"axes", spatial}});
  }

  std::optional<std::vector<Node>> mean(const Node& node) {
    if (const auto why = why_no_bytes(node.inputs[0], "its input")) return kept(*why);
    const auto input = dequantised(node.inputs[0]);
    if (!input->is_scalar()) return kept("its input has a scale for each channel");
    bool pads = false;
    const Shape& shape = *graph_[node.inputs[0]].shape;
    const bool windows = node.op->attribute("kernel_shape") != nullptr;
    const auto count = windows ? elements_of_window(node, shape, pads) : elements_of_mean(node, shape);
    if (!count)
      return kept("its means are of different numbers of elements, or of a number that is not known");
    if (static_cast<double>(*count) * 255 > kLargestSum) return kept("its sums could leave 32 bits");
    const int64_t zero = input->zero(0);
    if (pads && zero != 0) return kept("it pads with 0, which is not the zero point of its input");
    NodeBuilder build(graph_, node);
    ValueId sum = sum_of_mean(build, node, input->number);
    if (zero != 0) sum = build.add("Add", {sum, build.integer(DType::I32, -zero * *count)});
    const double scale = static_cast<double>(input->scale(0)) / static_cast<double>(*count);
    build.add_to("Mul", {build.cast(sum, DType::F32), build.number(DType::F32, scale)}, {node.outputs[0]});
    return build.take();
  }

  // The scale with which a result is quantised afterwards; 0 where it is not.
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

  // Where floats hold the sums and the addend exactly, the addend moves to the floats, so that scaling and
  // adding is one multiply-add. It stays an integer where it is such a large multiple of the result's step
  // that rounding could change the resulting integer.
  static void add_in_floats(const Weights& weights, const std::vector<float>& scales, float step,
                            std::vector<double>& whole, std::vector<double>& real) {
    constexpr double kExact = 1 << 24, kMaxSteps = 1 << 12;
    for (size_t i = 0; i < whole.size(); ++i) {
      const auto scale = static_cast<double>(scales[scales.size() == 1 ? 0 : i]);
      if (weights.magnitudes[i] * 255 > kExact || std::abs(whole[i]) > kExact) return;
      if (step > 0 && std::abs(whole[i]) * scale > kMaxSteps * static_cast<double>(step)) return;
    }
    if (std::all_of(whole.begin(), whole.end(), [](double number) { return number == 0; })) return;
    real.resize(whole.size());
    for (size_t i = 0; i < whole.size(); ++i) {
      real[i] += std::exchange(whole[i], 0) * static_cast<double>(scales[scales.size() == 1 ? 0 : i]);
    }
  }

  struct Epilogue {
    std::vector<float> scales;
    std::vector<double> whole, real;  // added to the sums before and after scaling; may be empty
  };

  std::vector<Node> write(const Node& node, const Dequantised& input, const Weights& weights,
                          const Epilogue& epilogue) {
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
    const bool adds =
        std::any_of(epilogue.whole.begin(), epilogue.whole.end(), [](double number) { return number != 0; });
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

  // A convolution must pad with the integer that represents 0. The convolution's own padding does where that
  // is 0; else a Pad node adds the elements around the map.
  ValueId with_padding(NodeBuilder& build, const Node& node, const Dequantised& input,
                       std::map<std::string, Attribute>& attributes) {
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
  std::string reason_;  // why the current node stays as it is
  std::vector<Node> old_;
  std::vector<std::vector<int>> consumers_;
  std::map<ValueId, size_t> makers_;
};

}  // namespace

void integer_products(Graph& graph) { Products(graph).run(); }

}  // namespace tc
