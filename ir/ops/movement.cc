// Data movement: each result element is one element of an operand.
#include <algorithm>
#include <numeric>

#include "ir/ops/rows.h"

namespace tc {
namespace {

OpRow movement(const std::string& name, const std::string& doc) {
  OpRow row;
  row.name = name;
  row.category = "movement";
  row.doc = doc;
  row.onnx = {{name, 1}};
  return row;
}

int64_t axis_of(const Node& node, size_t rank) {
  const int64_t axis = int_attribute(node, "axis");
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

// --- concat and split ----------------------------------------------------------------------------

void infer_concat(InferContext& context) {
  Shape shape = context.shape(0);
  if (shape.empty()) context.error("operands of rank 0 have no axis");
  const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
  for (int i = 1; i < context.input_count(); ++i) {
    const Shape& other = context.shape(i);
    if (other.size() != shape.size()) {
      context.error("operands 0 and ", i, " have shapes ", str(context.shape(0)), " and ", str(other), ": their ranks differ");
    }
    if (context.dtype(i) != context.dtype(0)) {
      context.error("operands 0 and ", i, " have types ", name_of(context.dtype(0)), " and ", name_of(context.dtype(i)));
    }
    for (size_t d = 0; d < shape.size(); ++d) {
      if (static_cast<int64_t>(d) == axis) {
        shape[d] = shape[d] + other[d];
      } else if (shape[d] != other[d]) {
        context.error("operands 0 and ", i, " have shapes ", str(context.shape(0)), " and ", str(other), ", which differ in axis ", d);
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
    fail(ErrorKind::Unsupported, node.origin.str(), ": an axis of size '", extent.str(), "' may not divide into ", parts,
         " parts; bind the symbol to a number");
  }
  // With num_outputs that does not divide the extent the last part is smaller.
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
  if (total != shape[axis]) {
    context.error("the sizes add up to ", total.str(), " but axis ", axis, " of ", str(shape), " is ", shape[axis].str());
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
      context.assign("copy", space.iterators, context.output(static_cast<int>(i)), space.position, context.read(0, in));
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

// A position given by the model in [0, extent], or in [-1, extent-1] for negative steps.
Dim clamped(const Dim& position, const Dim& extent, bool backwards, const Graph& graph) {
  const Dim low = backwards ? Dim(-1) : Dim(0), high = backwards ? extent - Dim(1) : extent;
  // What exporters write for "to the end".
  constexpr int64_t kFar = int64_t{1} << 30;
  if (position.is_constant() && position.constant() >= kFar) return high;
  if (position.is_constant() && position.constant() <= -kFar) return low;
  const Dim at = position.is_constant() && position.constant() < 0 ? extent + position : position;
  auto at_least = [&](const Dim& a, const Dim& b) { return dim_range(a - b, graph).low >= 0; };
  const Dim bounded = at_least(high, at) ? at : at_least(at, high) ? high : min(at, high);
  return at_least(bounded, low) ? bounded : backwards ? max(bounded + Dim(1), Dim(0)) - Dim(1) : max(bounded, low);
}

std::vector<Range> slice_ranges(const Node& node, const Shape& shape, const Graph& graph) {
  std::vector<Range> ranges;
  for (const Dim& extent : shape) ranges.push_back({Dim(0), extent, 1});
  const int64_t rank = static_cast<int64_t>(shape.size());
  const std::vector<Dim> starts = dims_attribute(node, "starts"), ends = dims_attribute(node, "ends");
  std::vector<int64_t> axes = has_attribute(node, "axes") ? ints_attribute(node, "axes") : std::vector<int64_t>();
  std::vector<int64_t> steps = has_attribute(node, "steps") ? ints_attribute(node, "steps") : std::vector<int64_t>();
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", starts.size(), " starts, ", ends.size(), " ends, ", axes.size(),
         " axes and ", steps.size(), " steps do not fit together");
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) {
      fail(ErrorKind::Shape, node.origin.str(), ": axis ", axes[i], " is outside of a tensor of rank ", rank);
    }
    const int64_t step = steps[i];
    if (step == 0) fail(ErrorKind::Shape, node.origin.str(), ": step of axis ", axis, " is 0");
    const Dim start = clamped(starts[i], shape[axis], step < 0, graph), end = clamped(ends[i], shape[axis], step < 0, graph);
    const Dim distance = step < 0 ? start - end : end - start;
    const int64_t size = step < 0 ? (step == INT64_MIN ? INT64_MAX : -step) : step;
    Dim length = ceil_div(distance, Dim(size));
    if (length.is_constant() && length.constant() < 0) length = 0;
    if (!length.is_constant() && dim_range(length, graph).low < 0) length = max(length, Dim(0));
    ranges[axis] = {start, length, step};
    if (length == Dim(0)) ranges[axis].start = 0;
    if (length == Dim(0) || length == Dim(1)) ranges[axis].step = 1;
  }
  return ranges;
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

// --- transpose, expand, tile, block rearrangement --------------------------------------------------

std::vector<int64_t> permutation(const Node& node, size_t rank) {
  std::vector<int64_t> order = has_attribute(node, "perm") ? ints_attribute(node, "perm") : std::vector<int64_t>();
  if (order.empty()) {
    for (size_t i = rank; i > 0; --i) order.push_back(static_cast<int64_t>(i) - 1);
  }
  std::vector<bool> seen(rank, false);
  bool valid = order.size() == rank;
  for (int64_t& axis : order) {
    if (axis < 0) axis += static_cast<int64_t>(rank);
    valid = valid && axis >= 0 && axis < static_cast<int64_t>(rank) && !seen[axis];
    if (valid) seen[axis] = true;
  }
  if (!valid) fail(ErrorKind::Shape, node.origin.str(), ": perm is no permutation of the ", rank, " axes");
  return order;
}

void infer_transpose(InferContext& context) {
  const Shape& shape = context.shape(0);
  Shape result;
  for (int64_t axis : permutation(context.node(), shape.size())) result.push_back(shape[axis]);
  context.set_output(0, context.dtype(0), result);
  if (auto elements = context.elements(0); elements && shape.size() <= 1) context.set_elements(0, *elements);
}

void lower_transpose(LowerContext& context) {
  const std::vector<int64_t> order = permutation(context.node(), context.shape(0).size());
  auto space = context.space("i", *context.output_value(0).shape);
  std::vector<Affine> in(order.size());
  for (size_t i = 0; i < order.size(); ++i) in[order[i]] = space.position[i];
  context.assign("copy", space.iterators, context.output(0), space.position, context.read(0, in));
}

void infer_expand(InferContext& context) {
  const Shape shape = dims_attribute(context.node(), "shape");
  context.set_output(0, context.dtype(0), context.broadcast({context.shape(0), shape}));
  auto elements = context.elements(0);
  if (!elements || elements->size() != 1 || shape.size() > 1) return;
  const Shape& result = *context.graph()[context.node().outputs[0]].shape;
  if (!is_constant(result) || element_count(result).constant() > 64) return;
  context.set_elements(0, std::vector<Dim>(static_cast<size_t>(element_count(result).constant()), (*elements)[0]));
}

void lower_expand(LowerContext& context) {
  auto space = context.space("i", *context.output_value(0).shape);
  context.assign("copy", space.iterators, context.output(0), space.position,
                 context.read(0, context.broadcast_index(context.shape(0), space.position)));
}

void infer_tile(InferContext& context) {
  const std::vector<Dim> repeats = dims_attribute(context.node(), "repeats");
  Shape shape = context.shape(0);
  if (repeats.size() != shape.size()) context.error(repeats.size(), " repeats for a tensor of shape ", str(shape));
  for (size_t i = 0; i < shape.size(); ++i) shape[i] = shape[i] * repeats[i];
  context.set_output(0, context.dtype(0), shape);
}

void lower_tile(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const std::vector<Dim> repeats = dims_attribute(context.node(), "repeats");
  auto space = context.space("i", shape);
  std::vector<Affine> out = space.position;
  std::vector<Iterator> iterators = space.iterators;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] == Dim(1)) continue;
    if (!shape[i].is_constant()) {
      fail(ErrorKind::Unsupported, context.node().origin.str(), ": repeating axis ", i, " of size '", shape[i].str(),
           "' needs a fixed size; bind the symbol to a number");
    }
    iterators.push_back({text("r", i), context.dim(repeats[i])});
    out[i] = out[i] + Affine::variable(text("r", i)) * shape[i].constant();
  }
  context.assign("copy", iterators, context.output(0), out, context.read(0, space.position));
}

int64_t block_of(const Node& node) {
  const int64_t block = int_attribute(node, "blocksize");
  if (block < 1 || block > 4096) fail(ErrorKind::Shape, node.origin.str(), ": blocksize is ", block);
  return block;
}

void infer_depth_to_space(InferContext& context) {
  const int64_t block = block_of(context.node());
  const Shape& shape = context.shape(0);
  if (shape.size() != 4) context.error("the input has shape ", str(shape), "; rank 4 is needed");
  if (!shape[1].is_constant() || shape[1].constant() % (block * block) != 0) {
    context.error(shape[1].str(), " channels do not divide by blocksize ", block, " squared");
  }
  context.set_output(0, context.dtype(0), {shape[0], Dim(shape[1].constant() / (block * block)), shape[2] * Dim(block), shape[3] * Dim(block)});
}

void infer_space_to_depth(InferContext& context) {
  const int64_t block = block_of(context.node());
  const Shape& shape = context.shape(0);
  if (shape.size() != 4) context.error("the input has shape ", str(shape), "; rank 4 is needed");
  for (int i : {2, 3}) {
    if (mod(shape[i], Dim(block)) != Dim(0)) context.error("axis ", i, " of shape ", str(shape), " does not divide by blocksize ", block);
  }
  context.set_output(0, context.dtype(0), {shape[0], shape[1] * Dim(block * block), floor_div(shape[2], Dim(block)), floor_div(shape[3], Dim(block))});
}

// Both directions move element (n, c, y, x, by, bx) between depth and space.
void lower_blocks(LowerContext& context, bool to_space) {
  const Node& node = context.node();
  const int64_t block = block_of(node);
  const Shape& deep = to_space ? context.shape(0) : *context.output_value(0).shape;
  const int64_t channels = constant_shape({floor_div(deep[1], Dim(block * block))})[0];
  auto space = context.space("i", {deep[0], Dim(channels), deep[2], Dim(block), deep[3], Dim(block)});
  const auto& p = space.position;
  const bool columns_first = to_space && choice_attribute(node, "mode", {"DCR", "CRD"}) == "CRD";
  const Affine depth = columns_first ? p[1] * (block * block) + p[3] * block + p[5] : (p[3] * block + p[5]) * channels + p[1];
  const std::vector<Affine> at_depth = {p[0], depth, p[2], p[4]};
  const std::vector<Affine> at_space = {p[0], p[1], p[2] * block + p[3], p[4] * block + p[5]};
  context.assign("copy", space.iterators, context.output(0), to_space ? at_space : at_depth,
                 context.read(0, to_space ? at_depth : at_space));
}

// --- pad -----------------------------------------------------------------------------------------

struct Padding {
  std::vector<Dim> before, after;
};

Padding padding_of(const Node& node, const Shape& shape) {
  const std::vector<Dim> pads = dims_attribute(node, "pads");
  std::vector<int64_t> axes = has_attribute(node, "axes") ? ints_attribute(node, "axes") : std::vector<int64_t>();
  const int64_t rank = static_cast<int64_t>(shape.size());
  if (axes.empty()) {
    axes.resize(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (pads.size() != 2 * axes.size()) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", pads.size(), " paddings are given for ", axes.size(), " axes");
  }
  Padding padding{std::vector<Dim>(shape.size(), Dim(0)), std::vector<Dim>(shape.size(), Dim(0))};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) fail(ErrorKind::Shape, node.origin.str(), ": axis ", axes[i], " is outside of a tensor of rank ", rank);
    padding.before[axis] = pads[i];
    padding.after[axis] = pads[axes.size() + i];
  }
  return padding;
}

void infer_pad(InferContext& context) {
  Shape shape = context.shape(0);
  const Padding padding = padding_of(context.node(), shape);
  if (context.has_input(1) && (element_count(context.shape(1)) != Dim(1) || context.dtype(1) != context.dtype(0))) {
    context.error("the value is ", name_of(context.dtype(1)), str(context.shape(1)), "; one element of type ",
                  name_of(context.dtype(0)), " is needed");
  }
  const std::string mode = string_attribute(context.node(), "mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") context.unsupported("mode '", mode, "' is not supported");
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim extent = shape[i];
    for (const Dim& pad : {padding.before[i], padding.after[i]}) {
      if (mode == "constant" || !pad.is_constant() || pad.constant() <= 0) continue;
      if (extent == Dim(0)) context.error("axis ", i, " of shape ", str(shape), " is empty and cannot be padded by mode ", mode);
      if (mode == "reflect" && extent.is_constant() && pad.constant() >= extent.constant()) {
        context.error("axis ", i, " of size ", extent.str(), " cannot be reflected by ", pad.str());
      }
    }
    shape[i] = extent + padding.before[i] + padding.after[i];
  }
  context.set_output(0, context.dtype(0), shape);
}

