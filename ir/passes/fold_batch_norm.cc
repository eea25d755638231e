// Moves scales, shifts and padding around convolutions and matrix products into their constants and
// attributes.
#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/held_constants.h"
#include "ir/ops/op.h"
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

// One factor and one addend per channel.
struct ChannelMap {
  std::vector<double> scale, shift;
};

bool all_finite(const std::vector<double>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); });
}

// The map, or nothing where a factor or addend of a channel is not finite: a deviation of 0 gives an infinite
// factor, and 0 times infinity is not what the operators compute.
std::optional<ChannelMap> finite_map(ChannelMap map) {
  if (!all_finite(map.scale) || !all_finite(map.shift)) return std::nullopt;
  return map;
}

std::vector<double> numbers_of(const Tensor& tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.count(); ++i) result.push_back(tensor.as_double(i));
  return result;
}

// The map of a batch normalisation with constant statistics.
std::optional<ChannelMap> map_of_normalization(const Graph& graph, const Node& node) {
  for (int i = 1; i < 5; ++i) {
    if (!graph[node.inputs.at(i)].constant) return std::nullopt;
  }
  auto numbers = [&](int i) { return numbers_of(*graph[node.inputs[i]].constant); };
  const std::vector<double> scale = numbers(1), shift = numbers(2), mean = numbers(3), variance = numbers(4);
  const double epsilon = float_attribute(node, "epsilon");
  ChannelMap map;
  for (size_t c = 0; c < scale.size(); ++c) {
    const double factor = scale[c] / std::sqrt(variance[c] + epsilon);
    map.scale.push_back(factor);
    map.shift.push_back(shift[c] - mean[c] * factor);
  }
  return finite_map(std::move(map));
}

// Weights are most of a model's bytes, so f32 elements are scaled without a look at the type of each.
void scale_elements(Tensor& tensor, int64_t begin, int64_t end, double factor) {
  if (tensor.dtype == DType::F32) {
    for (float* each = tensor.data<float>() + begin; each != tensor.data<float>() + end; ++each) {
      *each = static_cast<float>(static_cast<double>(*each) * factor);
    }
    return;
  }
  for (int64_t i = begin; i < end; ++i) tensor.set(i, tensor.as_double(i) * factor);
}

bool all_finite(const Tensor& tensor) {
  if (tensor.dtype == DType::F32) {
    const float* numbers = tensor.data<float>();
    return std::all_of(numbers, numbers + tensor.count(), [](float number) { return std::isfinite(number); });
  }
  return all_finite(numbers_of(tensor));
}

// The numbers per channel of a constant that broadcasts as one number per element of axis `axis` (or as one
// number for all) against a tensor of the given rank; else nothing.
std::optional<std::vector<double>> per_channel(const Tensor& tensor, size_t rank, size_t axis,
                                               int64_t channels) {
  if (tensor.count() == 1) return std::vector<double>(static_cast<size_t>(channels), tensor.as_double(0));
  if (tensor.count() != channels || tensor.shape.size() > rank) return std::nullopt;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    const size_t at = rank - tensor.shape.size() + i;
    if (tensor.shape[i] != (at == axis ? channels : 1)) return std::nullopt;
  }
  return numbers_of(tensor);
}

// The output channels of a contraction: axis `axis` of its result, and where they are in its weights.
struct Channels {
  size_t rank, axis;
  int64_t count;
  OutputChannels weights;
};

std::optional<Channels> channels_of(const Graph& graph, const Node& node) {
  const Shape& shape = *graph[node.outputs[0]].shape;
  const auto weights = node.op->output_channels ? node.op->output_channels(node) : std::nullopt;
  if (!weights) return std::nullopt;
  if (!graph[node.inputs[1]].constant) return std::nullopt;
  if (node.inputs.size() > 2 && node.inputs[2] != kNoValue && !graph[node.inputs[2]].constant)
    return std::nullopt;
  if (!is_float(graph[node.inputs[1]].dtype) || !shape[1].is_constant()) return std::nullopt;
  return Channels{shape.size(), 1, shape[1].constant(), *weights};
}

