// Shapes as values, and tensors made from numbers.
#include <algorithm>
#include <cmath>
#include <tuple>

#include "ir/ops/depends_on_data.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

// The range of axes that Shape reads.
std::pair<int64_t, int64_t> shape_range(const Node& node, int64_t rank) {
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamp(int_attribute(node, "start"));
  const int64_t end = has_attribute(node, "end") ? clamp(int_attribute(node, "end")) : rank;
  return {start, std::max(start, end)};
}

// Stores the known elements of output 0, one statement each.
void lower_elements(LowerContext& context) {
  const std::vector<Dim> elements = context.output_value(0).elements.value();
  for (size_t i = 0; i < elements.size(); ++i) {
    std::vector<Affine> index;
    if (!context.output_value(0).shape->empty()) index.push_back(static_cast<int64_t>(i));
    context.assign("element", {}, context.output(0), index, index_value(context.dim(elements[i])));
  }
}

void infer_constant(InferContext& context) {
  const TensorPtr value = tensor_attribute(context.node(), "value");
  context.set_output(0, value->dtype, shape_of(value->shape));
  Value& out = context.graph()[context.node().outputs.at(0)];
  out.constant = value;
}

void lower_constant(LowerContext& context) {
  const TensorPtr value = tensor_attribute(context.node(), "value");
  const Shape shape = shape_of(value->shape);
  int64_t count = value->count();
  if (count > 64) fail(ErrorKind::Internal, context.node().origin.str(), ": a constant is no kernel");
  for (int64_t i = 0; i < count; ++i) {
    std::vector<Affine> index(value->shape.size());
    int64_t rest = i;
    for (size_t d = value->shape.size(); d > 0; --d) {
      index[d - 1] = rest % value->shape[d - 1];
      rest /= value->shape[d - 1];
    }
    const DType type = value->dtype;
    context.assign("element", {}, context.output(0), index,
                   is_float(type) ? constant(LowerContext::compute_type(type), value->as_double(i))
                                  : int_constant(type, value->as_int(i)));
  }
}

// Forms of Constant with plain attributes.
void plain_constant(Graph&, Node& node) {
  auto take = [&](const char* name, auto make) {
    auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return;
    TensorPtr tensor = make(node, name);
    node.attributes.erase(found);
    node.attributes["value"] = tensor;
  };
  take("value_float", [](const Node& n, const char* name) {
    return number_tensor(DType::F32, {}, {unchecked_attribute<double>(n, name)});
  });
  take("value_floats", [](const Node& n, const char* name) {
    const auto& all = unchecked_attribute<std::vector<double>>(n, name);
    return number_tensor(DType::F32, {static_cast<int64_t>(all.size())}, all);
  });
  take("value_int", [](const Node& n, const char* name) {
    return int_tensor({}, {unchecked_attribute<int64_t>(n, name)});
  });
  take("value_ints", [](const Node& n, const char* name) {
    const auto& all = unchecked_attribute<std::vector<int64_t>>(n, name);
    return int_tensor({static_cast<int64_t>(all.size())}, all);
  });
  if (!has_attribute(node, "value")) {
    fail(ErrorKind::Unsupported, node.origin.str(),
         ": a constant of strings or of a sparse tensor is not supported");
  }
}

// --- tensors of one value, ranges, triangles -------------------------------------------------------

ExprPtr number_of(const Tensor& tensor) {
  const DType type = LowerContext::compute_type(tensor.dtype);
  return is_float(type) ? constant(type, tensor.as_double(0)) : int_constant(type, tensor.as_int(0));
}

TensorPtr fill_value(const Node& node) {
  if (!has_attribute(node, "value")) return number_tensor(DType::F32, {}, {0});
  TensorPtr value = tensor_attribute(node, "value");
  if (value->count() != 1)
    fail(ErrorKind::Shape, node.origin.str(), ": the value has ", value->count(), " elements; one is needed");
  return value;
}