void lower_pad_constant(LowerContext& context, const Padding& padding) {
  const Shape& in = context.shape(0);
  const Shape& out = *context.output_value(0).shape;
  const DType type = LowerContext::compute_type(context.dtype(0));
  bool any = false;
  Shape copied;
  std::vector<Affine> from, to;
  for (size_t i = 0; i < in.size(); ++i) {
    auto cut = [](const Dim& pad) { return pad.is_constant() && pad.constant() < 0 ? Dim(0) - pad : Dim(0); };
    const Dim before = cut(padding.before[i]), after = cut(padding.after[i]);
    Dim extent = in[i] - before - after;
    copied.push_back(extent.is_constant() && extent.constant() < 0 ? Dim(0) : extent);
    from.push_back(context.dim(before));
    to.push_back(context.dim(padding.before[i] + before));
    any = any || padding.before[i] + before != Dim(0) || padding.after[i] + after != Dim(0);
  }
  if (any) {
    ExprPtr fill = context.has_input(1) ? context.read(1, std::vector<Affine>(context.shape(1).size(), Affine(0)))
                                        : constant(type, float_attribute(context.node(), "value"));
    auto whole = context.space("o", out);
    context.assign("fill", whole.iterators, context.output(0), whole.position, fill);
  }
  auto space = context.space("i", copied);
  std::vector<Affine> source, target;
  for (size_t i = 0; i < in.size(); ++i) {
    source.push_back(space.position[i] + from[i]);
    target.push_back(space.position[i] + to[i]);
  }
  context.assign("copy", space.iterators, context.output(0), target, context.read(0, source));
}

