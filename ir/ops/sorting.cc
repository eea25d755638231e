// The order of elements, and what follows from it: the distinct ones.
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
  ExprPtr before = binary(BinaryOp::Or, first, binary(BinaryOp::And, binary(BinaryOp::Eq, theirs, mine), earlier));
  context.reduce("rank", {space.iterators, {{"k", context.dim(shape[axis])}}}, context.output(0), space.position, Reduction::Sum,
                 cast(DType::I64, before));
}

// The first place where two rows differ decides; equal rows keep their order.
void lower_row_ranks(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const Affine length = context.dim(shape[1]);
  const Affine i = Affine::variable("i"), j = Affine::variable("j"), k = Affine::variable("k");
  const std::vector<Iterator> rows = {{"i", context.dim(shape[0])}, {"j", context.dim(shape[0])}};
  const int differ = context.local("differ", DType::I64, {shape[0], shape[0]});
  ExprPtr unequal = binary(BinaryOp::Ne, context.read_buffer(context.input(0), {i, k}), context.read_buffer(context.input(0), {j, k}));
  context.reduce("differ", {rows, {{"k", length}}}, differ, {i, j}, Reduction::Min,
                 select(unequal, index_value(k), int_constant(DType::I64, INT64_MAX)));
  ExprPtr place = context.read_buffer(differ, {i, j});
  ExprPtr inside = binary(BinaryOp::Max, binary(BinaryOp::Min, place, index_value(length - Affine(1))), int_constant(DType::I64, 0));
  auto element = [&](const Affine& row) { return context.read(0, std::vector<Subscript>{{row, nullptr}, {Affine(0), inside}}); };
  ExprPtr equal = binary(BinaryOp::Eq, place, int_constant(DType::I64, INT64_MAX));
  ExprPtr before = select(equal, binary(BinaryOp::Lt, index_value(j), index_value(i)), binary(BinaryOp::Lt, element(j), element(i)));
  context.reduce("rank", {{rows[0]}, {rows[1]}}, context.output(0), {i}, Reduction::Sum, cast(DType::I64, before));
}

void infer_row_ranks(InferContext& context) {
  if (context.rank(0) != 2) context.error("the rows have shape ", str(context.shape(0)), "; rank 2 is needed");
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
  // NaNs are one value.
  if (floats) same = binary(BinaryOp::Or, same, binary(BinaryOp::And, unary(UnaryOp::IsNan, here), unary(UnaryOp::IsNan, last)));
  const int changes = context.local("changes", DType::I64, {shape[0]});
  context.reduce("changes", {rows, {{"k", context.dim(shape[1])}}, {i - Affine(1)}}, changes, {i}, Reduction::Sum,
                 cast(DType::I64, unary(UnaryOp::Not, same)));
  ExprPtr begins = binary(BinaryOp::Or, binary(BinaryOp::Lt, index_value(i), int_constant(DType::I64, 1)),
                          binary(BinaryOp::Gt, context.read_buffer(changes, {i}), int_constant(DType::I64, 0)));
  context.assign("begins", rows, context.output(0), {i}, begins);
}

void infer_run_starts(InferContext& context) {
  if (context.rank(0) != 2) context.error("the rows have shape ", str(context.shape(0)), "; rank 2 is needed");
  context.set_output(0, DType::Bool, {context.shape(0)[0]});
}

// --- merging -------------------------------------------------------------------------------------

// Blocks are sorted by counting, which vectorises; rows that are not longer than kShortRow altogether.
constexpr int64_t kBlockBits = 6, kBlock = int64_t{1} << kBlockBits;
constexpr int64_t kShortRow = 256;
// Lengths of runs that rows of 2^40 elements have.
constexpr int64_t kMostStages = 34;

// Where output `o` of a row lies: in a pair of runs of `width` elements, of which the right one may be cut short.
struct Pair {
  ExprPtr width, place, base, left_length, right_length;
};

ExprPtr number(int64_t value) { return int_constant(DType::I64, value); }

