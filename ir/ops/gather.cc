// Elements chosen by indices that are data: gather, scatter, one-hot.
#include <algorithm>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

int64_t axis_of(const Node& node, size_t rank) {
  const int64_t axis = int_attribute(node, "axis");
  return axis < 0 ? axis + static_cast<int64_t>(rank) : axis;
}

// An index as i64, counted from the end where negative, and clamped to the axis.
ExprPtr safe_index(LowerContext& context, ExprPtr index, const Dim& extent) {
  if (index->dtype != DType::I64) index = cast(DType::I64, index);
  ExprPtr size = index_value(context.dim(extent)), zero = int_constant(DType::I64, 0);
  index = select(binary(BinaryOp::Lt, index, zero), binary(BinaryOp::Add, index, size), index);
  ExprPtr last = index_value(context.dim(extent) - Affine(1));
  return binary(BinaryOp::Max, binary(BinaryOp::Min, index, last), zero);
}

// --- Gather --------------------------------------------------------------------------------------

void infer_gather(InferContext& context) {
  const Shape& data = context.shape(0);
  const Shape& indices = context.shape(1);
  const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
  Shape shape(data.begin(), data.begin() + axis);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), data.begin() + axis + 1, data.end());
  auto chosen = context.elements(1);
  if (chosen && data[axis].is_constant()) {
    for (const Dim& index : *chosen) {
      if (!index.is_constant()) continue;
      if (index.constant() < -data[axis].constant() || index.constant() >= data[axis].constant()) {
        context.error("index ", index.str(), " is outside of axis ", axis, " of shape ", str(data));
      }
    }
  }
  context.set_output(0, context.dtype(0), shape);
  auto elements = context.elements(0);
  if (!elements || !chosen || data.size() != 1 || indices.size() > 1) return;
  std::vector<Dim> result;
  for (const Dim& index : *chosen) {
    if (!index.is_constant()) return;
    int64_t at = index.constant();
    if (at < 0) at += static_cast<int64_t>(elements->size());
    if (at < 0 || at >= static_cast<int64_t>(elements->size())) return;
    result.push_back((*elements)[at]);
  }
  context.set_elements(0, result);
}

void lower_gather(LowerContext& context) {
  const Shape& data = context.shape(0);
  const Shape& indices = context.shape(1);
  const int64_t axis = axis_of(context.node(), data.size());
  auto space = context.space("i", *context.output_value(0).shape);
  const auto first = space.position.begin();
  const std::vector<Affine> where(first + axis, first + axis + static_cast<int64_t>(indices.size()));
  std::vector<Subscript> index;
  for (int64_t i = 0; i < axis; ++i) index.push_back({space.position[i], nullptr});
  ExprPtr chosen = context.read(1, where);
  if (chosen->kind == Expr::Kind::Const) {
    const Affine at =
        chosen->integer < 0 ? context.dim(data[axis]) + Affine(chosen->integer) : Affine(chosen->integer);
    index.push_back({at, nullptr});
  } else {
    index.push_back({Affine(0), safe_index(context, chosen, data[axis])});
  }
  for (size_t i = axis + indices.size(); i < space.position.size(); ++i)
    index.push_back({space.position[i], nullptr});
  context.assign("copy", space.iterators, context.output(0), space.position,
                 context.read(0, std::move(index)));
}

// --- GatherElements, GatherND ----------------------------------------------------------------------

// Checks that along the other axes the indices are not longer than the data.
void check_inside(InferContext& context) {
  const Shape& data = context.shape(0);
  const Shape& indices = context.shape(1);
  const int64_t axis = axis_of(context.node(), data.size());
  for (size_t i = 0; i < data.size(); ++i) {
    if (static_cast<int64_t>(i) == axis) continue;
    context.require_at_most(
        indices[i], data[i],
        text("indices of shape ", str(indices), " reach over data of shape ", str(data), " along axis ", i));
  }
}

void infer_gather_elements(InferContext& context) {
  if (context.rank(0) != context.rank(1)) {
    context.error("data of shape ", str(context.shape(0)), " and indices of shape ", str(context.shape(1)),
                  " differ in rank");
  }
  check_inside(context);
  context.set_output(0, context.dtype(0), context.shape(1));
}