void lower_pad(LowerContext& context) {
  const Shape& in = context.shape(0);
  const Padding padding = padding_of(context.node(), in);
  const std::string mode = string_attribute(context.node(), "mode");
  if (mode == "constant") return lower_pad_constant(context, padding);
  auto space = context.space("i", *context.output_value(0).shape);
  std::vector<Subscript> index;
  auto number = [](int64_t value) { return int_constant(DType::I64, value); };
  for (size_t i = 0; i < in.size(); ++i) {
    const Affine at = space.position[i] - context.dim(padding.before[i]);
    auto harmless = [](const Dim& pad) { return pad.is_constant() && pad.constant() <= 0; };
    if (harmless(padding.before[i]) && harmless(padding.after[i])) {
      index.push_back({at, nullptr});
      continue;
    }
    ExprPtr j = index_value(at), last = index_value(context.dim(in[i]) - Affine(1));
    if (mode == "reflect") {
      j = unary(UnaryOp::Abs, j);
      j = binary(BinaryOp::Sub, last, unary(UnaryOp::Abs, binary(BinaryOp::Sub, last, j)));
    } else if (mode == "wrap") {
      j = binary(BinaryOp::Mod, j, index_value(context.dim(in[i])));
    } else {
      j = binary(BinaryOp::Max, binary(BinaryOp::Min, j, last), number(0));
    }
    index.push_back({Affine(0), j});
  }
  context.assign("copy", space.iterators, context.output(0), space.position, context.read(0, std::move(index)));
}