Pair pair_of(LowerContext& context, const Affine& output) {
  const Affine length = context.dim(context.shape(0)[1]);
  Pair pair;
  pair.width = binary(BinaryOp::Shl, number(1), context.read(1, std::vector<Affine>()));
  ExprPtr last = binary(BinaryOp::Sub, binary(BinaryOp::Add, pair.width, pair.width), number(1));
  pair.place = binary(BinaryOp::And, index_value(output), last);
  pair.base = binary(BinaryOp::Sub, index_value(output), pair.place);
  ExprPtr left = binary(BinaryOp::Sub, index_value(length), pair.base);
  pair.left_length = binary(BinaryOp::Min, pair.width, left);
  pair.right_length = binary(BinaryOp::Max, binary(BinaryOp::Min, binary(BinaryOp::Sub, left, pair.width), pair.width), number(0));
  return pair;
}

// Whether the next element of the pair comes from the left run, of which `left` elements are taken already, as are
// `right` of the right one. Of equal ones the left one comes first.
ExprPtr takes_left(LowerContext& context, const Pair& pair, const Affine& row, const ExprPtr& left, const ExprPtr& right) {
  ExprPtr last = index_value(context.dim(context.shape(0)[1]) - Affine(1));
  auto element = [&](const ExprPtr& at) {
    return context.read(0, std::vector<Subscript>{{row, nullptr}, {Affine(0), binary(BinaryOp::Max, binary(BinaryOp::Min, at, last), number(0))}});
  };
  const bool largest = int_attribute(context.node(), "largest") != 0;
  ExprPtr mine = element(binary(BinaryOp::Add, pair.base, left));
  ExprPtr theirs = element(binary(BinaryOp::Add, binary(BinaryOp::Add, pair.base, pair.width), right));
  ExprPtr first = unary(UnaryOp::Not, binary(largest ? BinaryOp::Gt : BinaryOp::Lt, theirs, mine));
  ExprPtr right_done = binary(BinaryOp::Ge, right, pair.right_length), left_open = binary(BinaryOp::Lt, left, pair.left_length);
  return binary(BinaryOp::Or, right_done, binary(BinaryOp::And, left_open, first));
}

void infer_merge(InferContext& context) {
  if (context.rank(0) != 2) context.error("the rows have shape ", str(context.shape(0)), "; rank 2 is needed");
  context.set_output(0, DType::I64, context.shape(0));
}

// How many elements of the left run come before each output of its pair.
void lower_merge_path(LowerContext& context) {
  const Affine r = Affine::variable("r"), o = Affine::variable("o");
  const std::vector<Iterator> all = {{"r", context.dim(context.shape(0)[0])}, {"o", context.dim(context.shape(0)[1])}};
  context.assign("first", all, context.output(0), {r, o}, number(0), {Affine(0) - o});
  const Pair pair = pair_of(context, o);
  ExprPtr left = context.read_buffer(context.output(0), {r, o - Affine(1)});
  ExprPtr right = binary(BinaryOp::Sub, binary(BinaryOp::Sub, pair.place, number(1)), left);
  // The pair of the output before, which is the same but at its begin.
  ExprPtr next = binary(BinaryOp::Add, left, cast(DType::I64, takes_left(context, pair, r, left, right)));
  context.assign("next", all, context.output(0), {r, o}, select(binary(BinaryOp::Eq, pair.place, number(0)), number(0), next), {o - Affine(1)});
}

// Where the element of each output lies.
void lower_merge_source(LowerContext& context) {
  const Affine r = Affine::variable("r"), o = Affine::variable("o");
  const std::vector<Iterator> all = {{"r", context.dim(context.shape(0)[0])}, {"o", context.dim(context.shape(0)[1])}};
  const Pair pair = pair_of(context, o);
  ExprPtr left = context.read(2, std::vector<Affine>{r, o});
  ExprPtr right = binary(BinaryOp::Sub, pair.place, left);
  ExprPtr at = select(takes_left(context, pair, r, left, right), left, binary(BinaryOp::Add, pair.width, right));
  context.assign("source", all, context.output(0), {r, o}, binary(BinaryOp::Add, pair.base, at));
}

