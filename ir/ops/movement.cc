// Data movement: each result element is an element of the operand, or padding.
#include <algorithm>
#include <numeric>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// --- transpose, expand, tile, block rearrangement --------------------------------------------------

std::vector<int64_t> permutation(const Node& node, size_t rank) {
  std::vector<int64_t> order =
      has_attribute(node, "perm") ? ints_attribute(node, "perm") : std::vector<int64_t>();
  if (order.empty()) {
    for (size_t i = rank; i > 0; --i) order.push_back(static_cast<int64_t>(i) - 1);
  }
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

// The operand of a transpose that leaves every axis where it is.
ValueId forwards_unmoved(const Graph& graph, const Node& node) {
  if (forwards_same_shape(graph, node) == kNoValue) return kNoValue;
  const std::vector<int64_t> order =
      has_attribute(node, "perm") ? ints_attribute(node, "perm") : std::vector<int64_t>();
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i)) return kNoValue;
  }
  return order.size() == graph[node.inputs[0]].shape->size() ? node.inputs[0] : kNoValue;
}

// Whether a size of the operand is 1 or that of the wanted shape for some sizes of the model's inputs only,
// as those of a mask [new tokens, new tokens] that becomes [new tokens, all tokens].
bool is_one_or_same(const Graph& graph, const Dim& own, const Dim& wanted) {
  if (own == Dim(1) || wanted == Dim(1) || own == wanted) return false;
  if (mentions_data(own, graph) || mentions_data(wanted, graph)) return false;
  const Interval more = dim_range(wanted - own, graph);
  return more.low >= 0 && more.high > 0 && (more.low == 0 || dim_range(own, graph).low <= 1);
}

void infer_expand(InferContext& context) {
  const Shape shape = dims_attribute(context.node(), "shape");
  Shape own = context.shape(0);
  for (size_t i = 0; i < std::min(own.size(), shape.size()); ++i) {
    Dim& size = own[own.size() - 1 - i];
    const Dim& wanted = shape[shape.size() - 1 - i];
    if (!is_one_or_same(context.graph(), size, wanted)) continue;
    const Dim either = min(size - Dim(1), wanted - size);
    context.require_equal(either, Dim(0),
                          text("axis ", own.size() - 1 - i, " is ", size.str(), ", not 1 or ", wanted.str()));
    size = wanted;
  }
  context.set_output(0, context.dtype(0), context.broadcast({own, shape}));
  auto elements = context.elements(0);
  if (!elements || elements->size() != 1 || shape.size() > 1) return;
  const Shape& result = *context.graph()[context.node().outputs[0]].shape;
  if (!is_constant(result) || element_count(result).constant() > 64) return;
  context.set_elements(
      0, std::vector<Dim>(static_cast<size_t>(element_count(result).constant()), (*elements)[0]));
}

void lower_expand(LowerContext& context) {
  auto space = context.space("i", *context.output_value(0).shape);
  const Shape &own = context.shape(0), &result = *context.output_value(0).shape;
  std::vector<Subscript> index;
  for (const Affine& each : context.broadcast_index(own, space.position)) index.push_back({each, nullptr});
  for (size_t i = 0; i < own.size(); ++i) {
    const Dim& wanted = result[result.size() - own.size() + i];
    if (own[i] == Dim(1) || own[i] == wanted) continue;
    // The size is 1 or the wanted one.
    const ExprPtr last = index_value(context.dim(own[i]) - Affine(1));
    index[i] = {Affine(0), binary(BinaryOp::Min, index_value(index[i].affine), last)};
  }
  context.assign("copy", space.iterators, context.output(0), space.position,
                 context.read(0, std::move(index)));
}

void infer_tile(InferContext& context) {
  const std::vector<Dim> repeats = dims_attribute(context.node(), "repeats");
  Shape shape = context.shape(0);
  if (repeats.size() != shape.size())
    context.error(repeats.size(), " repeats for a tensor of shape ", str(shape));
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
    iterators.push_back({text("r", i), context.dim(repeats[i])});
    out[i] = out[i] + Affine::variable(text("r", i)) * shape[i].constant();
  }
  context.assign("copy", iterators, context.output(0), out, context.read(0, space.position));
}