// --- views ---------------------------------------------------------------------------------------

// Copies in row-major order between two shapes of equal size: axes are grouped where their products
// agree; a group that is not one axis on both sides goes through its flat index.
void lower_view(LowerContext& context) {
  const Shape& in = context.shape(0);
  const Shape& out = *context.output_value(0).shape;
  auto space = context.space("i", out);
  std::vector<Subscript> index;
  size_t a = 0, b = 0;
  while (a < in.size() || b < out.size()) {
    if (a < in.size() && in[a] == Dim(1)) {
      index.push_back({Affine(0), nullptr});
      ++a;
      continue;
    }
    if (b < out.size() && out[b] == Dim(1)) {
      ++b;
      continue;
    }
    if (a < in.size() && b < out.size() && in[a] == out[b]) {
      index.push_back({space.position[b++], nullptr});
      ++a;
      continue;
    }
    const size_t first_in = a, first_out = b;
    Dim inside = a < in.size() ? in[a++] : Dim(1), outside = b < out.size() ? out[b++] : Dim(1);
    while (inside != outside && (a < in.size() || b < out.size())) {
      const bool grow_in = b >= out.size() || (a < in.size() && inside.is_constant() && outside.is_constant() &&
                                               inside.constant() < outside.constant());
      if (grow_in || (a < in.size() && !(inside.is_constant() && outside.is_constant()) && a - first_in <= b - first_out)) {
        inside = inside * in[a++];
      } else {
        outside = outside * out[b++];
      }
    }
    if (a - first_in == 1 && is_constant({out.begin() + static_cast<int64_t>(first_out) + 1, out.begin() + static_cast<int64_t>(b)})) {
      Affine merged = 0;
      for (size_t i = first_out; i < b; ++i) merged = merged * (out[i].is_constant() ? out[i].constant() : 1) + space.position[i];
      index.push_back({merged, nullptr});
      continue;
    }
    ExprPtr flat = int_constant(DType::I64, 0);
    for (size_t i = first_out; i < b; ++i) {
      flat = binary(BinaryOp::Add, binary(BinaryOp::Mul, flat, index_value(context.dim(out[i]))), index_value(space.position[i]));
    }
    std::vector<Subscript> part(a - first_in);
    for (size_t i = a; i > first_in; --i) {
      ExprPtr extent = index_value(context.dim(in[i - 1]));
      const bool outermost = i - 1 == first_in;
      part[i - 1 - first_in] = {Affine(0), outermost ? flat : binary(BinaryOp::Mod, flat, extent)};
      flat = binary(BinaryOp::Div, flat, extent);
    }
    index.insert(index.end(), part.begin(), part.end());
  }
  context.assign("copy", space.iterators, context.output(0), space.position, context.read(0, std::move(index)));
}