void lower_gather_elements(LowerContext& context) {
  const Shape& data = context.shape(0);
  const int64_t axis = axis_of(context.node(), data.size());
  auto space = context.space("i", context.shape(1));
  std::vector<Subscript> index;
  for (const Affine& affine : space.position) index.push_back({affine, nullptr});
  index[axis] = {Affine(0), safe_index(context, context.read(1, space.position), data[axis])};
  context.assign("copy", space.iterators, context.output(0), space.position,
                 context.read(0, std::move(index)));
}

// The number of axes that one index tuple addresses.
int64_t tuple_size(const Graph& graph, const Node& node, const Shape& indices) {
  if (indices.empty() || !indices.back().is_constant()) {
    fail(ErrorKind::Unsupported, node.origin.str(), ": the indices of shape ", str(indices),
         " need a fixed last axis", how_to_bind(graph, indices.empty() ? Shape() : Shape{indices.back()}));
  }
  return indices.back().constant();
}

void infer_gather_nd(InferContext& context) {
  const Shape& data = context.shape(0);
  const Shape& indices = context.shape(1);
  const int64_t batch = int_attribute(context.node(), "batch_dims"),
                tuple = tuple_size(context.graph(), context.node(), indices);
  if (tuple < 1 || batch + tuple > context.rank(0) || batch >= context.rank(1)) {
    context.error("indices of shape ", str(indices), " with batch_dims ", batch, " do not fit data of shape ",
                  str(data));
  }
  for (int64_t axis = 0; axis < batch; ++axis) {
    if (indices[axis] == data[axis]) continue;
    context.differ(indices[axis], data[axis],
                   text("axis ", axis, " of indices of shape ", str(indices), " and of data of shape ",
                        str(data), " is one of the batch, and not the same"));
  }
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + batch + tuple, data.end());
  context.set_output(0, context.dtype(0), shape);
}

// Subscripts of `data` for the index tuple at position `where` of input 1.
std::vector<Subscript> tuple_index(LowerContext& context, const Shape& data, std::vector<Affine> where,
                                   int64_t batch, int64_t tuple, const std::vector<Affine>& rest) {
  std::vector<Subscript> index;
  for (int64_t i = 0; i < batch; ++i) index.push_back({where[i], nullptr});
  where.push_back(0);
  for (int64_t i = 0; i < tuple; ++i) {
    where.back() = i;
    index.push_back({Affine(0), safe_index(context, context.read(1, where), data[batch + i])});
  }
  for (const Affine& affine : rest) index.push_back({affine, nullptr});
  return index;
}

void lower_gather_nd(LowerContext& context) {
  const Shape& data = context.shape(0);
  const Shape& indices = context.shape(1);
  const int64_t batch = int_attribute(context.node(), "batch_dims"),
                tuple = tuple_size(context.graph(), context.node(), indices);
  auto space = context.space("i", *context.output_value(0).shape);
  const auto middle = space.position.begin() + static_cast<int64_t>(indices.size()) - 1;
  auto index = tuple_index(context, data, {space.position.begin(), middle}, batch, tuple,
                           {middle, space.position.end()});
  context.assign("copy", space.iterators, context.output(0), space.position,
                 context.read(0, std::move(index)));
}

// --- scatter ---------------------------------------------------------------------------------------

// The value to store for an update, by the node's reduction.
ExprPtr combined(const Node& node, ExprPtr old_value, ExprPtr update) {
  const std::string how = string_attribute(node, "reduction");
  if (how == "none") return update;
  if (how == "add") return binary(BinaryOp::Add, old_value, update);
  if (how == "mul") return binary(BinaryOp::Mul, old_value, update);
  return binary(how == "max" ? BinaryOp::Max : BinaryOp::Min, old_value, update);
}

// The first statement of a scatter, which copies input 0 to the result.
void copy_data(LowerContext& context) {
  auto space = context.space("o", context.shape(0));
  context.assign("copy", space.iterators, context.output(0), space.position, context.read(0, space.position));
}

// Adds a statement that stores one value for each instance, in the order of instances.
void store(LowerContext& context, std::vector<Iterator> iterators, std::vector<Subscript> index,
           const ExprPtr& value) {
  const int out = context.output(0);
  const DType stored = context.kernel().buffers[out].dtype;
  Statement statement;
  statement.name = "scatter";
  statement.iterators = std::move(iterators);
  statement.write.buffer = out;
  statement.write.index = std::move(index);
  statement.value = value->dtype == stored ? value : cast(stored, value);
  context.add(std::move(statement));
}

