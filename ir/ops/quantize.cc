// Quantised tensors: conversion to and from integers, and integer products.
#include <algorithm>
#include <cmath>

#include "ir/ops/quantised_rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// Whether quantisation may give the type: integers of up to 32 bits except u32, and narrow floats except
// f8e8m0.
bool is_quantised(DType type) {
  if (is_narrow_float(type)) return type != DType::F8E8M0;
  return is_integer(type) && bits_of(type) <= 32 && type != DType::U32;
}

const TypeSet kQuantised{"an integer type of up to 32 bits or a float of 8 or 4 bits", is_quantised};

// The ends of an integer type that quantisation saturates to.
std::pair<double, double> ends_of(DType type) {
  const double size = std::ldexp(1.0, static_cast<int>(bits_of(type)));
  return is_signed(type) ? std::pair(-size / 2, size / 2 - 1) : std::pair(0.0, size - 1);
}

// The element for a position of a scale or zero point, whose shape is [], [1], [extent of the axis], or has a
// number per block along the axis.
ExprPtr scale_at(LowerContext& context, int input, const std::vector<Affine>& position) {
  const Shape& shape = context.shape(input);
  if (element_count(shape) == Dim(1))
    return context.read(input, std::vector<Affine>(shape.size(), Affine(0)));
  int64_t axis = int_attribute(context.node(), "axis");
  if (axis < 0) axis += static_cast<int64_t>(position.size());
  const int64_t block = int_attribute(context.node(), "block_size");
  if (block == 0) return context.read(input, std::vector<Affine>{position[axis]});
  std::vector<Subscript> index;
  for (const Affine& affine : position) index.push_back({affine, nullptr});
  index[axis] = {Affine(0),
                 binary(BinaryOp::Div, index_value(position[axis]), int_constant(DType::I64, block))};
  return context.read(input, std::move(index));
}

void check_blocks(InferContext& context, int input, int64_t block) {
  Shape expected = context.shape(0);
  const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
  expected[axis] = ceil_div(expected[axis], Dim(block));
  const Shape& has = context.shape(input);
  const std::string unfit =
      text("input ", input, " has shape ", str(has), "; blocks of ", block, " along axis ", axis, " of ",
           str(context.shape(0)), " need ", str(expected));
  if (has.size() != expected.size()) context.error(unfit);
  for (size_t i = 0; i < has.size(); ++i) need_equal(context, has[i], expected[i], unfit);
}

}  // namespace

// A file's scales are divisors and must be finite and positive. Scales that a run or a pass computes are not
// checked; nor are scales of blocks, which some tools make negative where the block's number of largest
// magnitude is.
void refuse_scale(const Graph& graph, const Node& node, size_t input) {
  const auto block = node.attributes.find("block_size");
  if (block != node.attributes.end() && block->second != Attribute(int64_t{0})) return;
  const TensorPtr scale =
      input_given(node, static_cast<int>(input)) ? graph[node.inputs[input]].constant : nullptr;
  if (!scale || !is_float(scale->dtype)) return;
  for (int64_t i = 0; i < scale->count(); ++i) {
    const double number = scale->as_double(i);
    if (std::isfinite(number) && number > 0) continue;
    fail(ErrorKind::Model, node.origin.str(), ": input ", input, ", a scale, holds ", number, " as element ",
         i, "; scales are finite and over 0: quantise the model again");
  }
}

Normalize checked_scales(std::vector<int> inputs) {
  return [=](Graph& graph, Node& node) {
    for (const int input : inputs) refuse_scale(graph, node, static_cast<size_t>(input));
  };
}

ValueId optional_input(const Node& node, int input) {
  return input_given(node, input) ? node.inputs[static_cast<size_t>(input)] : kNoValue;
}