OpRow view(const std::string& name, const std::string& doc, std::function<Shape(InferContext&)> shape) {
  OpRow row;
  row.name = name;
  row.kind = OpRow::Kind::View;
  row.category = "view";
  row.doc = doc;
  row.onnx = {{name, 1}};
  row.infer = [shape](InferContext& context) {
    const Shape result = shape(context);
    if (element_count(result) != element_count(context.shape(0))) {
      context.error("a tensor of shape ", str(context.shape(0)), " cannot take shape ", str(result), ": they have ",
                    element_count(context.shape(0)).str(), " and ", element_count(result).str(), " elements");
    }
    context.set_output(0, context.dtype(0), result);
    if (auto elements = context.elements(0); elements && result.size() <= 1) context.set_elements(0, *elements);
  };
  row.lower = lower_view;
  return row;
}

Shape reshaped(InferContext& context) {
  const Shape& in = context.shape(0);
  std::vector<Dim> shape = dims_attribute(context.node(), "shape");
  const bool zeros = int_attribute(context.node(), "allowzero") != 0;
  int unknown = -1;
  Dim known = 1;
  // Equal factors of both sides cancel first, so that symbols never need dividing.
  std::vector<Dim> left(in.begin(), in.end());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Dim(0) && !zeros) {
      if (i >= in.size()) context.error("the new shape ", str(shape), " copies axis ", i, " of ", str(in));
      shape[i] = in[i];
    }
    if (shape[i] == Dim(-1)) {
      if (unknown >= 0) context.error("the new shape ", str(shape), " has more than one -1");
      unknown = static_cast<int>(i);
      continue;
    }
    auto same = std::find(left.begin(), left.end(), shape[i]);
    if (same != left.end()) left.erase(same);
    else known = known * shape[i];
  }
  if (unknown >= 0) {
    const Dim total = element_count(left);
    if (known == Dim(0)) context.error("the -1 in the new shape ", str(shape), " is ambiguous: another axis is 0");
    if (known.is_constant() && total.is_constant() && total.constant() % known.constant() != 0) {
      context.error("a tensor of shape ", str(in), " cannot take shape ", str(shape));
    }
    shape[unknown] = floor_div(total, known);
  }
  return shape;
}

