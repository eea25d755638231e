// The sorted order of elements, and the distinct elements that follow from it.
#include <algorithm>
#include <cmath>

#include "ir/ops/selection.h"

namespace tc {
namespace {

int64_t axis_of(const Node& node, size_t rank) {
  const int64_t axis = int_attribute(node, "axis");
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

// --- ranks ---------------------------------------------------------------------------------------

void infer_ranks(InferContext& context) { context.set_output(0, DType::I64, context.shape(0)); }

// NaN counts as infinity, so that ranks are a permutation.
void lower_ranks(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const int64_t axis = axis_of(context.node(), shape.size());
  const bool largest = int_attribute(context.node(), "largest") != 0;
  const DType type = LowerContext::compute_type(context.dtype(0));
  auto key = [&](const std::vector<Affine>& at) {
    ExprPtr x = context.read_buffer(context.input(0), at);
    return is_float(type) ? select(unary(UnaryOp::IsNan, x), constant(type, INFINITY), x) : x;
  };
  auto space = context.space("i", shape);
  std::vector<Affine> other = space.position;
  other[axis] = Affine::variable("k");
  ExprPtr mine = key(space.position), theirs = key(other);
  ExprPtr first = binary(largest ? BinaryOp::Gt : BinaryOp::Lt, theirs, mine);
  ExprPtr earlier = binary(BinaryOp::Lt, index_value(other[axis]), index_value(space.position[axis]));
  ExprPtr before =
      binary(BinaryOp::Or, first, binary(BinaryOp::And, binary(BinaryOp::Eq, theirs, mine), earlier));
  context.reduce("rank", {space.iterators, {{"k", context.dim(shape[axis])}}}, context.output(0),
                 space.position, Reduction::Sum, cast(DType::I64, before));
}

// The first position at which two rows differ decides; equal rows keep their order.
void lower_row_ranks(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const Affine length = context.dim(shape[1]);
  const Affine i = Affine::variable("i"), j = Affine::variable("j"), k = Affine::variable("k");
  const std::vector<Iterator> rows = {{"i", context.dim(shape[0])}, {"j", context.dim(shape[0])}};
  const int differ = context.local("differ", DType::I64, {shape[0], shape[0]});
  ExprPtr unequal = binary(BinaryOp::Ne, context.read_buffer(context.input(0), {i, k}),
                           context.read_buffer(context.input(0), {j, k}));
  context.reduce("differ", {rows, {{"k", length}}}, differ, {i, j}, Reduction::Min,
                 select(unequal, index_value(k), int_constant(DType::I64, INT64_MAX)));
  ExprPtr place = context.read_buffer(differ, {i, j});
  ExprPtr inside = binary(BinaryOp::Max, binary(BinaryOp::Min, place, index_value(length - Affine(1))),
                          int_constant(DType::I64, 0));
  auto element = [&](const Affine& row) {
    return context.read(0, std::vector<Subscript>{{row, nullptr}, {Affine(0), inside}});
  };
  ExprPtr equal = binary(BinaryOp::Eq, place, int_constant(DType::I64, INT64_MAX));
  ExprPtr before = select(equal, binary(BinaryOp::Lt, index_value(j), index_value(i)),
                          binary(BinaryOp::Lt, element(j), element(i)));
  context.reduce("rank", {{rows[0]}, {rows[1]}}, context.output(0), {i}, Reduction::Sum,
                 cast(DType::I64, before));
}

void infer_row_ranks(InferContext& context) {
  if (context.rank(0) != 2)
    context.error("the rows have shape ", str(context.shape(0)), "; rank 2 is needed");
  context.set_output(0, DType::I64, {context.shape(0)[0]});
}

// --- where runs of equal rows begin --------------------------------------------------------------

void lower_run_starts(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const bool floats = is_float(context.dtype(0));
  const Affine i = Affine::variable("i"), k = Affine::variable("k");
  const std::vector<Iterator> rows = {{"i", context.dim(shape[0])}};
  auto element = [&](const Affine& row) { return context.read_buffer(context.input(0), {row, k}); };
  ExprPtr here = element(i), last = element(i - Affine(1));
  ExprPtr same = binary(BinaryOp::Eq, here, last);
  // All NaNs count as equal.
  if (floats)
    same = binary(BinaryOp::Or, same,
                  binary(BinaryOp::And, unary(UnaryOp::IsNan, here), unary(UnaryOp::IsNan, last)));
  const int changes = context.local("changes", DType::I64, {shape[0]});
  context.reduce("changes", {rows, {{"k", context.dim(shape[1])}}, {i - Affine(1)}}, changes, {i},
                 Reduction::Sum, cast(DType::I64, unary(UnaryOp::Not, same)));
  ExprPtr begins =
      binary(BinaryOp::Or, binary(BinaryOp::Lt, index_value(i), int_constant(DType::I64, 1)),
             binary(BinaryOp::Gt, context.read_buffer(changes, {i}), int_constant(DType::I64, 0)));
  context.assign("begins", rows, context.output(0), {i}, begins);
}

void infer_run_starts(InferContext& context) {
  if (context.rank(0) != 2)
    context.error("the rows have shape ", str(context.shape(0)), "; rank 2 is needed");
  context.set_output(0, DType::Bool, {context.shape(0)[0]});
}

// --- Unique --------------------------------------------------------------------------------------

bool by_axis(const Node& node) { return has_attribute(node, "axis"); }

void normalize_unique(Graph& graph, Node& node) {
  const Shape& shape = *graph[node.inputs.at(0)].shape;
  if (!by_axis(node)) return add_size(graph, node, element_count(shape));
  const int64_t axis = unchecked_attribute<int64_t>(node, "axis"), rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis >= rank) {
    fail(ErrorKind::Shape, node.origin.str(), ": axis ", axis, " is outside of -", rank, "..", rank - 1,
         " for a tensor of rank ", rank);
  }
  add_size(graph, node, shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)]);
}

