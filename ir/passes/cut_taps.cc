// Drops the taps of a convolution's filter that only ever read padding.
#include <cstring>
#include <map>

#include "ir/ops/op.h"
#include "ir/ops/rows.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

// The taps of a filter along one axis that are kept.
struct Taps {
  int64_t first = 0, count = 1;
  bool operator<(const Taps& other) const {
    return std::tie(first, count) < std::tie(other.first, other.count);
  }
};

// A tap at either end is dropped if it is outside the map at every position of the window, and if the padding
// can shrink by as much.
Taps taps_inside(const Window& window, size_t axis, int64_t size) {
  const int64_t step = window.dilations[axis],
                last = (window.output[axis].constant() - 1) * window.strides[axis];
  int64_t before = window.before[axis], after = window.after[axis];
  Taps taps{0, window.kernel[axis]};
  // Once the padding before the map has shrunk, the window begins with the first tap that is kept, at
  // -before.
  while (taps.count > 1 && last - before < 0 && before >= step) {
    before -= step;
    ++taps.first;
    --taps.count;
  }
  while (taps.count > 1 && (taps.count - 1) * step - before >= size && after >= step) {
    after -= step;
    --taps.count;
  }
  return taps;
}

// These taps of weights [outputs, inputs, taps…].
TensorPtr part_of(const Tensor& weights, const std::vector<Taps>& taps) {
  std::vector<int64_t> shape(weights.shape.begin(), weights.shape.begin() + 2);
  for (const Taps& each : taps) shape.push_back(each.count);
  auto part = std::make_shared<Tensor>(weights.dtype, shape);
  const int64_t element = size_of(weights.dtype), run = taps.back().count * element;
  std::vector<int64_t> at(shape.size(), 0);  // index of a row of taps
  for (int64_t to = 0; to < static_cast<int64_t>(part->bytes.size()); to += run) {
    int64_t from = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      from = from * weights.shape[axis] + at[axis] + (axis < 2 ? 0 : taps[axis - 2].first);
    }
    std::memcpy(part->bytes.data() + to, weights.bytes.data() + from * element, static_cast<size_t>(run));
    for (size_t axis = shape.size() - 1; axis-- > 0 && ++at[axis] == shape[axis];) at[axis] = 0;
  }
  return part;
}

// The taps that are kept along each axis; nothing where all are kept, or where that is not known.
std::vector<Taps> taps_of(const Graph& graph, const Node& node, const Window& window) {
  const Shape& map = *graph[node.inputs[0]].shape;
  std::vector<Taps> taps;
  bool fewer = false;
  for (size_t axis = 0; axis < window.kernel.size(); ++axis) {
    const bool known =
        map[axis + 2].is_constant() && window.output[axis].is_constant() && window.output[axis] != Dim(0);
    taps.push_back(known ? taps_inside(window, axis, map[axis + 2].constant())
                         : Taps{0, window.kernel[axis]});
    fewer = fewer || taps.back().count < window.kernel[axis];
  }
  return fewer ? taps : std::vector<Taps>();
}

}  // namespace

void cut_taps(Graph& graph) {
  std::map<std::pair<ValueId, std::vector<Taps>>, ValueId> made;
  for (Node& node : graph.nodes) {
    if (node.op->traits.contraction != OpTraits::Contraction::Convolution || !graph[node.inputs[1]].constant)
      continue;
    const Tensor& weights = *graph[node.inputs[1]].constant;
    const Shape& map = *graph[node.inputs[0]].shape;
    const Window window = window_of(node, {map.begin() + 2, map.end()},
                                    {weights.shape.begin() + 2, weights.shape.end()}, false);
    const std::vector<Taps> taps = taps_of(graph, node, window);
    if (taps.empty()) continue;
    const auto [found, fresh] = made.try_emplace({node.inputs[1], taps}, kNoValue);
    if (fresh)
      found->second = graph.add_constant(graph[node.inputs[1]].name + "_cut", part_of(weights, taps));
    std::vector<int64_t> before, after, kernel;
    for (size_t axis = 0; axis < taps.size(); ++axis) {
      const int64_t behind = window.kernel[axis] - taps[axis].first - taps[axis].count;
      before.push_back(window.before[axis] - taps[axis].first * window.dilations[axis]);
      after.push_back(window.after[axis] - behind * window.dilations[axis]);
      kernel.push_back(taps[axis].count);
    }
    before.insert(before.end(), after.begin(), after.end());
    node.inputs[1] = found->second;
    node.attributes["pads"] = before;
    node.attributes.erase("auto_pad");
    if (has_attribute(node, "kernel_shape")) node.attributes["kernel_shape"] = kernel;
  }
}

}  // namespace tc