void infer_constant_of_shape(InferContext& context) {
  const TensorPtr value = fill_value(context.node());
  const Shape shape = dims_attribute(context.node(), "shape");
  context.set_output(0, value->dtype, shape);
  if (is_float(value->dtype) || shape.size() > 1 || !is_constant(shape)) return;
  const int64_t count = element_count(shape).constant();
  if (count <= 64)
    context.set_elements(0, std::vector<Dim>(static_cast<size_t>(count), Dim(value->as_int(0))));
}

void lower_constant_of_shape(LowerContext& context) {
  auto space = context.space("i", *context.output_value(0).shape);
  context.assign("fill", space.iterators, context.output(0), space.position,
                 number_of(*fill_value(context.node())));
}

// A range of floats computed at run time: 0, 1, … scaled and shifted. The number of elements is computed in
// float64.
void normalize_computed_range(Graph& graph, Node& node) {
  const DType type = graph[node.inputs[0]].dtype, wide = type == DType::F64 ? DType::F64 : DType::F32;
  NodeBuilder build(graph, node);
  auto scalar = [&](ValueId id, DType to) {
    const ValueId cast = build.cast(id, to);
    if (build.shape(cast).empty()) return cast;
    return build.add("Reshape", {cast}, {{"shape", std::vector<int64_t>{}}, {"allowzero", int64_t{1}}});
  };
  const auto& [start, limit, delta] = std::tie(node.inputs[0], node.inputs[1], node.inputs[2]);
  const ValueId length = build.add("Sub", {scalar(limit, DType::F64), scalar(start, DType::F64)});
  const ValueId steps = build.add("Ceil", {build.add("Div", {length, scalar(delta, DType::F64)})});
  const Dim count = build.size(
      build.add("Max", {build.cast(steps, DType::I64), build.integer(DType::I64, 0)}), std::nullopt);
  const ValueId positions = build.add(
      "Range", {},
      {{"range", std::vector<Dim>{Dim(0), count, Dim(1)}}, {"dtype", std::string(name_of(DType::I64))}});
  const ValueId scaled = build.add("Mul", {build.cast(positions, wide), scalar(delta, wide)});
  const ValueId moved = build.add("Add", {scaled, scalar(start, wide)});
  for (Node& made : build.take()) graph.nodes.push_back(std::move(made));
  node.op = find_op("Cast");
  node.inputs = {moved};
  node.attributes = {{"to", std::string(name_of(type))}};
}

// Ranges of integers become dimensions (start, limit, delta); ranges of floats become a tensor `numbers`.
void normalize_range(Graph& graph, Node& node) {
  if (node.inputs.size() != 3) return;
  const DType type = graph[node.inputs[0]].dtype;
  const auto is_known = [&](ValueId id) { return graph[id].constant && graph[id].constant->count() == 1; };
  if (is_float(type) && !std::all_of(node.inputs.begin(), node.inputs.end(), is_known)) {
    for (ValueId id : node.inputs) {
      if (graph[id].dtype != type)
        fail(ErrorKind::Model, node.origin.str(), ": operands have the types ", name_of(type), " and ",
             name_of(graph[id].dtype), "; one is needed");
      if (element_count(*graph[id].shape) != Dim(1))
        fail(ErrorKind::Shape, node.origin.str(), ": an operand has the shape ", str(*graph[id].shape),
             "; one element is needed");
    }
    return normalize_computed_range(graph, node);
  }
  node.attributes["dtype"] = std::string(name_of(type));
  std::vector<Dim> dims;
  std::vector<double> numbers;
  for (ValueId id : node.inputs) {
    const Value& value = graph[id];
    if (is_float(type)) {
      numbers.push_back(value.constant->as_double(0));
      continue;
    }
    auto known = known_elements(value);
    if (!known) throw DependsOnData(node, graph, id, "input").sizes();
    if (known->size() != 1)
      fail(ErrorKind::Shape, node.origin.str(), ": an operand has ", known->size(),
           " elements; one is needed");
    dims.push_back((*known)[0]);
  }
  if (is_float(type)) node.attributes["numbers"] = numbers;
  else node.attributes["range"] = dims;
  node.inputs.clear();
}