void infer_unique(InferContext& context) {
  const Dim size = infer_size(context);
  Shape shape = context.shape(0);
  Dim extent = element_count(shape);
  if (by_axis(context.node())) {
    const size_t axis = static_cast<size_t>(axis_of(context.node(), shape.size()));
    extent = shape[axis];
    shape[axis] = size;
  } else {
    shape = {size};
  }
  context.set_output(0, context.dtype(0), shape);
  context.set_output(1, DType::I64, {size});
  context.set_output(2, DType::I64, {extent});
  context.set_output(3, DType::I64, {size});
}

// The permutation that moves axis `axis` before all others, or its inverse.
std::vector<int64_t> to_front(size_t rank, size_t axis, bool back) {
  std::vector<int64_t> order = {static_cast<int64_t>(axis)};
  for (size_t i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(static_cast<int64_t>(i));
  }
  if (!back) return order;
  std::vector<int64_t> inverse(rank);
  for (size_t i = 0; i < rank; ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

// Sorts the rows; the beginning of each run of equal rows gives a result. Equal rows keep their order, so a
// run begins with their first occurrence.
std::vector<Node> expand_unique(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Shape shape = build.shape(node.inputs[0]);
  const size_t axis = by_axis(node) ? static_cast<size_t>(axis_of(node, shape.size())) : 0;
  const DType type = build.dtype(node.inputs[0]);
  ValueId data = build.cast(node.inputs[0], type == DType::Bool ? DType::I32 : type);
  Shape front = {element_count(shape)};
  if (by_axis(node)) {
    data = build.add("Transpose", {data}, {{"perm", to_front(shape.size(), axis, false)}});
    front = build.shape(data);
  }
  const Dim extent = front[0], length = element_count({front.begin() + 1, front.end()});
  const bool single = length == Dim(1);
  const ValueId rows =
      build.add("Reshape", {data}, {{"shape", std::vector<Dim>{extent, length}}, {"allowzero", int64_t{1}}});
  const ValueId order = single ? sorted_order(build, flat_view(build, rows), false)
                               : order_of_ranks(build, build.add("RowRanks", {rows}));
  const ValueId begins = build.add("RunStarts", {build.add("Gather", {rows, order}, {{"axis", int64_t{0}}})});
  const ValueId positions = chosen_positions(build, node, begins);
  const Dim size = build.shape(positions)[0];
  ValueId first = build.add("Gather", {order, positions}, {{"axis", int64_t{0}}});
  // The number of the run that each row belongs to.
  const ValueId runs = build.add("CumSum", {build.cast(begins, DType::I64)}, {{"axis", int64_t{0}}});
  const ValueId run = build.add("Sub", {runs, build.integer(DType::I64, 1)});
  ValueId inverse =
      build.add("ScatterElements", {zeros(build, {extent}), order, run}, {{"axis", int64_t{0}}});
  const ValueId ones =
      build.add("Expand", {build.constant(int_tensor({1}, {1}))}, {{"shape", std::vector<Dim>{extent}}});
  ValueId counts = build.add("ScatterElements", {zeros(build, {size}), run, ones},
                             {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  if (int_attribute(node, "sorted") == 0) {
    // Sorts the runs by the positions of their first rows.
    const ValueId places = sorted_order(build, first, false);
    first = build.add("Gather", {first, places}, {{"axis", int64_t{0}}});
    counts = build.add("Gather", {counts, places}, {{"axis", int64_t{0}}});
    const ValueId place_of = build.add(
        "ScatterElements", {zeros(build, {size}), places, numbers_to(build, size)}, {{"axis", int64_t{0}}});
    inverse = build.add("Gather", {place_of, inverse}, {{"axis", int64_t{0}}});
  }
  if (output_wanted(node, 0)) {
    ValueId chosen = build.add(
        "Gather", {build.add("Reshape", {data}, {{"shape", front}, {"allowzero", int64_t{1}}}), first},
        {{"axis", int64_t{0}}});
    if (by_axis(node))
      chosen = build.add("Transpose", {chosen}, {{"perm", to_front(shape.size(), axis, true)}});
    build.give(0, build.cast(chosen, type));
  }
  build.give(1, first);
  build.give(2, inverse);
  build.give(3, counts);
  return build.take();
}

OpRow order_row(const std::string& name, const std::string& doc, std::function<void(InferContext&)> infer,
                std::function<void(LowerContext&)> lower) {
  OpRow row;
  row.name = name;
  row.category = "selection";
  row.doc = doc;
  row.types = {{kNumbers, {0}}};
  row.infer = std::move(infer);
  row.lower = std::move(lower);
  return row;
}

}  // namespace

ValueId flat_view(NodeBuilder& build, ValueId value) {
  return build.add(
      "Reshape", {value},
      {{"shape", std::vector<Dim>{element_count(build.shape(value))}}, {"allowzero", int64_t{1}}});
}

ValueId zeros(NodeBuilder& build, const Shape& shape) {
  return build.add("ConstantOfShape", {}, {{"shape", shape}, {"value", int_tensor({1}, {0})}});
}

ValueId numbers_to(NodeBuilder& build, const Dim& count) {
  return build.add("Range", {}, {{"range", std::vector<Dim>{Dim(0), count, Dim(1)}}});
}

ValueId order_of_ranks(NodeBuilder& build, ValueId ranks) {
  const Shape shape = build.shape(ranks);
  ValueId places = numbers_to(build, shape.back());
  if (shape.size() > 1) places = build.add("Expand", {places}, {{"shape", shape}});
  return build.add("ScatterElements", {zeros(build, shape), ranks, places}, {{"axis", int64_t{-1}}});
}

bool is_computed(const Graph& graph, ValueId value) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::find(node.outputs.begin(), node.outputs.end(), value) != node.outputs.end();
  });
}