// The map that the node applies to the channels of its input `from`, if its factors and addends are constant.
std::optional<ChannelMap> map_of(const Graph& graph, const Node& node, ValueId from,
                                 const Channels& channels) {
  if (node.op->traits.channel_statistics) {
    return node.inputs[0] == from ? map_of_normalization(graph, node) : std::nullopt;
  }
  const auto op = node.op->traits.binary;
  const bool scales = op == BinaryOp::Mul || op == BinaryOp::Div,
             shifts = op == BinaryOp::Add || op == BinaryOp::Sub;
  if (!scales && !shifts) return std::nullopt;
  if (node.inputs.size() != 2 || node.inputs[0] == node.inputs[1]) return std::nullopt;
  const int position = node.inputs[0] == from ? 0 : 1;
  const Value& other = graph[node.inputs[1 - position]];
  if (!other.constant || (position == 1 && (op == BinaryOp::Sub || op == BinaryOp::Div))) return std::nullopt;
  auto numbers = per_channel(*other.constant, channels.rank, channels.axis, channels.count);
  if (!numbers) return std::nullopt;
  ChannelMap map;
  for (double number : *numbers) {
    map.scale.push_back(op == BinaryOp::Mul ? number : op == BinaryOp::Div ? 1 / number : 1);
    map.shift.push_back(op == BinaryOp::Add ? number : op == BinaryOp::Sub ? -number : 0);
  }
  return finite_map(std::move(map));
}

// The weights with each output channel scaled.
TensorPtr scaled_weights(const Graph& graph, const Node& node, const OutputChannels& channels,
                         const std::vector<double>& scale) {
  auto weights = std::make_shared<Tensor>(*graph[node.inputs[1]].constant);
  const std::vector<int64_t>& shape = weights->shape;
  // The output channel of a flat index is index / inner % outer, plus the first of the group, which has
  // `members` elements of axis 0.
  int64_t inner = 1;
  for (size_t i = channels.axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t outer = shape[channels.axis], members = shape[0] / channels.groups;
  const int64_t count = weights->count();
  for (int64_t begin = 0; begin < count; begin += inner) {
    int64_t channel = begin / inner % outer;
    if (channels.groups > 1) channel += begin / (inner * outer) / members * outer;
    scale_elements(*weights, begin, begin + inner, scale[static_cast<size_t>(channel)]);
  }
  return weights;
}

TensorPtr mapped_bias(const Graph& graph, const Node& node, const ChannelMap& map) {
  const DType type = graph[node.inputs[1]].dtype;
  auto bias = std::make_shared<Tensor>(type, std::vector<int64_t>{static_cast<int64_t>(map.scale.size())});
  const Tensor* old =
      node.inputs.size() > 2 && node.inputs[2] != kNoValue ? graph[node.inputs[2]].constant.get() : nullptr;
  for (size_t c = 0; c < map.scale.size(); ++c) {
    const double before = old ? old->as_double(old->count() == 1 ? 0 : static_cast<int64_t>(c)) : 0;
    bias->set(static_cast<int64_t>(c), before * map.scale[c] + map.shift[c]);
  }
  return bias;
}

bool bias_is_vector(const Graph& graph, const Node& node, int64_t channels) {
  if (node.inputs.size() < 3 || node.inputs[2] == kNoValue) return true;
  const Tensor& bias = *graph[node.inputs[2]].constant;
  return bias.count() == 1 || (bias.count() == channels && bias.shape.back() == channels);
}

// Folds the only reader of the node's result into the node; true where something was folded.
bool fold_reader(Graph& graph, Node& node, const std::vector<std::vector<int>>& consumers,
                 std::vector<bool>& removed) {
  auto channels = channels_of(graph, node);
  if (!channels || !bias_is_vector(graph, node, channels->count)) return false;
  const ValueId result = node.outputs[0];
  const int reader = only_reader(graph, consumers, result);
  if (reader < 0 || removed[reader]) return false;
  Node& next = graph.nodes[reader];
  if (next.outputs.size() != 1 || *graph[next.outputs[0]].shape != *graph[result].shape) return false;
  if (std::count(next.inputs.begin(), next.inputs.end(), result) != 1) return false;
  const auto map = map_of(graph, next, result, *channels);
  if (!map) return false;
  const bool scales = std::any_of(map->scale.begin(), map->scale.end(), [](double s) { return s != 1; });
  const TensorPtr bias = mapped_bias(graph, node, *map);
  // Scaled weights may overflow their type, while the model multiplies only the result by the factor.
  const TensorPtr weights = scales ? scaled_weights(graph, node, channels->weights, map->scale) : nullptr;
  if (weights && !all_finite(*weights)) return false;
  if (weights) {
    // The original weights are freed, so that the compiler does not hold both.
    const ValueId before = node.inputs[1];
    const bool is_output =
        std::find(graph.outputs.begin(), graph.outputs.end(), before) != graph.outputs.end();
    const bool is_made_here = static_cast<size_t>(before) >= consumers.size();
    const bool has_one_reader = is_made_here || consumers[static_cast<size_t>(before)].size() == 1;
    if (constants_are_counted() && has_one_reader && !is_output &&
        std::count(node.inputs.begin(), node.inputs.end(), before) == 1)
      graph[before].constant.reset();
    node.inputs[1] = graph.add_constant(graph[before].name + "_scaled", weights);
  }
  node.inputs.resize(3, kNoValue);
  node.inputs[2] = graph.add_constant(graph[result].name + "_bias", bias);
  node.outputs[0] = next.outputs[0];
  removed[reader] = true;
  return true;
}

// A normalisation that cannot be folded becomes a product by a constant and a sum with one.
void split_normalization(Graph& graph, const Node& node, std::vector<Node>& nodes) {
  const auto map = map_of_normalization(graph, node);
  const DType type = graph[node.inputs[0]].dtype;
  std::vector<int64_t> shape(graph[node.inputs[0]].shape->size() - 1, 1);
  shape[0] = static_cast<int64_t>(map->scale.size());
  auto constant_of = [&](const std::vector<double>& numbers, const char* suffix) {
    auto tensor = std::make_shared<Tensor>(type, shape);
    for (size_t i = 0; i < numbers.size(); ++i) tensor->set(static_cast<int64_t>(i), numbers[i]);
    return graph.add_constant(graph[node.outputs[0]].name + suffix, tensor);
  };
  Node product, sum;
  product.op = find_op("Mul");
  product.inputs = {node.inputs[0], constant_of(map->scale, "_scale")};
  product.outputs = {
      graph.fresh_value(graph[node.outputs[0]].name + "_scaled", type, graph[node.outputs[0]].shape)};
  sum.op = find_op("Add");
  sum.inputs = {product.outputs[0], constant_of(map->shift, "_shift")};
  sum.outputs = {node.outputs[0]};
  product.origin = sum.origin = node.origin;
  nodes.push_back(std::move(product));
  nodes.push_back(std::move(sum));
}

}  // namespace