void infer_range(InferContext& context) {
  const DType type = dtype_from_name(string_attribute(context.node(), "dtype"));
  if (is_float(type)) {
    const std::vector<double> numbers = floats_attribute(context.node(), "numbers");
    if (numbers.size() != 3)
      context.error("attribute 'numbers' has ", numbers.size(), " numbers; 3 are needed");
    const double count = numbers[2] == 0 ? 0 : std::ceil((numbers[1] - numbers[0]) / numbers[2]);
    if (!(count < 1e12))
      context.error("a range from ", numbers[0], " to ", numbers[1], " by ", numbers[2], " is too long");
    context.set_output(0, type, {Dim(static_cast<int64_t>(std::max(count, 0.0)))});
    return;
  }
  const std::vector<Dim> range = dims_attribute(context.node(), "range");
  if (range.size() != 3) context.error("attribute 'range' has ", range.size(), " numbers; 3 are needed");
  if (range[2] == Dim(0)) context.error("the step of the range is 0");
  Dim count;
  if (range[2].is_constant() && range[2].constant() < 0)
    count = ceil_div(range[0] - range[1], Dim(0) - range[2]);
  else count = ceil_div(range[1] - range[0], range[2]);
  if (count.is_constant() && count.constant() < 0) count = 0;
  if (mentions_data(count, context.graph()) && dim_range(count, context.graph()).low < 0)
    count = max(count, Dim(0));
  context.set_output(0, type, {count});
  if (!count.is_constant() || count.constant() > 1024) return;
  std::vector<Dim> elements;
  for (int64_t i = 0; i < count.constant(); ++i) elements.push_back(range[0] + Dim(i) * range[2]);
  context.set_elements(0, elements);
}

void lower_range(LowerContext& context) {
  auto space = context.space("i", *context.output_value(0).shape);
  const DType type = LowerContext::compute_type(context.output_value(0).dtype);
  ExprPtr i = index_value(space.position[0]), value;
  if (is_float(type)) {
    const std::vector<double> numbers = floats_attribute(context.node(), "numbers");
    value = binary(BinaryOp::Add, binary(BinaryOp::Mul, cast(type, i), constant(type, numbers[2])),
                   constant(type, numbers[0]));
  } else {
    const std::vector<Dim> range = dims_attribute(context.node(), "range");
    value = binary(BinaryOp::Add, binary(BinaryOp::Mul, i, index_value(context.dim(range[2]))),
                   index_value(context.dim(range[0])));
  }
  context.assign("count", space.iterators, context.output(0), space.position, value);
}

void infer_eye(InferContext& context) {
  if (context.rank(0) != 2)
    context.error("the input has shape ", str(context.shape(0)), "; rank 2 is needed");
  const std::string name = string_attribute(context.node(), "dtype");
  context.set_output(0, name.empty() ? context.dtype(0) : dtype_from_name(name), context.shape(0));
}

void lower_eye(LowerContext& context) {
  auto space = context.space("i", context.shape(0));
  const DType type = LowerContext::compute_type(context.output_value(0).dtype);
  const Affine away = space.position[1] - space.position[0] - Affine(int_attribute(context.node(), "k"));
  ExprPtr here = binary(BinaryOp::Eq, index_value(away), int_constant(DType::I64, 0));
  context.assign("e", space.iterators, context.output(0), space.position,
                 select(here, constant(type, 1), constant(type, 0)));
}

void infer_trilu(InferContext& context) {
  const size_t given = has_attribute(context.node(), "k") ? ints_attribute(context.node(), "k").size() : 1;
  if (given != 1) context.error("k has ", given, " numbers; one is needed");
  if (context.rank(0) < 2)
    context.error("the input has shape ", str(context.shape(0)), "; rank 2 or more is needed");
  infer_same(context);
}

void lower_trilu(LowerContext& context) {
  auto space = context.space("i", context.shape(0));
  const DType type = LowerContext::compute_type(context.dtype(0));
  const size_t rank = space.position.size();
  const std::vector<int64_t> k =
      has_attribute(context.node(), "k") ? ints_attribute(context.node(), "k") : std::vector<int64_t>();
  const int64_t diagonal = k.empty() ? 0 : k[0];
  const bool upper = int_attribute(context.node(), "upper") != 0;
  ExprPtr away = index_value(space.position[rank - 1] - space.position[rank - 2]);
  ExprPtr kept = binary(upper ? BinaryOp::Ge : BinaryOp::Le, away, int_constant(DType::I64, diagonal));
  context.assign("e", space.iterators, context.output(0), space.position,
                 select(kept, context.read(0, space.position), constant(type, 0)));
}

