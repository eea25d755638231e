// Concatenation, and parts of an operand: concat, split, slice.
#include <algorithm>
#include <numeric>

#include "ir/ops/selection.h"
#include "ir/ops/sizes.h"
#include "ir/size_bounds.h"

namespace tc {
namespace {

int64_t axis_of(const Node& node, size_t rank) {
  const int64_t axis = int_attribute(node, "axis");
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

// --- concat and split ----------------------------------------------------------------------------

void infer_concat(InferContext& context) {
  Shape shape = context.shape(0);
  const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
  for (int i = 1; i < context.input_count(); ++i) {
    const Shape& other = context.shape(i);
    if (other.size() != shape.size()) {
      context.error("operands 0 and ", i, " have shapes ", str(context.shape(0)), " and ", str(other),
                    ": their ranks differ");
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      if (static_cast<int64_t>(d) == axis) {
        shape[d] = shape[d] + other[d];
      } else if (shape[d] != other[d]) {
        context.differ(shape[d], other[d],
                       text("operands 0 and ", i, " have shapes ", str(context.shape(0)), " and ", str(other),
                            ", which differ in axis ", d));
      }
    }
  }
  context.set_output(0, context.dtype(0), shape);
  if (shape.size() != 1) return;
  std::vector<Dim> all;
  for (int i = 0; i < context.input_count(); ++i) {
    auto part = context.elements(i);
    if (!part) return;
    all.insert(all.end(), part->begin(), part->end());
  }
  context.set_elements(0, all);
}

void lower_concat(LowerContext& context) {
  const size_t rank = context.shape(0).size();
  const int64_t axis = axis_of(context.node(), rank);
  Affine offset = 0;
  for (int i = 0; i < static_cast<int>(context.node().inputs.size()); ++i) {
    auto space = context.space("i", context.shape(i));
    std::vector<Affine> out = space.position;
    out[axis] = out[axis] + offset;
    context.assign("copy", space.iterators, context.output(0), out, context.read(i, space.position));
    offset = offset + context.dim(context.shape(i)[axis]);
  }
}

std::vector<Dim> split_sizes(const Node& node, const Dim& extent, size_t parts) {
  if (has_attribute(node, "split")) {
    std::vector<Dim> sizes = dims_attribute(node, "split");
    if (!sizes.empty()) return sizes;
  }
  std::vector<Dim> sizes;
  if (!extent.is_constant() && mod(extent, Dim(static_cast<int64_t>(parts))) != Dim(0)) {
    throw NeedsNumbers(
        node, text("an axis of size '", extent.str(), "' may not divide into ", parts, " parts"), {extent});
  }
  // Where num_outputs does not divide the extent, the last part is smaller.
  const Dim each = ceil_div(extent, Dim(static_cast<int64_t>(parts)));
  Dim left = extent;
  for (size_t i = 0; i + 1 < parts; ++i) {
    sizes.push_back(each);
    left = left - each;
  }
  sizes.push_back(left);
  return sizes;
}

void infer_split(InferContext& context) {
  const Shape& shape = context.shape(0);
  const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
  const size_t parts = context.node().outputs.size();
  const std::vector<Dim> sizes = split_sizes(context.node(), shape[axis], parts);
  Dim total = 0;
  for (const Dim& size : sizes) total = total + size;
  if (sizes.size() != parts) context.error("has ", parts, " outputs but ", sizes.size(), " sizes");
  for (const Dim& size : sizes) {
    if (!size.is_constant()) require_not_negative(context, size, text("axis ", axis, " of ", str(shape)));
    if (!size.is_constant() || size.constant() >= 0) continue;
    context.error("axis ", axis, " of ", str(shape), " has too few elements for ", parts, " parts of ",
                  sizes[0].str());
  }
  if (total != shape[axis]) {
    context.differ(total, shape[axis],
                   text("the sizes add up to ", total.str(), " but axis ", axis, " of ", str(shape), " is ",
                        shape[axis].str()));
  }
  auto elements = context.elements(0);
  Dim offset = 0;
  for (size_t i = 0; i < parts; ++i) {
    Shape part = shape;
    part[axis] = sizes[i];
    context.set_output(static_cast<int>(i), context.dtype(0), part);
    if (elements && shape.size() == 1 && offset.is_constant() && sizes[i].is_constant()) {
      auto first = elements->begin() + offset.constant();
      context.set_elements(static_cast<int>(i), std::vector<Dim>(first, first + sizes[i].constant()));
    }
    offset = offset + sizes[i];
  }
}

void lower_split(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const int64_t axis = axis_of(context.node(), shape.size());
  const size_t parts = context.node().outputs.size();
  const std::vector<Dim> sizes = split_sizes(context.node(), shape[axis], parts);
  Affine offset = 0;
  for (size_t i = 0; i < parts; ++i) {
    if (context.output(static_cast<int>(i)) >= 0) {
      Shape part = shape;
      part[axis] = sizes[i];
      auto space = context.space("i", part);
      std::vector<Affine> in = space.position;
      in[axis] = in[axis] + offset;
      context.assign("copy", space.iterators, context.output(static_cast<int>(i)), space.position,
                     context.read(0, in));
    }
    offset = offset + context.dim(sizes[i]);
  }
}

// --- slice ---------------------------------------------------------------------------------------

// One axis of a slice: element j of the result is element start + j*step.
struct Range {
  Dim start, length;
  int64_t step = 1;
};

// A position given by the model, clamped to low .. high.
Dim clamped(const Dim& position, const Dim& extent, const Dim& low, const Dim& high, const Graph& graph) {
  // Exporters write larger numbers for "to the end".
  constexpr int64_t kFar = int64_t{1} << 30;
  if (position.is_constant() && position.constant() >= kFar) return high;
  if (position.is_constant() && position.constant() <= -kFar) return low;
  const Dim at = position.is_constant() && position.constant() < 0 ? extent + position : position;
  auto at_least = [&](const Dim& a, const Dim& b) {
    if (dim_range(a - b, graph).low >= 0) return true;
    // A size that a node computes is at most its bound, which may be equal to the other operand.
    return mentions_data(b, graph) && dim_range(a - largest(b, size_bounds(graph)), graph).low >= 0;
  };
  const Dim bounded = at_least(high, at) ? at : at_least(at, high) ? high : min(at, high);
  return at_least(bounded, low) ? bounded : max(bounded - low, Dim(0)) + low;
}

// Start and end along one axis, clamped as Slice is specified: with a negative step the start to [0, extent -
// 1] and the end to [-1, extent - 1], with a positive step both to [0, extent].
std::pair<Dim, Dim> ends_of(const Dim& start, const Dim& end, const Dim& extent, bool backwards,
                            const Graph& graph) {
  const Dim high = backwards ? extent - Dim(1) : extent, none = backwards ? Dim(-1) : Dim(0);
  return {clamped(start, extent, Dim(0), high, graph), clamped(end, extent, none, high, graph)};
}

std::vector<Range> slice_ranges(const Node& node, const Shape& shape, const Graph& graph) {
  std::vector<Range> ranges;
  for (const Dim& extent : shape) ranges.push_back({Dim(0), extent, 1});
  const int64_t rank = static_cast<int64_t>(shape.size());
  const std::vector<Dim> starts = dims_attribute(node, "starts"), ends = dims_attribute(node, "ends");
  std::vector<int64_t> axes =
      has_attribute(node, "axes") ? ints_attribute(node, "axes") : std::vector<int64_t>();
  std::vector<int64_t> steps =
      has_attribute(node, "steps") ? ints_attribute(node, "steps") : std::vector<int64_t>();
  if (axes.empty()) {
    if (static_cast<int64_t>(starts.size()) > rank) {
      fail(ErrorKind::Shape, node.origin.str(), ": ", starts.size(),
           " starts are given for a tensor of rank ", rank);
    }
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", starts.size(), " starts, ", ends.size(), " ends, ",
         axes.size(), " axes and ", steps.size(), " steps do not fit together");
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    const int64_t step = steps[i];
    if (step == 0) fail(ErrorKind::Shape, node.origin.str(), ": step of axis ", axis, " is 0");
    const auto [start, end] = ends_of(starts[i], ends[i], shape[axis], step < 0, graph);
    const Dim distance = shape[axis] == Dim(0) ? Dim(0) : step < 0 ? start - end : end - start;
    const int64_t size = step < 0 ? (step == INT64_MIN ? INT64_MAX : -step) : step;
    Dim length = ceil_div(distance, Dim(size));
    if (length.is_constant() && length.constant() < 0) length = 0;
    // With a negative step the start is clamped to at least 0, which an empty axis does not have.
    if (step < 0 && !shape[axis].is_constant() && dim_range(shape[axis], graph).low < 1)
      length = min(length, shape[axis]);
    if (!length.is_constant()) {
      const Interval range = dim_range(length, graph);
      length = range.high <= 0 ? Dim(0) : range.low < 0 ? max(length, Dim(0)) : length;
    }
    ranges[axis] = {start, length, step};
    if (length == Dim(0)) ranges[axis].start = 0;
    if (length == Dim(0) || length == Dim(1)) ranges[axis].step = 1;
  }
  return ranges;
}

// Positions along the axes that a node computes: negative ones count from the end, and all are clamped to 0
// .. extent.
std::vector<Dim> computed_places(NodeBuilder& build, ValueId places, const std::vector<Dim>& extents) {
  std::vector<Dim> result;
  const ValueId numbers = build.cast(places, DType::I64);
  for (size_t i = 0; i < extents.size(); ++i) {
    const ValueId given = build.add("Gather", {numbers, build.integer(DType::I64, static_cast<int64_t>(i))},
                                    {{"axis", int64_t{0}}});
    const ValueId extent = value_of(build, extents[i]), zero = build.integer(DType::I64, 0);
    const ValueId at =
        build.add("Where", {build.add("Less", {given, zero}), build.add("Add", {given, extent}), given});
    result.push_back(build.size(build.add("Max", {build.add("Min", {at, extent}), zero}), extents[i]));
  }
  return result;
}

// Starts and ends that a node computes become data symbols, bounded by the extents of their axes.
void computed_slice(Graph& graph, Node& node) {
  if (!input_given(node, 1) || !input_given(node, 2)) return;
  const Shape shape = *graph[node.inputs[0]].shape;
  const int64_t rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> axes = has_attribute(node, "axes")
                                  ? unchecked_attribute<std::vector<int64_t>>(node, "axes")
                                  : std::vector<int64_t>();
  const std::vector<int64_t> steps = has_attribute(node, "steps")
                                         ? unchecked_attribute<std::vector<int64_t>>(node, "steps")
                                         : std::vector<int64_t>();
  if (std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step < 1; })) return;
  const Shape& starts = *graph[node.inputs[1]].shape;
  if (starts.size() != 1 || !starts[0].is_constant() || starts[0].constant() > rank ||
      *graph[node.inputs[2]].shape != starts)
    return;
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(starts[0].constant()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::vector<Dim> extents;
  for (int64_t axis : axes) {
    if (axis < -rank || axis >= rank) return;
    extents.push_back(shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)]);
  }
  if (Dim(static_cast<int64_t>(axes.size())) != starts[0]) return;
  bool any = false;
  for (int input : {1, 2}) {
    const bool known = known_elements(graph[node.inputs[input]]).has_value();
    if (!known && !is_computed(graph, node.inputs[input])) return;
    any = any || !known;
  }
  if (!any) return;
  NodeBuilder build(graph, node);
  std::vector<Dim> places[2];
  for (int i : {0, 1}) {
    const auto known = known_elements(graph[node.inputs[i + 1]]);
    places[i] = known ? *known : computed_places(build, node.inputs[i + 1], extents);
  }
  node.attributes["starts"] = places[0];
  node.attributes["ends"] = places[1];
  node.inputs.resize(1);
  for (Node& made : build.take()) graph.nodes.push_back(std::move(made));
}

