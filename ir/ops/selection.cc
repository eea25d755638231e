// Elements that a condition chooses; their number depends on the condition's values.
#include "ir/ops/selection.h"

namespace tc {
namespace {

// --- NonZero -------------------------------------------------------------------------------------

void normalize_non_zero(Graph& graph, Node& node) {
  add_size(graph, node, element_count(*graph[node.inputs.at(0)].shape));
}

void infer_non_zero(InferContext& context) {
  context.set_output(0, DType::I64, {Dim(context.rank(0)), infer_size(context)});
}

std::vector<Node> expand_non_zero(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Shape shape = build.shape(node.inputs[0]);
  ValueId mask = flat_view(build, node.inputs[0]);
  const DType type = build.dtype(mask);
  if (type != DType::Bool) mask = build.add("Not", {build.add("Equal", {mask, build.number(type, 0)})});
  const ValueId positions = chosen_positions(build, node, mask);
  if (output_wanted(node, 0)) build.add_to("Unravel", {positions}, {node.outputs[0]}, {{"shape", shape}});
  return build.take();
}

void infer_unravel(InferContext& context) {
  const Shape shape = dims_attribute(context.node(), "shape");
  if (context.rank(0) != 1)
    context.error("the positions have shape ", str(context.shape(0)), "; rank 1 is needed");
  context.set_output(0, DType::I64, {Dim(static_cast<int64_t>(shape.size())), context.shape(0)[0]});
}

void lower_unravel(LowerContext& context) {
  const Shape shape = dims_attribute(context.node(), "shape");
  auto space = context.space("i", context.shape(0));
  Dim stride = 1;
  for (size_t axis = shape.size(); axis > 0; --axis) {
    ExprPtr at = context.read(0, space.position);
    if (stride != Dim(1)) at = binary(BinaryOp::Div, at, index_value(context.dim(stride)));
    if (axis > 1) at = binary(BinaryOp::Mod, at, index_value(context.dim(shape[axis - 1])));
    context.assign("coordinate", space.iterators, context.output(0),
                   {Affine(static_cast<int64_t>(axis) - 1), space.position[0]}, at);
    stride = stride * shape[axis - 1];
  }
}

// --- Compress ------------------------------------------------------------------------------------

// How many elements the condition chooses from: the extent of an axis, or the number of all elements.
Dim chosen_extent(const Node& node, const Shape& shape) {
  if (!has_attribute(node, "axis")) return element_count(shape);
  const int64_t axis = int_attribute(node, "axis"), rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis >= rank) {
    fail(ErrorKind::Shape, node.origin.str(), ": axis ", axis, " is outside of -", rank, "..", rank - 1,
         " for a tensor of rank ", rank);
  }
  return shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
}

void normalize_compress(Graph& graph, Node& node) {
  const Shape& condition = *graph[node.inputs.at(1)].shape;
  if (condition.size() != 1)
    fail(ErrorKind::Shape, node.origin.str(), ": the condition has shape ", str(condition),
         "; rank 1 is needed");
  const Dim extent = chosen_extent(node, *graph[node.inputs.at(0)].shape);
  add_size(graph, node, condition[0] == extent ? extent : min(condition[0], extent));
}

void infer_compress(InferContext& context) {
  const Dim size = infer_size(context);
  if (!has_attribute(context.node(), "axis")) return context.set_output(0, context.dtype(0), {size});
  Shape shape = context.shape(0);
  shape[static_cast<size_t>(context.axis(int_attribute(context.node(), "axis"), context.rank(0)))] = size;
  context.set_output(0, context.dtype(0), shape);
}

std::vector<Node> expand_compress(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Dim extent = chosen_extent(node, build.shape(node.inputs[0]));
  ValueId condition = node.inputs[1];
  if (build.shape(condition)[0] != extent) {
    // The condition may be longer than the extent; the excess is ignored.
    condition = build.add("Slice", {condition},
                          {{"starts", std::vector<Dim>{Dim(0)}}, {"ends", std::vector<Dim>{extent}}});
  }
  const ValueId positions = chosen_positions(build, node, condition);
  if (!output_wanted(node, 0)) return build.take();
  const bool flat = !has_attribute(node, "axis");
  const ValueId data = flat ? flat_view(build, node.inputs[0]) : node.inputs[0];
  build.add_to("Gather", {data, positions}, {node.outputs[0]},
               {{"axis", flat ? int64_t{0} : int_attribute(node, "axis")}});
  return build.take();
}

OpRow selection(const std::string& name, int since, const std::string& doc, Normalize normalize,
                std::function<void(InferContext&)> infer,
                std::function<std::vector<Node>(Graph&, const Node&)> expand) {
  OpRow row;
  row.name = name;
  row.kind = OpRow::Kind::Expand;
  row.category = "selection";
  row.doc = doc;
  row.onnx = {{name, since, std::move(normalize)}};
  row.attributes = {
      {"symbol", std::string(), true, "the size that the last output holds; the importer adds both"}};
  row.infer = std::move(infer);
  row.expand = std::move(expand);
  return row;
}

}  // namespace

void register_selection_ops(OpTable& table) {
  OpRow non_zero =
      selection("NonZero", 9, "The coordinates of the elements that are not 0, in row-major order.",
                normalize_non_zero, infer_non_zero, expand_non_zero);
  non_zero.outputs = 2;
  table.add(std::move(non_zero));

  OpRow compress =
      selection("Compress", 9, "The slices along an axis, or the elements, that a condition chooses.",
                normalize_compress, infer_compress, expand_compress);
  compress.outputs = 2;
  compress.minimum_inputs = compress.maximum_inputs = 2;
  compress.types = {{kBools, {1}}};
  compress.attributes.push_back({"axis", int64_t{0}, false, "", axis_of(0)});
  table.add(std::move(compress));

  OpRow unravel;
  unravel.name = "Unravel";
  unravel.category = "selection";
  unravel.doc = "The coordinates, one row per axis of a shape, of positions in row-major order.";
  unravel.types = {{kIndices, {0}}};
  unravel.attributes = {{"shape", std::vector<int64_t>(), true, "", at_least(0)}};
  unravel.infer = infer_unravel;
  unravel.lower = lower_unravel;
  table.add(std::move(unravel));
}

}  // namespace tc