ValueId value_of(NodeBuilder& build, const Dim& size) {
  if (size.is_constant()) return build.integer(DType::I64, size.constant());
  const ValueId one = build.add("Range", {}, {{"range", std::vector<Dim>{size, size + Dim(1), Dim(1)}}});
  return build.add("Reshape", {one}, {{"shape", std::vector<Dim>{}}, {"allowzero", int64_t{1}}});
}

ValueId chosen_positions(NodeBuilder& build, const Node& model, ValueId mask) {
  const Dim total = build.shape(mask)[0];
  const ValueId flags = build.cast(mask, DType::I64);
  const ValueId count =
      build.add("ReduceSum", {flags}, {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}});
  build.add_to("DataSize", {count}, {model.outputs.back()}, {{"symbol", string_attribute(model, "symbol")}});
  const Dim size = Dim::symbol(string_attribute(model, "symbol"));
  const ValueId before = build.add("CumSum", {flags}, {{"axis", int64_t{0}}, {"exclusive", int64_t{1}}});
  const ValueId places =
      build.add("ScatterElements", {zeros(build, {size + Dim(1)}), before, numbers_to(build, total)},
                {{"axis", int64_t{0}}});
  return build.add("Slice", {places},
                   {{"starts", std::vector<Dim>{Dim(0)}}, {"ends", std::vector<Dim>{size}}});
}

void register_sorting_ops(OpTable& table) {
  register_merge_rows(table);
  OpRow ranks = order_row(
      "Ranks", "How many elements of its row come before each element; equal ones keep their order.",
      infer_ranks, lower_ranks);
  ranks.attributes = {{"axis", int64_t{-1}, false, "", axis_of(0)}, {"largest", int64_t{0}}};
  table.add(std::move(ranks));
  table.add(order_row(
      "RowRanks",
      "How many rows of a matrix come before each row in lexicographic order; equal ones keep their order.",
      infer_row_ranks, lower_row_ranks));
  table.add(order_row("RunStarts",
                      "Whether a row of a matrix differs from the one before it; the first one does.",
                      infer_run_starts, lower_run_starts));

  OpRow unique = order_row(
      "Unique",
      "The distinct elements, or slices along an axis: sorted, or in the order of their first appearance.",
      infer_unique, nullptr);
  unique.kind = OpRow::Kind::Expand;
  unique.onnx = {{"Unique", 11, normalize_unique}};
  unique.types = {};
  unique.outputs = 5;
  unique.attributes = {
      {"axis", int64_t{0}, false, "", axis_of(0)},
      {"sorted", int64_t{1}},
      {"symbol", std::string(), true, "the size that the last output holds; the importer adds both"}};
  unique.expand = expand_unique;
  table.add(std::move(unique));
}

}  // namespace tc