OpRow shape_row(const OnnxName& name, const std::string& doc, const InputCount& inputs,
                std::function<void(InferContext&)> infer, std::function<void(LowerContext&)> lower) {
  OpRow row;
  row.name = name.name;
  row.category = "shape";
  row.doc = doc;
  row.onnx = {name};
  row.minimum_inputs = inputs.minimum;
  row.maximum_inputs = inputs.maximum;
  row.infer = std::move(infer);
  row.lower = std::move(lower);
  return row;
}

}  // namespace

void register_shape_ops(OpTable& table) {
  OpRow shape = shape_row(
      {"Shape", 1}, "The extents of the operand, or of its axes from `start` to `end`.", {1, 1},
      [](InferContext& context) {
        const Shape& in = context.shape(0);
        const auto [start, end] = shape_range(context.node(), context.rank(0));
        context.set_output(0, DType::I64, {Dim(end - start)});
        context.set_elements(0, {in.begin() + start, in.begin() + end});
      },
      lower_elements);
  shape.attributes = {{"start", int64_t{0}}, {"end", int64_t{0}}};
  table.add(std::move(shape));
  table.add(shape_row(
      {"Size", 1}, "The number of elements of the operand.", {1, 1},
      [](InferContext& context) {
        context.set_output(0, DType::I64, {});
        context.set_elements(0, {element_count(context.shape(0))});
      },
      lower_elements));

  OpRow constant_row =
      shape_row({"Constant", 1}, "A tensor in the model.", {0, 0}, infer_constant, lower_constant);
  constant_row.onnx = {{"Constant", 1, plain_constant}};
  constant_row.attributes = {{"value", TensorPtr()},
                             {"value_float", 0.0},
                             {"value_int", int64_t{0}},
                             {"value_floats", std::vector<double>()},
                             {"value_ints", std::vector<int64_t>()}};
  table.add(std::move(constant_row));

  OpRow filled = shape_row({"ConstantOfShape", 9}, "A tensor of one value.", {0, 1}, infer_constant_of_shape,
                           lower_constant_of_shape);
  filled.traits.fill = true;
  filled.onnx = {{"ConstantOfShape", 9, input_to_dims(0, "shape")}};
  filled.attributes = {{"shape", std::vector<int64_t>(), false, "", at_least(0)}, {"value", TensorPtr()}};
  table.add(std::move(filled));

  OpRow range =
      shape_row({"Range", 11}, "Numbers from start by a step to a limit.", {0, 3}, infer_range, lower_range);
  range.onnx = {{"Range", 11, normalize_range}, {"Range", 27, normalize_range}};
  range.attributes = {{"range", std::vector<int64_t>()},
                      {"numbers", std::vector<double>()},
                      {"dtype", std::string("i64")},
                      {"stash_type", int64_t{1}, false, "", from_to(1, 1)}};
  table.add(std::move(range));

  OpRow eye = shape_row({"EyeLike", 9}, "1 on a diagonal of a matrix of the operand's shape, else 0.", {1, 1},
                        infer_eye, lower_eye);
  eye.onnx = {{"EyeLike", 9, dtype_attribute("dtype")}};
  eye.attributes = {{"dtype", std::string()}, {"k", int64_t{0}}};
  table.add(std::move(eye));

  OpRow trilu = shape_row({"Trilu", 14}, "The upper or lower triangle; the rest is 0.", {1, 2}, infer_trilu,
                          lower_trilu);
  trilu.onnx = {{"Trilu", 14, input_to_ints(1, "k")}};
  trilu.attributes = {{"k", std::vector<int64_t>()}, {"upper", int64_t{1}}};
  table.add(std::move(trilu));
}

}  // namespace tc