// Copies input 0, then stores the updates one after the other.
void scatter(LowerContext& context, std::vector<Iterator> iterators, std::vector<Subscript> index,
             ExprPtr update) {
  const int out = context.output(0);
  copy_data(context);
  const DType stored = context.kernel().buffers[out].dtype;
  ExprPtr old_value = load(stored, out, index);
  if (stored != update->dtype) old_value = cast(update->dtype, old_value);
  store(context, std::move(iterators), std::move(index), combined(context.node(), old_value, update));
}

void infer_scatter(InferContext& context) { infer_same(context); }

void infer_scatter_elements(InferContext& context) {
  const Shape &indices = context.shape(1), &updates = context.shape(2);
  const std::string unfit = text("data ", str(context.shape(0)), ", indices ", str(indices), " and updates ",
                                 str(updates), " do not fit together");
  if (indices.size() != updates.size() || context.rank(1) != context.rank(0)) context.error(unfit);
  for (size_t i = 0; i < indices.size(); ++i) need_equal(context, indices[i], updates[i], unfit);
  check_inside(context);
  infer_scatter(context);
}

void lower_scatter_elements(LowerContext& context) {
  const Shape& data = context.shape(0);
  const int64_t axis = axis_of(context.node(), data.size());
  auto space = context.space("i", context.shape(1));
  std::vector<Subscript> index;
  for (const Affine& affine : space.position) index.push_back({affine, nullptr});
  index[axis] = {Affine(0), safe_index(context, context.read(1, space.position), data[axis])};
  scatter(context, space.iterators, std::move(index), context.read(2, space.position));
}

void infer_scatter_nd(InferContext& context) {
  const Shape& data = context.shape(0);
  const Shape& indices = context.shape(1);
  const int64_t tuple = tuple_size(context.graph(), context.node(), indices);
  Shape expected(indices.begin(), indices.end() - 1);
  if (tuple < 1 || tuple > context.rank(0))
    context.error("indices of shape ", str(indices), " do not fit data of shape ", str(data));
  expected.insert(expected.end(), data.begin() + tuple, data.end());
  const Shape& updates = context.shape(2);
  const std::string why = text("the updates have shape ", str(updates), "; ", str(expected), " is needed");
  if (updates.size() != expected.size()) context.error(why);
  for (size_t axis = 0; axis < expected.size(); ++axis) {
    if (updates[axis] != expected[axis]) context.differ(updates[axis], expected[axis], why);
  }
  infer_scatter(context);
}

void lower_scatter_nd(LowerContext& context) {
  const Shape& data = context.shape(0);
  const Shape& indices = context.shape(1);
  const int64_t tuple = tuple_size(context.graph(), context.node(), indices);
  auto space = context.space("i", context.shape(2));
  const auto middle = space.position.begin() + static_cast<int64_t>(indices.size()) - 1;
  auto index =
      tuple_index(context, data, {space.position.begin(), middle}, 0, tuple, {middle, space.position.end()});
  scatter(context, space.iterators, std::move(index), context.read(2, space.position));
}

// --- OneHot ------------------------------------------------------------------------------------------

void infer_one_hot(InferContext& context) {
  const std::vector<Dim> depth = dims_attribute(context.node(), "depth");
  if (depth.size() != 1) context.error("depth has ", depth.size(), " numbers; one is needed");
  if (context.rank(1) != 1) context.error("the values have shape ", str(context.shape(1)), "; [2] is needed");
  need_equal(context, context.shape(1)[0], Dim(2),
             text("the values have shape ", str(context.shape(1)), "; [2] is needed"));
  Shape shape = context.shape(0);
  const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0) + 1);
  shape.insert(shape.begin() + axis, depth[0]);
  context.set_output(0, context.dtype(1), shape);
}