void fold_batch_norm(Graph& graph) {
  bool again = true;
  while (again) {
    again = false;
    const auto consumers = graph.consumers();
    std::vector<bool> removed(graph.nodes.size(), false);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      if (!removed[i]) again = fold_reader(graph, graph.nodes[i], consumers, removed) || again;
    }
    remove_nodes(graph, removed);
  }
  std::vector<Node> old = std::move(graph.nodes), nodes;
  graph.nodes.clear();
  for (Node& node : old) {
    if (node.op->traits.channel_statistics && map_of_normalization(graph, node))
      split_normalization(graph, node, nodes);
    else nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
}

void fold_pads(Graph& graph) {
  const auto consumers = graph.consumers();
  const auto producers = graph.producers();
  for (Node& node : graph.nodes) {
    if (node.op->traits.contraction != OpTraits::Contraction::Convolution) continue;
    const int maker = producers[node.inputs[0]];
    if (maker < 0 || graph.nodes[maker].op->traits.movement != OpTraits::Movement::Pad) continue;
    const Node& pad = graph.nodes[maker];
    if (only_reader(graph, consumers, pad.outputs[0]) < 0 || string_attribute(pad, "mode") != "constant")
      continue;
    const auto value =
        pad.inputs.size() > 1 ? scalar_of(graph, pad.inputs[1]) : float_attribute(pad, "value");
    const std::string automatic = string_attribute(node, "auto_pad");
    if (value != 0.0 || has_attribute(pad, "axes") || (automatic != "NOTSET" && automatic != "VALID"))
      continue;
    const std::vector<Dim> added = dims_attribute(pad, "pads");
    const size_t rank = added.size() / 2;
    bool fits = true;
    for (size_t i = 0; i < added.size(); ++i) {
      fits = fits && added[i].is_constant() && added[i].constant() >= 0;
      if (i % rank < 2) fits = fits && added[i] == Dim(0);
    }
    if (!fits) continue;
    std::vector<int64_t> pads =
        has_attribute(node, "pads") ? ints_attribute(node, "pads") : std::vector<int64_t>();
    pads.resize(2 * (rank - 2), 0);
    for (size_t i = 2; i < rank; ++i) {
      pads[i - 2] += added[i].constant();
      pads[rank - 2 + i - 2] += added[rank + i].constant();
    }
    node.attributes["pads"] = pads;
    node.attributes.erase("auto_pad");
    node.inputs[0] = pad.inputs[0];
  }
}

}  // namespace tc