void check_scale_count(InferContext& context, const std::vector<int>& inputs, const Dim& extent,
                       const char* along) {
  for (const int input : inputs) {
    if (!context.has_input(input)) continue;
    const Shape& shape = context.shape(input);
    if (element_count(shape) == Dim(1) || (shape.size() == 1 && shape[0] == extent)) continue;
    const std::string vector = extent == Dim(1) ? "" : text(" or one for each of ", extent.str(), " ", along);
    const std::string unfit =
        text("input ", input, " has shape ", str(shape), "; one number", vector, " is needed");
    if (shape.size() != 1) context.error(unfit);
    need_equal(context, shape[0], extent, unfit);
  }
}

namespace {

// Checks the scales and zero points of products: one number, or one for each row of the first or each column
// of the second operand; those of higher rank broadcast.
void check_product_scales(InferContext& context, int operand, const std::vector<int>& inputs, bool rows) {
  const Shape& shape = context.shape(operand);
  const bool vector = shape.size() < 2;
  for (const int input : inputs) {
    if (!context.has_input(input) || context.rank(input) > 1) continue;
    if (vector) check_scale_count(context, {input});
    else check_scale_count(context, {input}, shape[shape.size() - (rows ? 2 : 1)], rows ? "rows" : "columns");
  }
}

// Checks that the scale and the zero point are one number, or one per element or block of the axis.
void check_scales(InferContext& context) {
  const int64_t block = int_attribute(context.node(), "block_size");
  if (block < 0) context.error("block_size is ", block, "; it must not be negative");
  for (int i : {1, 2}) {
    if (!context.has_input(i)) continue;
    const Shape& shape = context.shape(i);
    if (shape.size() <= 1 && element_count(shape) == Dim(1)) continue;
    if (block > 0) {
      check_blocks(context, i, block);
      continue;
    }
    if (shape.size() > 1)
      context.error("input ", i, " has shape ", str(shape),
                    "; without block_size a number or a vector is needed");
    if (shape.empty() || shape[0] == Dim(1)) continue;
    const int64_t axis = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
    need_equal(context, shape[0], context.shape(0)[axis],
               text("input ", i, " has shape ", str(shape), " but axis ", axis, " of ", str(context.shape(0)),
                    " is ", context.shape(0)[axis].str()));
  }
}

void infer_quantize(InferContext& context) {
  check_scales(context);
  DType type = DType::U8;
  const std::string wanted = string_attribute(context.node(), "output_dtype");
  if (context.has_input(2)) type = context.dtype(2);
  else if (!wanted.empty()) type = dtype_from_name(wanted);
  if (!is_quantised(type)) context.unsupported("quantisation to ", name_of(type), " is not supported");
  if (!is_float(context.dtype(1)))
    context.error("the scale has type ", name_of(context.dtype(1)), "; a float type is needed");
  context.set_output(0, type, context.shape(0));
}

bool is_one(const Value& value) {
  return value.constant && value.constant->count() == 1 && value.constant->as_double(0) == 1;
}

// Lowers quantisation with scale 1 and a known zero point: saturating first leaves few steps.
bool lower_units(LowerContext& context, const LowerContext::Space& space) {
  const DType out = context.output_value(0).dtype;
  const bool known = !context.has_input(2) ||
                     (context.input_value(2).constant && context.input_value(2).constant->count() == 1);
  if (!is_one(context.input_value(1)) || !known || context.dtype(0) != DType::F32 ||
      context.dtype(1) != DType::F32 || is_float(out) || bits_of(out) > 16 ||
      !string_attribute(context.node(), "precision").empty()) {
    return false;
  }
  const int64_t zero = context.has_input(2) ? context.input_value(2).constant->as_int(0) : 0;
  const auto [low, high] = ends_of(out);
  const ExprPtr least = constant(DType::F32, low - static_cast<double>(zero)),
                most = constant(DType::F32, high - static_cast<double>(zero));
  ExprPtr value = context.read(0, space.position);
  value = binary(BinaryOp::Min, binary(BinaryOp::Max, value, least), most);
  value = cast(DType::I32, unary(UnaryOp::Round, value));
  if (zero != 0) value = binary(BinaryOp::Add, value, int_constant(DType::I32, zero));
  context.assign("e", space.iterators, context.output(0), space.position, cast(out, value));
  return true;
}

void lower_quantize(LowerContext& context) {
  auto space = context.space("i", context.shape(0));
  if (lower_units(context, space)) return;
  const DType type =
      string_attribute(context.node(), "precision") == name_of(DType::F64) ? DType::F64 : DType::F32;
  const DType out = context.output_value(0).dtype;
  auto number = [&](ExprPtr value) { return value->dtype == type ? value : cast(type, value); };
  ExprPtr value = number(context.read(0, space.position));
  value = binary(BinaryOp::Div, value, number(scale_at(context, 1, space.position)));
  if (!is_float(out)) value = unary(UnaryOp::Round, value);
  if (context.has_input(2))
    value = binary(BinaryOp::Add, value, number(scale_at(context, 2, space.position)));
  if (is_float(out)) {
    value = cast_to(out, value, {int_attribute(context.node(), "saturate") != 0, "nearest"});
    return context.assign("e", space.iterators, context.output(0), space.position,
                          cast(LowerContext::compute_type(out), value));
  }
  const auto [low, high] = ends_of(out);
  value = binary(BinaryOp::Max, binary(BinaryOp::Min, value, constant(type, high)), constant(type, low));
  context.assign("e", space.iterators, context.output(0), space.position, cast(out, value));
}

void infer_dequantize(InferContext& context) {
  check_scales(context);
  if (!is_float(context.dtype(1)))
    context.error("the scale has type ", name_of(context.dtype(1)), "; a float type is needed");
  const std::string wanted = string_attribute(context.node(), "output_dtype");
  const DType type = wanted.empty() ? context.dtype(1) : dtype_from_name(wanted);
  if (!is_float(type)) context.error("output_dtype is ", name_of(type), "; a float type is needed");
  context.set_output(0, type, context.shape(0));
}

void lower_dequantize(LowerContext& context) {
  auto space = context.space("i", context.shape(0));
  const DType type = LowerContext::compute_type(context.dtype(1));
  // Floats are quantised without a zero point, or with one of 0.
  const DType whole = is_float(context.dtype(0)) ? type : DType::I32;
  ExprPtr value = context.read(0, space.position);
  if (value->dtype != whole) value = cast(whole, value);
  if (context.has_input(2) && whole == DType::I32) {
    value = binary(BinaryOp::Sub, value, cast(DType::I32, scale_at(context, 2, space.position)));
  }
  if (whole != type) value = cast(type, value);
  value = binary(BinaryOp::Mul, value, scale_at(context, 1, space.position));
  context.assign("e", space.iterators, context.output(0), space.position, value);
}

// --- products, by expansion ------------------------------------------------------------------------

// value - zero point as i32; a vector of zero points has one for each element of `axis`.
ValueId centred(NodeBuilder& build, ValueId value, ValueId zero, int64_t axis) {
  const std::map<std::string, Attribute> to = {{"to", std::string("i32")}};
  value = build.add("Cast", {value}, to);
  if (zero == kNoValue) return value;
  zero = build.add("Cast", {zero}, to);
  const Shape shape = build.shape(zero);
  if (shape.size() == 1 && shape[0] != Dim(1)) {
    // One zero point per element of the axis.
    const int64_t rank = static_cast<int64_t>(build.shape(value).size());
    std::vector<int64_t> axes;
    for (int64_t i = 1; i < rank - axis; ++i) axes.push_back(i);
    if (!axes.empty()) zero = build.add("Unsqueeze", {zero}, {{"axes", axes}});
  } else if (shape.size() == 1) {
    zero = build.add("Squeeze", {zero}, {{"axes", std::vector<int64_t>{0}}});
  }
  return build.add("Sub", {value, zero});
}

// Constant weights with their constant zero point subtracted, if the results are signed 8-bit integers; else
// null.
TensorPtr signed_weights(const Graph& graph, const Node& node, int weights, int zero) {
  const Value& from = graph[node.inputs[weights]];
  const ValueId zeros = optional_input(node, zero);
  if (!from.constant || from.shape->size() < 2 ||
      (zeros != kNoValue && (!graph[zeros].constant || graph[zeros].constant->count() != 1)))
    return nullptr;
  const int64_t zero_point = zeros == kNoValue ? 0 : graph[zeros].constant->as_int(0);
  auto result = std::make_shared<Tensor>(DType::I8, from.constant->shape);
  for (int64_t i = 0; i < result->count(); ++i) {
    const int64_t number = from.constant->as_int(i) - zero_point;
    if (number < -128 || number > 127) return nullptr;
    result->set_int(i, number);
  }
  return result;
}

constexpr int64_t kMaxTerms = int64_t{1} << 15;  // products of bytes whose sum stays within 32 bits

std::vector<Node> expand_conv_integer(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  // With constant weights, and numbers whose zero point is 0 (so that padding with 0 is right), the bytes are
  // summed up as they are.
  const TensorPtr weights = signed_weights(graph, node, 1, 3);
  const ValueId zero = optional_input(node, 2);
  const bool centre = zero == kNoValue || (graph[zero].constant && graph[zero].constant->count() == 1 &&
                                           graph[zero].constant->as_int(0) == 0);
  if (weights && centre && weights->count() <= kMaxTerms * weights->shape[0]) {
    build.add_to("IntegerConv", {node.inputs[0], build.constant(weights)}, {node.outputs[0]},
                 node.attributes);
    return build.take();
  }
  const ValueId x = centred(build, node.inputs[0], optional_input(node, 2), 0);
  const ValueId w = centred(build, node.inputs[1], optional_input(node, 3), 0);
  build.add_to("Conv", {x, w}, {node.outputs[0]}, node.attributes);
  return build.take();
}

// With a constant matrix: products of the numbers as they are, minus the zero point times the columns' sums.
bool expand_by_constant(NodeBuilder& build, const Node& node) {
  const TensorPtr weights = signed_weights(build.graph(), node, 1, 3);
  const ValueId zero = optional_input(node, 2);
  const bool one = zero == kNoValue || element_count(build.shape(zero)) == Dim(1);
  if (!weights || !one || weights->shape.size() != 2 || build.shape(node.inputs[0]).size() < 2 ||
      weights->shape[0] > kMaxTerms)
    return false;
  const ValueId b = build.constant(weights);
  if (zero == kNoValue) {
    build.add_to("IntegerMatMul", {node.inputs[0], b}, {node.outputs[0]});
    return true;
  }
  const int64_t rows = weights->shape[0], columns = weights->shape[1];
  auto sums = std::make_shared<Tensor>(DType::I32, std::vector<int64_t>{columns});
  for (int64_t i = 0; i < rows * columns; ++i)
    sums->set_int(i % columns, sums->as_int(i % columns) + weights->as_int(i));
  const ValueId sum = build.add("IntegerMatMul", {node.inputs[0], b});
  const ValueId surplus =
      build.add("Mul", {build.add("Cast", {zero}, {{"to", std::string("i32")}}), build.constant(sums)});
  build.add_to("Sub", {sum, surplus}, {node.outputs[0]});
  return true;
}

std::vector<Node> expand_matmul_integer(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  if (expand_by_constant(build, node)) return build.take();
  const int64_t rank = static_cast<int64_t>(build.shape(node.inputs[0]).size());
  const int64_t columns = static_cast<int64_t>(build.shape(node.inputs[1]).size()) - 1;
  const ValueId a = centred(build, node.inputs[0], optional_input(node, 2), std::max<int64_t>(rank - 2, 0));
  const ValueId b = centred(build, node.inputs[1], optional_input(node, 3), columns);
  build.add_to("MatMul", {a, b}, {node.outputs[0]});
  return build.take();
}

// A vector of scales, reshaped to be followed by `trailing` axes of extent 1.
ValueId placed(NodeBuilder& build, ValueId scale, int64_t trailing) {
  const Shape shape = build.shape(scale);
  if (shape.size() != 1) return scale;
  if (shape[0] == Dim(1)) return build.add("Squeeze", {scale}, {{"axes", std::vector<int64_t>{0}}});
  std::vector<int64_t> axes;
  for (int64_t i = 1; i <= trailing; ++i) axes.push_back(i);
  return axes.empty() ? scale : build.add("Unsqueeze", {scale}, {{"axes", axes}});
}

// With constant weights, scales and zero points: the float32 operator between DequantizeLinear and
// QuantizeLinear, which a graph pass turns into sums of integers again.
bool expand_to_floats(NodeBuilder& build, const Node& node, bool convolution) {
  Graph& graph = build.graph();
  for (const int i : {1, 2, 4, 5, 6, 7}) {
    if (!graph[node.inputs[i]].constant) return false;
  }
  const bool single =
      graph[node.inputs[1]].dtype == DType::F32 && graph[node.inputs[4]].dtype == DType::F32 &&
      graph[node.inputs[6]].dtype == DType::F32 && graph[node.inputs[1]].constant->count() == 1;
  if (!single || !signed_weights(graph, node, 3, 5) ||
      (!convolution && build.shape(node.inputs[0]).size() < 2))
    return false;
  const Tensor& scale = *graph[node.inputs[4]].constant;
  const auto axis = static_cast<int64_t>(convolution ? 0 : 1);
  const bool per_channel = scale.shape.size() == 1 && scale.count() > 1;
  if (scale.count() != 1 && !(per_channel && build.shape(node.inputs[3]).size() >= 2)) return false;
  const ValueId a = build.add("DequantizeLinear", {node.inputs[0], node.inputs[1], node.inputs[2]});
  const ValueId b =
      build.add("DequantizeLinear", {node.inputs[3], node.inputs[4], node.inputs[5]}, {{"axis", axis}});
  std::vector<ValueId> operands = {a, b};
  if (convolution && input_given(node, 8)) {
    const auto channels = static_cast<size_t>(build.shape(node.inputs[3])[0].constant());
    std::vector<double> units(channels);
    for (size_t i = 0; i < channels; ++i) {
      const double each = scale.as_double(scale.count() == 1 ? 0 : static_cast<int64_t>(i));
      units[i] = static_cast<float>(each) * static_cast<float>(graph[node.inputs[1]].constant->as_double(0));
    }
    const ValueId unit = build.constant(number_tensor(DType::F32, {static_cast<int64_t>(channels)}, units));
    operands.push_back(build.add("DequantizeLinear", {node.inputs[8], unit}, {{"axis", int64_t{0}}}));
  }
  const ValueId real = build.add(convolution ? "Conv" : "MatMul", operands, node.attributes);
  build.add_to("QuantizeLinear", {real, node.inputs[6], node.inputs[7]}, {node.outputs[0]});
  return true;
}

// Inputs: a, its scale and zero point, b, its scale and zero point, the result's scale and zero point,
// and for convolutions a bias.
std::vector<Node> expand_quantised(Graph& graph, const Node& node, bool convolution) {
  NodeBuilder build(graph, node);
  if (expand_to_floats(build, node, convolution)) return build.take();
  const int64_t rank = static_cast<int64_t>(build.shape(node.inputs[0]).size());
  const int64_t columns = static_cast<int64_t>(build.shape(node.inputs[3]).size()) - 1;
  const ValueId a =
      centred(build, node.inputs[0], node.inputs[2], convolution ? 0 : std::max<int64_t>(rank - 2, 0));
  const ValueId b = centred(build, node.inputs[3], node.inputs[5], convolution ? 0 : columns);
  std::vector<ValueId> operands = {a, b};
  if (convolution && input_given(node, 8)) operands.push_back(node.inputs[8]);
  const ValueId sum = build.add(convolution ? "Conv" : "MatMul", operands, node.attributes);
  const std::map<std::string, Attribute> to = {{"to", std::string("f32")}};
  auto as_float = [&](ValueId value) {
    return build.dtype(value) == DType::F32 ? value : build.add("Cast", {value}, to);
  };
  const int64_t trailing = convolution ? rank - 2 : 0;
  const int64_t rows = convolution ? 0 : 1;
  // Per-row scales of a product are followed by the axis of columns.
  const ValueId a_scale = placed(build, as_float(node.inputs[1]), convolution ? 0 : rows);
  const ValueId b_scale = placed(build, as_float(node.inputs[4]), trailing);
  const ValueId scale = build.add("Mul", {a_scale, b_scale});
  const ValueId real = build.add("Mul", {build.add("Cast", {sum}, to), scale});
  build.add_to("QuantizeLinear", {real, node.inputs[6], node.inputs[7]}, {node.outputs[0]});
  return build.take();
}

std::vector<Node> expand_dynamic(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId x = node.inputs[0];
  const std::map<std::string, Attribute> scalar = {{"keepdims", int64_t{0}}};
  const ValueId zero = build.number(DType::F32, 0), most = build.number(DType::F32, 255);
  const ValueId high = build.add("Max", {build.add("ReduceMax", {x}, scalar), zero});
  const ValueId low = build.add("Min", {build.add("ReduceMin", {x}, scalar), zero});
  auto result = [&](size_t output, const char* op, const std::vector<ValueId>& inputs,
                    const std::map<std::string, Attribute>& attributes = {}) {
    if (!output_wanted(node, output)) return build.add(op, inputs, attributes);
    build.add_to(op, inputs, {node.outputs[output]}, attributes);
    return node.outputs[output];
  };
  const ValueId scale = result(1, "Div", {build.add("Sub", {high, low}), most});
  const ValueId first =
      build.add("Round", {build.add("Clip", {build.add("Div", {build.add("Neg", {low}), scale})},
                                    {{"min", 0.0}, {"max", 255.0}})});
  const ValueId zero_point = result(2, "Cast", {first}, {{"to", std::string("u8")}});
  result(0, "QuantizeLinear", {x, scale, zero_point});
  return build.take();
}

// Inference by the row `as` with the node's inputs `a` and `b` as its first two; their products will be i32.
std::function<void(InferContext&)> infer_as(const std::string& as, int a, int b,
                                            std::function<DType(InferContext&)> type) {
  return [=](InferContext& context) {
    const Shape shape = shape_as(context, as, {a, b}, DType::I32);
    context.set_output(0, type(context), shape);
  };
}

// Inference followed by checks.
std::function<void(InferContext&)> checked(std::function<void(InferContext&)> check,
                                           std::function<void(InferContext&)> infer) {
  return [=](InferContext& context) {
    infer(context);
    check(context);
  };
}

void register_conversions(OpTable& table) {
  OpRow quantize;
  quantize.name = "QuantizeLinear";
  quantize.category = "quantisation";
  quantize.doc = "round(x / scale) + zero point, saturated.";
  quantize.equation = "saturate(round(a / b) + c)";
  // The number 0 means that the attribute is left out.
  const Normalize types = [](Graph& graph, Node& node) {
    for (const char* name : {"output_dtype", "precision"}) {
      auto found = node.attributes.find(name);
      const bool none = found != node.attributes.end() && std::holds_alternative<int64_t>(found->second) &&
                        std::get<int64_t>(found->second) == 0;
      if (none) node.attributes.erase(found);
      dtype_attribute(name)(graph, node);
    }
  };
  quantize.onnx = {{"QuantizeLinear", 10, all_of({types, checked_scales({1})})},
                   {"QuantizeLinear", 1, checked_scales({1}), "com.microsoft"}};
  quantize.minimum_inputs = 2;
  quantize.maximum_inputs = 3;
  quantize.elementwise = true;
  quantize.traits.quantisation = OpTraits::Quantisation::Quantize;
  quantize.attributes = {{"axis", int64_t{1}},
                         {"saturate", int64_t{1}},
                         {"block_size", int64_t{0}},
                         {"output_dtype", std::string()},
                         {"precision", std::string()}};
  quantize.types = {{kNumbers, {0}}, {kFloats, {1}}};
  quantize.infer = infer_quantize;
  quantize.lower = lower_quantize;
  OpRow dequantize = quantize;
  dequantize.name = "DequantizeLinear";
  dequantize.traits.quantisation = OpTraits::Quantisation::Dequantize;
  dequantize.doc = "(x - zero point) * scale.";
  dequantize.equation = "(a - c) * b";
  dequantize.onnx = {{"DequantizeLinear", 10, all_of({types, checked_scales({1})})},
                     {"DequantizeLinear", 1, checked_scales({1}), "com.microsoft"}};
  dequantize.types = {{kQuantised, {0, 2}}, {kFloats, {1}}};
  dequantize.infer = infer_dequantize;
  dequantize.lower = lower_dequantize;
  table.add(std::move(quantize));
  table.add(std::move(dequantize));
}

Shape permuted(const Shape& shape, const std::vector<int64_t>& order) {
  Shape result;
  for (int64_t axis : order) result.push_back(shape[static_cast<size_t>(axis)]);
  return result;
}

}  // namespace