Shape flattened(InferContext& context) {
  const Shape& in = context.shape(0);
  const int64_t rank = context.rank(0);
  int64_t axis = int_attribute(context.node(), "axis");
  if (axis < -rank || axis > rank) context.error("axis ", axis, " is outside of a tensor of rank ", rank);
  if (axis < 0) axis += rank;
  return {element_count({in.begin(), in.begin() + axis}), element_count({in.begin() + axis, in.end()})};
}

Shape squeezed(InferContext& context) {
  const Shape& in = context.shape(0);
  std::vector<bool> drop(in.size(), false);
  const std::vector<int64_t> axes = has_attribute(context.node(), "axes") ? ints_attribute(context.node(), "axes") : std::vector<int64_t>();
  for (int64_t axis : axes) {
    axis = context.axis(axis, context.rank(0));
    if (in[axis] != Dim(1)) context.error("axis ", axis, " of shape ", str(in), " is not 1 and cannot be squeezed");
    drop[axis] = true;
  }
  Shape result;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!drop[i] && !(axes.empty() && in[i] == Dim(1))) result.push_back(in[i]);
  }
  return result;
}

Shape unsqueezed(InferContext& context) {
  const Shape& in = context.shape(0);
  const std::vector<int64_t> axes = ints_attribute(context.node(), "axes");
  const int64_t rank = context.rank(0) + static_cast<int64_t>(axes.size());
  if (rank > 16) context.error("a tensor of rank ", rank, " is over the limit of 16");
  std::vector<bool> fresh(static_cast<size_t>(rank), false);
  for (int64_t axis : axes) {
    axis = context.axis(axis, rank);
    if (fresh[axis]) context.error("axis ", axis, " is given twice");
    fresh[axis] = true;
  }
  Shape result;
  auto next = in.begin();
  for (bool one : fresh) result.push_back(one ? Dim(1) : *next++);
  return result;
}