// If a repeated axis has no fixed size, the repetitions get an axis of their own.
std::vector<Node> expand_tile(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Shape shape = build.shape(node.inputs[0]);
  const std::vector<Dim> repeats = dims_attribute(node, "repeats");
  Shape divided, repeated, result;
  bool any = false;
  for (size_t i = 0; i < shape.size(); ++i) {
    result.push_back(shape[i] * repeats[i]);
    if (repeats[i] != Dim(1)) {
      any = any || !shape[i].is_constant();
      divided.push_back(1);
      repeated.push_back(repeats[i]);
    }
    divided.push_back(shape[i]);
    repeated.push_back(shape[i]);
  }
  if (!any) return {};
  const std::map<std::string, Attribute> to_divided = {{"shape", std::vector<Dim>(divided)},
                                                       {"allowzero", int64_t{1}}};
  const std::map<std::string, Attribute> to_result = {{"shape", std::vector<Dim>(result)},
                                                      {"allowzero", int64_t{1}}};
  const ValueId all = build.add("Expand", {build.add("Reshape", {node.inputs[0]}, to_divided)},
                                {{"shape", std::vector<Dim>(repeated)}});
  build.add_to("Reshape", {all}, {node.outputs[0]}, to_result);
  return build.take();
}

int64_t block_of(const Node& node) { return int_attribute(node, "blocksize"); }

void infer_depth_to_space(InferContext& context) {
  const int64_t block = block_of(context.node());
  const Shape& shape = context.shape(0);
  if (shape.size() != 4) context.error("the input has shape ", str(shape), "; rank 4 is needed");
  if (!shape[1].is_constant() || shape[1].constant() % (block * block) != 0) {
    context.error(shape[1].str(), " channels do not divide by blocksize ", block, " squared",
                  how_to_bind(context.graph(), {shape[1]}));
  }
  context.set_output(
      0, context.dtype(0),
      {shape[0], Dim(shape[1].constant() / (block * block)), shape[2] * Dim(block), shape[3] * Dim(block)});
}

void infer_space_to_depth(InferContext& context) {
  const int64_t block = block_of(context.node());
  const Shape& shape = context.shape(0);
  if (shape.size() != 4) context.error("the input has shape ", str(shape), "; rank 4 is needed");
  for (int i : {2, 3}) {
    if (mod(shape[i], Dim(block)) == Dim(0)) continue;
    context.error("axis ", i, " of shape ", str(shape), " does not divide by blocksize ", block,
                  how_to_bind(context.graph(), {shape[i]}));
  }
  context.set_output(0, context.dtype(0),
                     {shape[0], shape[1] * Dim(block * block), floor_div(shape[2], Dim(block)),
                      floor_div(shape[3], Dim(block))});
}

// Both directions move element (n, c, y, x, by, bx) between depth and space.
void lower_blocks(LowerContext& context, bool to_space) {
  const Node& node = context.node();
  const int64_t block = block_of(node);
  const Shape& deep = to_space ? context.shape(0) : *context.output_value(0).shape;
  const int64_t channels = constant_shape({floor_div(deep[1], Dim(block * block))})[0];
  auto space = context.space("i", {deep[0], Dim(channels), deep[2], Dim(block), deep[3], Dim(block)});
  const auto& p = space.position;
  const bool columns_first = string_attribute(node, "mode") == "CRD";
  const Affine depth =
      columns_first ? p[1] * (block * block) + p[3] * block + p[5] : (p[3] * block + p[5]) * channels + p[1];
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
  std::vector<int64_t> axes =
      has_attribute(node, "axes") ? ints_attribute(node, "axes") : std::vector<int64_t>();
  const int64_t rank = static_cast<int64_t>(shape.size());
  if (axes.empty()) {
    axes.resize(shape.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (pads.size() != 2 * axes.size()) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", pads.size(), " paddings are given for ", axes.size(),
         " axes");
  }
  Padding padding{std::vector<Dim>(shape.size(), Dim(0)), std::vector<Dim>(shape.size(), Dim(0))};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    padding.before[axis] = pads[i];
    padding.after[axis] = pads[axes.size() + i];
  }
  return padding;
}