// What comes last in the order.
TensorPtr last_key(DType type, bool largest) {
  if (is_float(type)) return number_tensor(type, {}, {largest ? -INFINITY : INFINITY});
  auto key = std::make_shared<Tensor>(type, std::vector<int64_t>());
  const int64_t bits = 8 * size_of(type);
  const bool is_signed = type == DType::I8 || type == DType::I16 || type == DType::I32 || type == DType::I64;
  const int64_t most = bits == 64 ? (is_signed ? INT64_MAX : -1) : (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  key->set_int(0, largest ? (is_signed ? -most - 1 : 0) : most);
  return key;
}

ValueId reshaped(NodeBuilder& build, ValueId value, const Shape& shape) {
  return build.add("Reshape", {value}, {{"shape", shape}, {"allowzero", int64_t{1}}});
}

// How many stages of merging rows of a length need.
Dim stages_of(NodeBuilder& build, const Dim& length) {
  if (length.is_constant()) {
    int64_t stages = 0;
    while ((kBlock << stages) < length.constant()) ++stages;
    return stages;
  }
  std::vector<int64_t> widths;
  for (int64_t i = 0; i < kMostStages; ++i) widths.push_back(kBlock << i);
  const ValueId size = build.add("Range", {}, {{"range", std::vector<Dim>{length, length + Dim(1), Dim(1)}}});
  const ValueId shorter = build.add("Less", {build.constant(int_tensor({kMostStages}, widths)), size});
  const ValueId count = build.add("ReduceSum", {build.cast(shorter, DType::I64)}, {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}});
  return build.size(count, Dim(kMostStages));
}

// The keys and their places after merging runs of kBlock, two by two.
ValueId merged(NodeBuilder& build, ValueId keys, ValueId places, bool largest) {
  const Dim stages = stages_of(build, build.shape(keys)[1]);
  if (stages == Dim(0)) return places;
  const Node no_node;
  auto body = std::make_shared<Graph>();
  body->name = "merge";
  body->symbols = build.graph().symbols;
  const ValueId inside_keys = body->add_value("keys", build.dtype(keys), build.shape(keys));
  const ValueId inside_places = body->add_value("places", DType::I64, build.shape(keys));
  const ValueId stage = body->add_value("stage", DType::I64, Shape{});
  body->inputs = {inside_keys, inside_places, stage};
  NodeBuilder inside(*body, no_node);
  const std::map<std::string, Attribute> order = {{"largest", int64_t{largest}}}, along = {{"axis", int64_t{1}}};
  const ValueId path = inside.add("MergePath", {inside_keys, stage}, order);
  const ValueId source = inside.add("MergeSource", {inside_keys, stage, path}, order);
  body->outputs = {inside.add("GatherElements", {inside_keys, source}, along), inside.add("GatherElements", {inside_places, source}, along)};
  body->nodes = inside.take();
  const ValueId numbers = build.add("Range", {}, {{"range", std::vector<Dim>{Dim(kBlockBits), Dim(kBlockBits) + stages, Dim(1)}}});
  return build.add_many("Scan", {keys, places, numbers}, 2, {{"body", GraphPtr(body)}, {"num_scan_inputs", int64_t{1}}})[1];
}