void lower_one_hot(LowerContext& context) {
  const Shape& out = *context.output_value(0).shape;
  const int64_t axis = axis_of(context.node(), out.size());
  auto space = context.space("i", out);
  std::vector<Affine> where = space.position;
  where.erase(where.begin() + axis);
  ExprPtr index = context.read(0, where);
  if (index->dtype != DType::I64) index = cast(DType::I64, index);
  ExprPtr size = index_value(context.dim(out[axis]));
  index = select(binary(BinaryOp::Lt, index, int_constant(DType::I64, 0)), binary(BinaryOp::Add, index, size),
                 index);
  ExprPtr here = binary(BinaryOp::Eq, index, index_value(space.position[axis]));
  context.assign(
      "e", space.iterators, context.output(0), space.position,
      select(here, context.read(1, std::vector<Affine>{1}), context.read(1, std::vector<Affine>{0})));
}

void infer_reverse_sequence(InferContext& context) {
  const Shape& shape = context.shape(0);
  if (shape.size() < 2) context.error("the input has shape ", str(shape), "; rank 2 or more is needed");
  const int64_t time = int_attribute(context.node(), "time_axis"),
                batch = int_attribute(context.node(), "batch_axis");
  if (time + batch != 1 || (time != 0 && time != 1))
    context.error("time_axis is ", time, " and batch_axis is ", batch);
  need_shape(context, 1, {shape[batch]}, "sequence_lens");
  infer_same(context);
}

// Reverses the first `lengths[b]` elements of each row.
void lower_reverse_sequence(LowerContext& context) {
  const int64_t time = int_attribute(context.node(), "time_axis"),
                batch = int_attribute(context.node(), "batch_axis");
  auto space = context.space("i", context.shape(0));
  ExprPtr length = context.read(1, std::vector<Affine>{space.position[batch]});
  if (length->dtype != DType::I64) length = cast(DType::I64, length);
  ExprPtr t = index_value(space.position[time]);
  ExprPtr mirrored = binary(BinaryOp::Sub, binary(BinaryOp::Sub, length, int_constant(DType::I64, 1)), t);
  ExprPtr at = select(binary(BinaryOp::Lt, t, length), mirrored, t);
  std::vector<Subscript> index;
  for (const Affine& affine : space.position) index.push_back({affine, nullptr});
  index[time] = {Affine(0), safe_index(context, at, context.shape(0)[time])};
  context.assign("copy", space.iterators, context.output(0), space.position,
                 context.read(0, std::move(index)));
}

// --- TensorScatter ------------------------------------------------------------------------------------

void infer_tensor_scatter(InferContext& context) {
  const Shape& past = context.shape(0);
  const Shape& update = context.shape(1);
  const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
  if (axis == 0) context.error("axis is 0, that of the batch");
  if (context.dtype(1) != context.dtype(0)) {
    context.error("the data have type ", name_of(context.dtype(0)), " and the updates ",
                  name_of(context.dtype(1)));
  }
  const std::string unfit = text("an update of shape ", str(update), " does not fit into data of shape ",
                                 str(past), " along axis ", axis);
  if (update.size() != past.size()) context.error(unfit);
  for (size_t i = 0; i < past.size(); ++i) {
    if (static_cast<int64_t>(i) == axis) context.require_at_most(update[i], past[i], unfit);
    else need_equal(context, past[i], update[i], unfit);
  }
  need_shape(context, 2, {past[0]});
  choice_attribute(context.node(), "mode", {"linear", "circular"});
  infer_same(context);
}

// Copies the data, then stores the update at its places. An update that would go beyond the end of the data
// is shifted to end there.
void lower_tensor_scatter(LowerContext& context) {
  const Shape& past = context.shape(0);
  const Shape& update = context.shape(1);
  const int64_t axis = axis_of(context.node(), past.size());
  copy_data(context);
  auto space = context.space("i", update);
  ExprPtr place = index_value(space.position[axis]);
  const ExprPtr size = index_value(context.dim(past[axis]));
  if (context.has_input(2)) {
    ExprPtr first = cast(DType::I64, context.read(2, std::vector<Affine>{space.position[0]}));
    if (string_attribute(context.node(), "mode") == "circular") {
      place = binary(BinaryOp::Mod, binary(BinaryOp::Add, first, place), size);
    } else {
      const ExprPtr last = binary(BinaryOp::Sub, size, index_value(context.dim(update[axis])));
      first = binary(BinaryOp::Max, binary(BinaryOp::Min, first, last), int_constant(DType::I64, 0));
      place = binary(BinaryOp::Add, first, place);
    }
  }
  std::vector<Subscript> index;
  for (const Affine& affine : space.position) index.push_back({affine, nullptr});
  index[axis] = {Affine(0), place};
  store(context, space.iterators, std::move(index), context.read(1, space.position));
}