void infer_pad(InferContext& context) {
  Shape shape = context.shape(0);
  const Padding padding = padding_of(context.node(), shape);
  need_one_element(context, 1, "the value");
  const std::string mode = string_attribute(context.node(), "mode");
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim extent = shape[i];
    for (const Dim& pad : {padding.before[i], padding.after[i]}) {
      if (mode == "constant" || !pad.is_constant() || pad.constant() <= 0) continue;
      if (extent == Dim(0))
        context.error("axis ", i, " of shape ", str(shape), " is empty and cannot be padded by mode ", mode);
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
    ExprPtr fill = context.has_input(1)
                       ? context.read(1, std::vector<Affine>(context.shape(1).size(), Affine(0)))
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
  context.assign("copy", space.iterators, context.output(0), space.position,
                 context.read(0, std::move(index)));
}

// The operand of a pad that adds nothing.
ValueId forwards_unpadded(const Graph& graph, const Node& node) {
  if (forwards_same_shape(graph, node) == kNoValue) return kNoValue;
  const std::vector<Dim> pads = dims_attribute(node, "pads");
  return std::all_of(pads.begin(), pads.end(), [](const Dim& pad) { return pad == Dim(0); }) ? node.inputs[0]
                                                                                             : kNoValue;
}

void old_pad(Graph&, Node& node) {
  auto found = node.attributes.find("paddings");
  if (found == node.attributes.end()) return;
  node.attributes["pads"] = found->second;
  node.attributes.erase("paddings");
}

// Inputs: data, pads, value, axes; the value stays an input.
void pads_of_inputs(Graph& graph, Node& node) {
  if (input_given(node, 3)) input_to_ints(3, "axes")(graph, node);
  const ValueId value = input_given(node, 2) ? node.inputs[2] : kNoValue;
  if (input_given(node, 1)) input_to_dims(1, "pads")(graph, node);
  node.inputs.resize(1);
  if (value != kNoValue) node.inputs.push_back(value);
}

}  // namespace

void register_movement_ops(OpTable& table) {
  OpRow transpose = movement("Transpose", "Axes in another order.");
  transpose.attributes = {{"perm", std::vector<int64_t>(), false, "", permutation_of(0)}};
  transpose.infer = infer_transpose;
  transpose.lower = lower_transpose;
  transpose.traits.movement = OpTraits::Movement::Permute;
  transpose.forwards = forwards_unmoved;
  table.add(std::move(transpose));

  OpRow expand = movement("Expand", "Broadcast to a shape.");
  expand.onnx = {{"Expand", 8, input_to_dims(1, "shape")}};
  expand.maximum_inputs = 2;
  expand.attributes = {{"shape", std::vector<int64_t>(), true}};
  expand.traits.movement = OpTraits::Movement::Part;
  expand.forwards = forwards_same_shape;
  expand.infer = infer_expand;
  expand.lower = lower_expand;
  table.add(std::move(expand));

  OpRow tile = movement("Tile", "The operand repeated along each axis.");
  tile.onnx = {{"Tile", 6, input_to_dims(1, "repeats")}};
  tile.maximum_inputs = 2;
  tile.attributes = {{"repeats", std::vector<int64_t>(), true, "", at_least(0)}};
  tile.forwards = forwards_same_shape;
  tile.infer = infer_tile;
  tile.lower = lower_tile;
  tile.expand = expand_tile;
  table.add(std::move(tile));

  OpRow deep = movement("DepthToSpace", "Channels moved into blocks of the map; `mode` is DCR or CRD.");
  const AttributeRow blocksize = {"blocksize", int64_t{1}, true, "", from_to(1, 4096)};
  const AttributeRow mode = {"mode", std::string("DCR"), false, "", one_of({"DCR", "CRD"})};
  deep.attributes = {blocksize, mode};
  deep.infer = infer_depth_to_space;
  deep.lower = [](LowerContext& context) { lower_blocks(context, true); };
  table.add(std::move(deep));

  OpRow wide = movement("SpaceToDepth", "Blocks of the map moved into channels; `mode` is DCR or CRD.");
  wide.attributes = {blocksize, mode};
  wide.infer = infer_space_to_depth;
  wide.lower = [](LowerContext& context) { lower_blocks(context, false); };
  table.add(std::move(wide));

  OpRow pad = movement(
      "Pad",
      "Elements added at (or, if negative, cut from) both ends of each axis; `mode` is constant, reflect, edge or wrap.");
  pad.onnx = {{"Pad", 1, old_pad}, {"Pad", 11, pads_of_inputs}};
  pad.maximum_inputs = 4;
  constexpr int64_t kMaxAdded = int64_t{1} << 40;
  pad.attributes = {
      {"pads", std::vector<int64_t>(), true, "", from_to(-kMaxAdded, kMaxAdded)},
      {"mode", std::string("constant"), false, "", one_of({"constant", "reflect", "edge", "wrap"})},
      {"value", 0.0},
      {"axes", std::vector<int64_t>(), false, "", axis_of(0)}};
  pad.types = {{kAnyType}};
  pad.traits.movement = OpTraits::Movement::Pad;
  pad.forwards = forwards_unpadded;
  pad.infer = infer_pad;
  pad.lower = lower_pad;
  table.add(std::move(pad));

  OpRow reorder = movement("Reorder", "The operand in another memory layout; the compiler inserts it.");
  reorder.category = "layout";
  reorder.traits.movement = OpTraits::Movement::Layout;
  reorder.onnx.clear();
  reorder.infer = infer_same;
  reorder.lower = lower_expand;
  table.add(std::move(reorder));
}

}  // namespace tc