OpRow expanded_quantised(const OnnxName& name, const std::string& doc, const InputCount& inputs,
                         std::function<void(InferContext&)> infer,
                         std::function<std::vector<Node>(Graph&, const Node&)> expand) {
  OpRow row;
  row.name = name.name;
  row.kind = OpRow::Kind::Expand;
  row.category = "quantisation";
  row.doc = doc;
  row.onnx = {name};
  row.minimum_inputs = inputs.minimum;
  row.maximum_inputs = inputs.maximum;
  row.infer = std::move(infer);
  row.expand = std::move(expand);
  return row;
}

std::vector<int64_t> channels_to_front(int64_t rank) {
  std::vector<int64_t> order = {0, rank - 1};
  for (int64_t axis = 1; axis + 1 < rank; ++axis) order.push_back(axis);
  return order;
}

std::vector<int64_t> channels_to_back(int64_t rank) {
  std::vector<int64_t> order = {0};
  for (int64_t axis = 2; axis < rank; ++axis) order.push_back(axis);
  order.push_back(1);
  return order;
}

Shape shape_as(InferContext& context, const std::string& as, const std::vector<int>& inputs, DType stand_in,
               bool channels_last) {
  Node node = context.node();
  Graph& graph = context.graph();
  node.op = find_op(as);
  node.inputs.clear();
  const size_t values = graph.values.size();
  const std::shared_ptr<void> leave(nullptr, [&](void*) { graph.values.resize(values); });
  for (const int input : inputs) {
    Value value = graph[context.node().inputs.at(static_cast<size_t>(input))];
    const auto rank = static_cast<int64_t>(value.shape->size());
    if (channels_last && rank < 3)
      context.error("the input has shape ", str(*value.shape),
                    "; [batch, 1 to 3 spatial axes, channels] is needed");
    if (channels_last && node.inputs.empty()) value.shape = permuted(*value.shape, channels_to_front(rank));
    value.dtype = stand_in;  // only the shapes matter here
    node.inputs.push_back(static_cast<ValueId>(graph.values.size()));
    graph.values.push_back(std::move(value));
  }
  node.outputs = {static_cast<ValueId>(graph.values.size())};
  graph.values.emplace_back();
  InferContext inner(graph, node);
  infer_by_row(inner);
  const Shape shape = graph.values.back().shape.value();
  return channels_last ? permuted(shape, channels_to_back(static_cast<int64_t>(shape.size()))) : shape;
}