void infer_slice(InferContext& context) {
  const std::vector<Range> ranges = slice_ranges(context.node(), context.shape(0), context.graph());
  Shape shape;
  for (const Range& range : ranges) shape.push_back(range.length);
  context.set_output(0, context.dtype(0), shape);
  auto elements = context.elements(0);
  if (!elements || shape.size() != 1) return;
  const Range& range = ranges[0];
  if (!range.start.is_constant() || !range.length.is_constant()) return;
  std::vector<Dim> result;
  for (int64_t i = 0; i < range.length.constant(); ++i) {
    result.push_back(elements->at(static_cast<size_t>(range.start.constant() + i * range.step)));
  }
  context.set_elements(0, result);
}

void lower_slice(LowerContext& context) {
  const std::vector<Range> ranges = slice_ranges(context.node(), context.shape(0), context.graph());
  auto space = context.space("i", *context.output_value(0).shape);
  std::vector<Affine> in;
  for (size_t i = 0; i < ranges.size(); ++i) {
    in.push_back(space.position[i] * ranges[i].step + context.dim(ranges[i].start));
  }
  context.assign("copy", space.iterators, context.output(0), space.position, context.read(0, in));
}

// The operand of a slice that takes all of it. With a negative step the shape may be the same, but the
// elements are reversed.
ValueId forwards_unsliced(const Graph& graph, const Node& node) {
  const ValueId same = forwards_same_shape(graph, node);
  if (same == kNoValue || !has_attribute(node, "steps")) return same;
  const std::vector<int64_t> steps = ints_attribute(node, "steps");
  return std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step < 0; }) ? kNoValue : same;
}