ValueId merge_sorted(NodeBuilder& build, ValueId keys, bool largest) {
  const Shape shape = build.shape(keys);
  const DType type = build.dtype(keys);
  if (is_float(type)) keys = build.add("Where", {build.add("IsNaN", {keys}), build.number(type, INFINITY), keys});
  const Dim length = shape.back(), rows = element_count({shape.begin(), shape.end() - 1});
  const Dim blocks = ceil_div(length, Dim(kBlock)), padded = blocks * Dim(kBlock);
  keys = reshaped(build, keys, {rows, length});
  if (padded != length) {
    keys = build.add("Pad", {keys, build.constant(last_key(type, largest))}, {{"pads", std::vector<Dim>{Dim(0), Dim(0), Dim(0), padded - length}}});
  }
  keys = reshaped(build, keys, {rows * blocks, Dim(kBlock)});
  const ValueId order = order_of_ranks(build, build.add("Ranks", {keys}, {{"axis", int64_t{-1}}, {"largest", int64_t{largest}}}));
  keys = reshaped(build, build.add("GatherElements", {keys, order}, {{"axis", int64_t{1}}}), {rows, padded});
  const ValueId begins = build.add("Range", {}, {{"range", std::vector<Dim>{Dim(0), padded, Dim(kBlock)}}});
  const ValueId places = build.add("Add", {reshaped(build, order, {rows, blocks, Dim(kBlock)}), reshaped(build, begins, {blocks, Dim(1)})});
  const ValueId sorted = merged(build, keys, reshaped(build, places, {rows, padded}), largest);
  const ValueId kept = build.add("Slice", {sorted}, {{"starts", std::vector<Dim>{Dim(0)}}, {"ends", std::vector<Dim>{length}},
                                                     {"axes", std::vector<int64_t>{1}}});
  return reshaped(build, kept, shape);
}

OpRow merge_row(const std::string& name, int inputs, const std::string& doc, std::function<void(LowerContext&)> lower) {
  OpRow row;
  row.name = name;
  row.category = "selection";
  row.doc = doc;
  row.minimum_inputs = row.maximum_inputs = inputs;
  row.types = {{kNumbers, {0}}, {kIndices, {1}}};
  row.attributes = {{"largest", int64_t{0}}};
  row.infer = infer_merge;
  row.lower = std::move(lower);
  return row;
}

// --- Unique --------------------------------------------------------------------------------------

bool by_axis(const Node& node) { return has_attribute(node, "axis"); }