void register_quantize_ops(OpTable& table) {
  register_conversions(table);
  auto i32 = [](InferContext&) { return DType::I32; };
  auto of_zero_point = [](InferContext& context) { return context.dtype(7); };
  const std::vector<TypeRule> quantised_types = {
      {kBytes, {0, 2}}, {kBytes, {3, 5}}, {kBytes, {7}}, {kFloats, {1, 4, 6}, false}};
  const auto zero_points = [](InferContext& context) {
    check_scale_count(context, {2});
    check_scale_count(context, {3}, context.shape(1)[0], "filters");
  };
  OpRow conv_integer =
      expanded_quantised({"ConvInteger", 10}, "Convolution of integers with zero points.", {2, 4},
                         checked(zero_points, infer_as("Conv", 0, 1, i32)), expand_conv_integer);
  conv_integer.attributes = convolution_attributes();
  conv_integer.types = {{kBytes, {0, 2}}, {kBytes, {1, 3}}};
  const auto scales = [](InferContext& context) {
    check_scale_count(context, {1, 2, 6, 7});
    check_scale_count(context, {4, 5}, context.shape(3)[0], "filters");
  };
  OpRow quantised_conv =
      expanded_quantised({"QLinearConv", 10, checked_scales({1, 4, 6})}, "Convolution of quantised tensors.",
                         {8, 9}, checked(scales, infer_as("Conv", 0, 3, of_zero_point)),
                         [](Graph& graph, const Node& node) { return expand_quantised(graph, node, true); });
  quantised_conv.attributes = conv_integer.attributes;
  quantised_conv.types = quantised_types;
  quantised_conv.types.push_back({{"i32", [](DType type) { return type == DType::I32; }}, {8}});
  table.add(std::move(conv_integer));
  table.add(std::move(quantised_conv));
  const auto product_zero_points = [](InferContext& context) {
    check_product_scales(context, 0, {2}, true);
    check_product_scales(context, 1, {3}, false);
  };
  OpRow matmul_integer =
      expanded_quantised({"MatMulInteger", 10}, "Matrix product of integers with zero points.", {2, 4},
                         checked(product_zero_points, infer_as("MatMul", 0, 1, i32)), expand_matmul_integer);
  matmul_integer.types = {{kBytes, {0, 2}}, {kBytes, {1, 3}}};
  table.add(std::move(matmul_integer));
  OpRow quantised_matmul = expanded_quantised(
      {"QLinearMatMul", 10, checked_scales({1, 4, 6})}, "Matrix product of quantised tensors.", {8, 8},
      checked(
          [](InferContext& context) {
            check_product_scales(context, 0, {1, 2}, true);
            check_product_scales(context, 3, {4, 5}, false);
            check_scale_count(context, {6, 7});
          },
          infer_as("MatMul", 0, 3, of_zero_point)),
      [](Graph& graph, const Node& node) { return expand_quantised(graph, node, false); });
  quantised_matmul.types = quantised_types;
  table.add(std::move(quantised_matmul));
  OpRow dynamic = expanded_quantised(
      {"DynamicQuantizeLinear", 11}, "Quantisation to u8 with the scale and zero point of the data's range.",
      {1, 1},
      [](InferContext& context) {
        context.set_output(0, DType::U8, context.shape(0));
        context.set_output(1, DType::F32, {});
        context.set_output(2, DType::U8, {});
      },
      expand_dynamic);
  dynamic.outputs = 3;
  dynamic.types = {{{"f32", [](DType type) { return type == DType::F32; }}}};
  table.add(std::move(dynamic));
}

}  // namespace tc