// --- CenterCropPad -------------------------------------------------------------------------------

// The shape of the result: that of the operand, with the given sizes along `axes` (all axes if left out).
Shape centred_shape(InferContext& context) {
  const std::vector<Dim> sizes = dims_attribute(context.node(), "shape");
  std::vector<int64_t> axes = ints_attribute(context.node(), "axes");
  Shape shape = context.shape(0);
  if (axes.empty()) {
    axes.resize(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (sizes.size() != axes.size()) context.error(sizes.size(), " sizes are given for ", axes.size(), " axes");
  for (size_t i = 0; i < axes.size(); ++i) shape[context.axis(axes[i], context.rank(0))] = sizes[i];
  return shape;
}

void infer_center(InferContext& context) {
  const Shape& in = context.shape(0);
  const Shape out = centred_shape(context);
  for (size_t i = 0; i < in.size(); ++i) {
    const Interval grows = dim_range(out[i] - in[i], context.graph());
    if (grows.low < 0 && grows.high > 0) {
      context.unsupported("axis ", i, " of size '", in[i].str(), "' may be cut or padded to '", out[i].str(),
                          "'", how_to_bind(context.graph(), {in[i], out[i]}));
    }
  }
  context.set_output(0, context.dtype(0), out);
}

std::vector<Node> expand_center(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Shape in = build.shape(node.inputs[0]), out = *graph[node.outputs[0]].shape;
  std::vector<Dim> starts, ends, before, after;
  for (size_t i = 0; i < in.size(); ++i) {
    const bool cut = dim_range(in[i] - out[i], graph).low >= 0;
    starts.push_back(cut ? floor_div(in[i] - out[i], Dim(2)) : Dim(0));
    ends.push_back(cut ? starts.back() + out[i] : in[i]);
    before.push_back(cut ? Dim(0) : floor_div(out[i] - in[i], Dim(2)));
    after.push_back(cut ? Dim(0) : out[i] - in[i] - before.back());
  }
  before.insert(before.end(), after.begin(), after.end());
  const ValueId part = build.add("Slice", {node.inputs[0]}, {{"starts", starts}, {"ends", ends}});
  build.add_to("Pad", {part}, {node.outputs[0]}, {{"pads", before}});
  return build.take();
}

}  // namespace

void register_part_ops(OpTable& table) {
  OpRow concat = movement("Concat", "Operands one after the other along an axis.");
  concat.maximum_inputs = -1;
  concat.attributes = {{"axis", int64_t{1}, false, "", axis_of(0)}};
  concat.types = {{kAnyType}};
  concat.traits.movement = OpTraits::Movement::Join;
  concat.forwards = forwards_only_input;
  concat.infer = infer_concat;
  concat.lower = lower_concat;
  table.add(std::move(concat));

  OpRow split = movement("Split", "Parts of the operand along an axis.");
  split.onnx = {{"Split", 1, input_to_dims(1, "split")}, {"Split", 13, input_to_dims(1, "split")}};
  split.maximum_inputs = 2;
  split.outputs = -1;
  split.attributes = {{"axis", int64_t{0}, false, "", axis_of(0)},
                      {"split", std::vector<int64_t>(), false, "", at_least(0)},
                      {"num_outputs", int64_t{0}, false, "", at_least(1)}};
  split.traits.movement = OpTraits::Movement::Split;
  split.forwards = forwards_only_input;
  split.infer = infer_split;
  split.lower = lower_split;
  table.add(std::move(split));

  OpRow slice = movement("Slice", "Every step-th element between starts and ends.");
  slice.onnx = {{"Slice", 1},
                {"Slice", 10,
                 all_of({input_to_ints(4, "steps"), input_to_ints(3, "axes"), computed_slice,
                         input_to_dims(2, "ends"), input_to_dims(1, "starts")})}};
  slice.maximum_inputs = 5;
  slice.attributes = {{"starts", std::vector<int64_t>(), true},
                      {"ends", std::vector<int64_t>(), true},
                      {"axes", std::vector<int64_t>(), false, "", axis_of(0)},
                      {"steps", std::vector<int64_t>()}};
  slice.traits.movement = OpTraits::Movement::Part;
  slice.forwards = forwards_unsliced;
  slice.infer = infer_slice;
  slice.lower = lower_slice;
  table.add(std::move(slice));

  OpRow center = movement("CenterCropPad", "The middle of the operand, cut or padded with zeros to a shape.");
  center.kind = OpRow::Kind::Expand;
  center.onnx = {{"CenterCropPad", 18, input_to_dims(1, "shape")}};
  center.maximum_inputs = 2;
  center.attributes = {{"shape", std::vector<int64_t>(), true}, {"axes", std::vector<int64_t>()}};
  center.infer = infer_center;
  center.expand = expand_center;
  table.add(std::move(center));
}

}  // namespace tc