OpRow gather_row(const OnnxName& name, const std::string& doc, int inputs,
                 std::vector<AttributeRow> attributes, std::function<void(InferContext&)> infer,
                 std::function<void(LowerContext&)> lower) {
  OpRow row;
  row.name = name.name;
  row.category = "gather";
  row.doc = doc;
  row.onnx = {name};
  row.minimum_inputs = row.maximum_inputs = inputs;
  row.attributes = std::move(attributes);
  // Inputs: the data, the indices, and the updates.
  row.types = {{kIndices, {1}}};
  if (inputs > 2) row.types.push_back({kAnyType, {0, 2}});
  row.infer = std::move(infer);
  row.lower = std::move(lower);
  return row;
}

}  // namespace

void register_gather_ops(OpTable& table) {
  OpRow gather = gather_row(
      {"Gather", 1}, "Slices of the data along an axis, chosen by indices; out-of-range indices are clamped.",
      2, {{"axis", int64_t{0}, false, "", axis_of(0)}}, infer_gather, lower_gather);
  gather.equation = "O[a,i,b] = X[a,index[i],b]";
  table.add(std::move(gather));
  table.add(gather_row({"GatherElements", 11}, "Elements of the data, chosen along an axis per element.", 2,
                       {{"axis", int64_t{0}, false, "", axis_of(0)}}, infer_gather_elements,
                       lower_gather_elements));
  table.add(gather_row({"GatherND", 11}, "Slices of the data, chosen by index tuples.", 2,
                       {{"batch_dims", int64_t{0}, false, "", from_to(0, 16)}}, infer_gather_nd,
                       lower_gather_nd));
  const AttributeRow reduction = {"reduction", std::string("none"), false, "",
                                  one_of({"none", "add", "mul", "max", "min"})};
  OpRow elements = gather_row({"ScatterElements", 11}, "The data with elements replaced along an axis.", 3,
                              {{"axis", int64_t{0}, false, "", axis_of(0)}, reduction},
                              infer_scatter_elements, lower_scatter_elements);
  elements.onnx.push_back({"Scatter", 9});
  table.add(std::move(elements));
  table.add(gather_row({"ScatterND", 11}, "The data with slices replaced at index tuples.", 3, {reduction},
                       infer_scatter_nd, lower_scatter_nd));
  OpRow one_hot = gather_row({"OneHot", 9}, "One value at the index along a new axis, another elsewhere.", 2,
                             {{"axis", int64_t{-1}, false, "", axis_of(0, 1, 1)},
                              {"depth", std::vector<int64_t>(), false, "", at_least(0)}},
                             infer_one_hot, lower_one_hot);
  one_hot.types = {{kNumbers, {0}}};
  one_hot.maximum_inputs = 3;
  one_hot.onnx = {{"OneHot", 9, [](Graph& graph, Node& node) {
                     if (!input_given(node, 2)) return;
                     const ValueId values = node.inputs[2];
                     node.inputs.resize(2);
                     const Value& depth = graph[node.inputs[1]];
                     if (depth.constant && depth.constant->count() == 1) {
                       node.attributes["depth"] = std::vector<int64_t>{depth.constant->as_int(0)};
                       node.inputs.resize(1);
                     } else {
                       input_to_dims(1, "depth")(graph, node);
                     }
                     node.inputs.push_back(values);
                   }}};
  table.add(std::move(one_hot));
  OpRow cache = gather_row(
      {"TensorScatter", 24},
      "The data with an update along an axis, from a place of each batch on; `mode` is linear or circular.",
      2, {{"axis", int64_t{-2}}, {"mode", std::string("linear")}}, infer_tensor_scatter,
      lower_tensor_scatter);
  cache.types = {{kIndices, {2}}};
  cache.maximum_inputs = 3;
  table.add(std::move(cache));
  table.add(gather_row({"ReverseSequence", 10},
                       "The first elements of each row backwards, as many as its length says.", 2,
                       {{"batch_axis", int64_t{1}}, {"time_axis", int64_t{0}}}, infer_reverse_sequence,
                       lower_reverse_sequence));
}

}  // namespace tc