Shape same_shape(InferContext& context) { return context.shape(0); }

}  // namespace

void register_movement_ops(OpTable& table) {
  OpRow concat = movement("Concat", "Operands one after the other along an axis.");
  concat.maximum_inputs = -1;
  concat.attributes = {{"axis", int64_t{1}}};
  concat.infer = infer_concat;
  concat.lower = lower_concat;
  table.add(std::move(concat));

  OpRow split = movement("Split", "Parts of the operand along an axis.");
  split.onnx = {{"Split", 1}, {"Split", 13, input_to_dims(1, "split")}};
  split.maximum_inputs = 2;
  split.outputs = -1;
  split.attributes = {{"axis", int64_t{0}}, {"split", std::vector<int64_t>()}, {"num_outputs", int64_t{0}}};
  split.infer = infer_split;
  split.lower = lower_split;
  table.add(std::move(split));

  OpRow slice = movement("Slice", "Every step-th element between starts and ends.");
  slice.onnx = {{"Slice", 1}, {"Slice", 10, all_of({input_to_ints(4, "steps"), input_to_ints(3, "axes"),
                                                     input_to_dims(2, "ends"), input_to_dims(1, "starts")})}};
  slice.maximum_inputs = 5;
  slice.attributes = {{"starts", std::vector<int64_t>(), true}, {"ends", std::vector<int64_t>(), true},
                      {"axes", std::vector<int64_t>()}, {"steps", std::vector<int64_t>()}};
  slice.infer = infer_slice;
  slice.lower = lower_slice;
  table.add(std::move(slice));

  OpRow transpose = movement("Transpose", "Axes in another order.");
  transpose.attributes = {{"perm", std::vector<int64_t>()}};
  transpose.infer = infer_transpose;
  transpose.lower = lower_transpose;
  table.add(std::move(transpose));

  OpRow expand = movement("Expand", "Broadcast to a shape.");
  expand.onnx = {{"Expand", 8, input_to_dims(1, "shape")}};
  expand.maximum_inputs = 2;
  expand.attributes = {{"shape", std::vector<int64_t>(), true}};
  expand.infer = infer_expand;
  expand.lower = lower_expand;
  table.add(std::move(expand));

  OpRow tile = movement("Tile", "The operand repeated along each axis.");
  tile.onnx = {{"Tile", 6, input_to_dims(1, "repeats")}};
  tile.maximum_inputs = 2;
  tile.attributes = {{"repeats", std::vector<int64_t>(), true}};
  tile.infer = infer_tile;
  tile.lower = lower_tile;
  table.add(std::move(tile));

  OpRow deep = movement("DepthToSpace", "Channels moved into blocks of the map; `mode` is DCR or CRD.");
  deep.attributes = {{"blocksize", int64_t{1}, true}, {"mode", std::string("DCR")}};
  deep.infer = infer_depth_to_space;
  deep.lower = [](LowerContext& context) { lower_blocks(context, true); };
  table.add(std::move(deep));

  OpRow wide = movement("SpaceToDepth", "Blocks of the map moved into channels.");
  wide.attributes = {{"blocksize", int64_t{1}, true}};
  wide.infer = infer_space_to_depth;
  wide.lower = [](LowerContext& context) { lower_blocks(context, false); };
  table.add(std::move(wide));

  OpRow pad = movement("Pad", "Elements added at (or, if negative, cut from) both ends of each axis; `mode` is constant, reflect, edge or wrap.");
  auto old_pad = [](Graph&, Node& node) {
    auto found = node.attributes.find("paddings");
    if (found == node.attributes.end()) return;
    node.attributes["pads"] = found->second;
    node.attributes.erase("paddings");
  };
  pad.onnx = {{"Pad", 1, old_pad}, {"Pad", 11, [](Graph& graph, Node& node) {
                // Inputs: data, pads, value, axes; the value stays an input.
                if (input_given(node, 3)) input_to_ints(3, "axes")(graph, node);
                const ValueId value = input_given(node, 2) ? node.inputs[2] : kNoValue;
                if (input_given(node, 1)) input_to_dims(1, "pads")(graph, node);
                node.inputs.resize(1);
                if (value != kNoValue) node.inputs.push_back(value);
              }}};
  pad.maximum_inputs = 4;
  pad.attributes = {{"pads", std::vector<int64_t>(), true}, {"mode", std::string("constant")}, {"value", 0.0}, {"axes", std::vector<int64_t>()}};
  pad.infer = infer_pad;
  pad.lower = lower_pad;
  table.add(std::move(pad));

  OpRow reshape = view("Reshape", "The elements in row-major order under another shape.", reshaped);
  reshape.onnx = {{"Reshape", 1}, {"Reshape", 5, input_to_dims(1, "shape")}};
  reshape.maximum_inputs = 2;
  reshape.attributes = {{"shape", std::vector<int64_t>(), true}, {"allowzero", int64_t{0}}};
  table.add(std::move(reshape));

  OpRow flatten = view("Flatten", "A matrix: the axes before `axis`, and the others.", flattened);
  flatten.attributes = {{"axis", int64_t{1}}};
  table.add(std::move(flatten));

  OpRow squeeze = view("Squeeze", "Without axes of extent 1.", squeezed);
  squeeze.onnx = {{"Squeeze", 1, input_to_ints(1, "axes")}};
  squeeze.maximum_inputs = 2;
  squeeze.attributes = {{"axes", std::vector<int64_t>()}};
  table.add(std::move(squeeze));

  OpRow unsqueeze = view("Unsqueeze", "With new axes of extent 1.", unsqueezed);
  unsqueeze.onnx = {{"Unsqueeze", 1, input_to_ints(1, "axes")}};
  unsqueeze.maximum_inputs = 2;
  unsqueeze.attributes = {{"axes", std::vector<int64_t>(), true}};
  table.add(std::move(unsqueeze));

  table.add(view("Identity", "The operand.", same_shape));

  OpRow dropout;
  dropout.name = "Dropout";
  dropout.kind = OpRow::Kind::Expand;
  dropout.category = "view";
  dropout.doc = "The operand (inference), and a mask of true.";
  dropout.maximum_inputs = 3;
  dropout.outputs = 2;
  dropout.onnx = {{"Dropout", 1, [](Graph& graph, Node& node) {
                     for (const char* name : {"is_test", "consumed_inputs"}) node.attributes.erase(name);
                     if (input_given(node, 2)) {
                       auto training = known_elements(graph[node.inputs[2]]);
                       if (!training || training->size() != 1 || (*training)[0] != Dim(0)) {
                         fail(ErrorKind::Unsupported, node.origin.str(), ": training_mode is on; export the model for inference");
                       }
                     }
                     if (node.inputs.size() > 1) node.inputs.resize(1);
                   }}};
  dropout.attributes = {{"ratio", 0.5}, {"seed", int64_t{0}}};
  dropout.infer = [](InferContext& context) {
    infer_same(context);
    context.set_output(1, DType::Bool, context.shape(0));
  };
  dropout.expand = [](Graph& graph, const Node& node) {
    NodeBuilder build(graph, node);
    if (node.outputs[0] != kNoValue) build.add_to("Identity", node.inputs, {node.outputs[0]});
    if (node.outputs.size() > 1 && node.outputs[1] != kNoValue) {
      build.add_to("Expand", {build.number(DType::Bool, 1)}, {node.outputs[1]}, {{"shape", *graph[node.inputs[0]].shape}});
    }
    return build.take();
  };
  table.add(std::move(dropout));

  OpRow reorder = movement("Reorder", "The operand in another memory layout; the compiler inserts it.");
  reorder.category = "layout";
  reorder.onnx.clear();
  reorder.infer = infer_same;
  reorder.lower = lower_expand;
  table.add(std::move(reorder));
}

}  // namespace tc