void normalize_unique(Graph& graph, Node& node) {
  const Shape& shape = *graph[node.inputs.at(0)].shape;
  if (!by_axis(node)) return add_size(graph, node, element_count(shape));
  const int64_t axis = unchecked_attribute<int64_t>(node, "axis"), rank = static_cast<int64_t>(shape.size());
  if (axis < -rank || axis >= rank) {
    fail(ErrorKind::Shape, node.origin.str(), ": axis ", axis, " is outside of -", rank, "..", rank - 1, " for a tensor of rank ", rank);
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

// Axis `axis` before all others, or back.
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

// Rows in order; where runs of equal ones begin, a result is. Equal rows keep their order, so that a run begins with the
// first of them.
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
  const ValueId rows = build.add("Reshape", {data}, {{"shape", std::vector<Dim>{extent, length}}, {"allowzero", int64_t{1}}});
  const ValueId order = single ? sorted_order(build, flat_view(build, rows), false)
                               : order_of_ranks(build, build.add("RowRanks", {rows}));
  const ValueId begins = build.add("RunStarts", {build.add("Gather", {rows, order}, {{"axis", int64_t{0}}})});
  const ValueId positions = chosen_positions(build, node, begins);
  const Dim size = build.shape(positions)[0];
  ValueId first = build.add("Gather", {order, positions}, {{"axis", int64_t{0}}});
  // The number of the run that each row belongs to.
  const ValueId runs = build.add("CumSum", {build.cast(begins, DType::I64)}, {{"axis", int64_t{0}}});
  const ValueId run = build.add("Sub", {runs, build.integer(DType::I64, 1)});
  ValueId inverse = build.add("ScatterElements", {zeros(build, {extent}), order, run}, {{"axis", int64_t{0}}});
  const ValueId ones = build.add("Expand", {build.constant(int_tensor({1}, {1}))}, {{"shape", std::vector<Dim>{extent}}});
  ValueId counts = build.add("ScatterElements", {zeros(build, {size}), run, ones}, {{"axis", int64_t{0}}, {"reduction", std::string("add")}});
  if (int_attribute(node, "sorted") == 0) {
    // Runs in the order of their first rows.
    const ValueId places = sorted_order(build, first, false);
    first = build.add("Gather", {first, places}, {{"axis", int64_t{0}}});
    counts = build.add("Gather", {counts, places}, {{"axis", int64_t{0}}});
    const ValueId place_of = build.add("ScatterElements", {zeros(build, {size}), places, numbers_to(build, size)}, {{"axis", int64_t{0}}});
    inverse = build.add("Gather", {place_of, inverse}, {{"axis", int64_t{0}}});
  }
  if (output_wanted(node, 0)) {
    ValueId chosen = build.add("Gather", {build.add("Reshape", {data}, {{"shape", front}, {"allowzero", int64_t{1}}}), first}, {{"axis", int64_t{0}}});
    if (by_axis(node)) chosen = build.add("Transpose", {chosen}, {{"perm", to_front(shape.size(), axis, true)}});
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
  return build.add("Reshape", {value}, {{"shape", std::vector<Dim>{element_count(build.shape(value))}}, {"allowzero", int64_t{1}}});
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

ValueId sorted_order(NodeBuilder& build, ValueId keys, bool largest) {
  const Dim length = build.shape(keys).back();
  if (dim_range(length, build.graph()).high > kShortRow) return merge_sorted(build, keys, largest);
  return order_of_ranks(build, build.add("Ranks", {keys}, {{"axis", int64_t{-1}}, {"largest", int64_t{largest}}}));
}

ValueId chosen_positions(NodeBuilder& build, const Node& model, ValueId mask) {
  const Dim total = build.shape(mask)[0];
  const ValueId flags = build.cast(mask, DType::I64);
  const ValueId count = build.add("ReduceSum", {flags}, {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}});
  build.add_to("DataSize", {count}, {model.outputs.back()}, {{"symbol", string_attribute(model, "symbol")}});
  const Dim size = Dim::symbol(string_attribute(model, "symbol"));
  const ValueId before = build.add("CumSum", {flags}, {{"axis", int64_t{0}}, {"exclusive", int64_t{1}}});
  const ValueId places = build.add("ScatterElements", {zeros(build, {size + Dim(1)}), before, numbers_to(build, total)}, {{"axis", int64_t{0}}});
  return build.add("Slice", {places}, {{"starts", std::vector<Dim>{Dim(0)}}, {"ends", std::vector<Dim>{size}}});
}

void register_sorting_ops(OpTable& table) {
  table.add(merge_row("MergePath", 2, "How many elements of the left one of two sorted runs come before each element of both; runs have 2 to the power of input 1 elements.",
                      lower_merge_path));
  table.add(merge_row("MergeSource", 3, "Where each element of two merged runs lies, by the path of their merging.", lower_merge_source));
  OpRow ranks = order_row("Ranks", "How many elements of its row come before each element; equal ones keep their order.", infer_ranks, lower_ranks);
  ranks.attributes = {{"axis", int64_t{-1}, false, "", axis_of(0)}, {"largest", int64_t{0}}};
  table.add(std::move(ranks));
  table.add(order_row("RowRanks", "How many rows of a matrix come before each row in lexicographic order; equal ones keep their order.",
                      infer_row_ranks, lower_row_ranks));
  table.add(order_row("RunStarts", "Whether a row of a matrix differs from the one before it; the first one does.", infer_run_starts, lower_run_starts));

  OpRow unique = order_row("Unique", "The distinct elements, or slices along an axis: sorted, or in the order of their first appearance.", infer_unique, nullptr);
  unique.kind = OpRow::Kind::Expand;
  unique.onnx = {{"Unique", 11, normalize_unique}};
  unique.types = {};
  unique.outputs = 5;
  unique.attributes = {{"axis", int64_t{0}, false, "", axis_of(0)}, {"sorted", int64_t{1}},
                       {"symbol", std::string(), true, "the size that the last output holds; the importer adds both"}};
  unique.expand = expand_unique;
  table.add(std::move(unique));
}

}  // namespace tc
