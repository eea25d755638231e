// Operators of ONNX Runtime's own domain on quantised tensors: each becomes its float operator between
// DequantizeLinear and QuantizeLinear, which graph passes turn into integer arithmetic. Products of operands
// whose scales are computed at run time become scaled sums of integers.
#include <algorithm>
#include <cmath>

#include "ir/ops/quantised_rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

using Attributes = std::map<std::string, Attribute>;

bool is_float32(DType type) { return type == DType::F32; }
const TypeSet kSingle{"f32", is_float32};

OpRow contributed(const std::string& name, std::vector<int> scales, const std::string& doc,
                  const InputCount& inputs, std::function<void(InferContext&)> infer,
                  std::function<std::vector<Node>(Graph&, const Node&)> expand) {
  return expanded_quantised({name, 1, checked_scales(std::move(scales)), "com.microsoft"}, doc, inputs,
                            std::move(infer), std::move(expand));
}

// --- between DequantizeLinear and QuantizeLinear ------------------------------------------------------

// Dequantises the inputs `first` (a tensor), `first` + 1 (its scale) and `first` + 2 (its zero point, which
// may be left out).
ValueId dequantised(NodeBuilder& build, const Node& node, int first, const Attributes& attributes = {}) {
  std::vector<ValueId> inputs = {node.inputs[static_cast<size_t>(first)],
                                 node.inputs[static_cast<size_t>(first + 1)]};
  if (input_given(node, first + 2)) inputs.push_back(node.inputs[static_cast<size_t>(first + 2)]);
  return build.add("DequantizeLinear", inputs, attributes);
}

// Quantises the node's result by the scale, input `scale`, and the zero point, the next input. If the zero
// point is left out, the result has the type of `like`.
std::vector<Node> quantised(NodeBuilder& build, const Node& node, ValueId real, int scale, ValueId like) {
  const ValueId zero = optional_input(node, scale + 1);
  build.add_to("QuantizeLinear",
               {real, node.inputs[static_cast<size_t>(scale)],
                zero == kNoValue ? build.integer(build.dtype(like), 0) : zero},
               {node.outputs[0]});
  return build.take();
}

// The attributes of the node that the row `of` has.
Attributes attributes_for(const Node& node, const std::string& of) {
  Attributes result;
  for (const auto& [name, value] : node.attributes) {
    if (find_op(of)->attribute(name) != nullptr) result[name] = value;
  }
  return result;
}

// Checks that scales and zero points hold one number, and that a zero point has the type of its tensor. Each
// input in `tensors` is followed by its scale and its zero point; `result` is the scale of the result.
void check_units(InferContext& context, const std::vector<int>& tensors, int result) {
  auto need_one = [&](int scale, DType of) {
    if (!context.has_input(scale))
      context.fail_at(ErrorKind::Model, text("leaves out input ", scale, ", a scale"));
    check_scale_count(context, {scale, scale + 1});
    if (context.dtype(scale) != DType::F32)
      context.error("input ", scale, ", a scale, is ", name_of(context.dtype(scale)), "; f32 is needed");
    if (!context.has_input(scale + 1) || context.dtype(scale + 1) == of) return;
    context.error("input ", scale + 1, ", a zero point, is ", name_of(context.dtype(scale + 1)), "; ",
                  name_of(of), " is needed");
  };
  const DType type = context.dtype(tensors[0]);
  if (type != DType::U8 && type != DType::I8)
    context.error("input ", tensors[0], " is ", name_of(type), "; i8 or u8 is needed");
  for (const int tensor : tensors) {
    if (context.dtype(tensor) != type)
      context.error("inputs ", tensors[0], " and ", tensor, " are ", name_of(type), " and ",
                    name_of(context.dtype(tensor)));
    need_one(tensor + 1, type);
  }
  need_one(result, type);
}

// A row of one operand: x, its scale and zero point, the result's scale and zero point.
OpRow of_one(const OpTable& table, const std::string& name, const std::string& as, const std::string& doc) {
  OpRow row = contributed(
      name, {1, 3}, doc, {4, 5},
      [as](InferContext& context) {
        check_units(context, {0}, 3);
        const bool last = int_attribute(context.node(), "channels_last") != 0;
        context.set_output(0, context.dtype(0), shape_as(context, as, {0}, DType::F32, last));
      },
      [as](Graph& graph, const Node& node) {
        NodeBuilder build(graph, node);
        const bool last = int_attribute(node, "channels_last") != 0;
        const auto rank = static_cast<int64_t>(build.shape(node.inputs[0]).size());
        ValueId real = dequantised(build, node, 0);
        if (last) real = build.add("Transpose", {real}, {{"perm", channels_to_front(rank)}});
        real = build.add(as, {real}, attributes_for(node, as));
        if (last) real = build.add("Transpose", {real}, {{"perm", channels_to_back(rank)}});
        return quantised(build, node, real, 3, node.inputs[0]);
      });
  row.attributes = table.rows.at(as).attributes;
  row.attributes.push_back({"channels_last", int64_t{0}, false, "", from_to(0, 1)});
  return row;
}

// A row of two operands, each followed by its scale and zero point, then the result's scale and zero point.
OpRow of_two(const std::string& name, const std::string& as, const std::string& doc) {
  return contributed(
      name, {1, 4, 6}, doc, {7, 8},
      [](InferContext& context) {
        check_units(context, {0, 3}, 6);
        context.set_output(0, context.dtype(0), context.broadcast({context.shape(0), context.shape(3)}));
      },
      [as](Graph& graph, const Node& node) {
        NodeBuilder build(graph, node);
        const ValueId real = build.add(as, {dequantised(build, node, 0), dequantised(build, node, 3)});
        return quantised(build, node, real, 6, node.inputs[0]);
      });
}

// --- joins --------------------------------------------------------------------------------------------

// Inputs: the result's scale and zero point, then each operand with its own.
std::vector<int> joined(const Node& node) {
  std::vector<int> operands;
  for (size_t i = 2; i < node.inputs.size(); i += 3) operands.push_back(static_cast<int>(i));
  return operands;
}

void infer_joined(InferContext& context) {
  const size_t count = context.node().inputs.size();
  if (count % 3 != 2)
    context.fail_at(
        ErrorKind::Model,
        text("has ", count, " inputs; a scale and a zero point, and three for each operand, are needed"));
  check_units(context, joined(context.node()), 0);
  context.set_output(0, context.dtype(2), shape_as(context, "Concat", joined(context.node()), DType::F32));
}

std::vector<Node> expand_joined(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  std::vector<ValueId> operands;
  for (const int each : joined(node)) operands.push_back(dequantised(build, node, each));
  return quantised(build, node, build.add("Concat", operands, attributes_for(node, "Concat")), 0,
                   node.inputs[2]);
}

// --- products -----------------------------------------------------------------------------------------

// Makes a scale, f32 [1] or a vector, broadcast along the last axis.
ValueId along_columns(NodeBuilder& build, ValueId scale) {
  return build.shape(scale) == Shape{Dim(1)}
             ? build.add("Squeeze", {scale}, {{"axes", std::vector<int64_t>{0}}})
             : scale;
}

// The sums of (a - zero) * (b - zero), times the scales, and the bias.
ValueId scaled_product(NodeBuilder& build, const std::vector<ValueId>& operands, ValueId a_scale,
                       ValueId b_scale, ValueId bias) {
  const ValueId sum = build.add("MatMulInteger", operands);
  const ValueId scale = build.add("Mul", {along_columns(build, a_scale), along_columns(build, b_scale)});
  const ValueId real = build.add("Mul", {build.cast(sum, DType::F32), scale});
  return bias == kNoValue ? real : build.add("Add", {real, bias});
}

const Dim& columns_of(InferContext& context, int matrix) {
  if (context.rank(matrix) < 2)
    context.error("input ", matrix, " has shape ", str(context.shape(matrix)), "; a matrix is needed");
  return context.shape(matrix).back();
}

// Inputs: a, b, their scales, their zero points, the bias.
OpRow integers_to_floats() {
  OpRow row = contributed(
      "MatMulIntegerToFloat", {2, 3}, "Matrix product of quantised tensors as floats, and a bias.", {4, 7},
      [](InferContext& context) {
        const Dim columns = columns_of(context, 1);
        check_scale_count(context, {2, 4});
        check_scale_count(context, {3, 5}, columns, "columns");
        check_bias(context, 6, columns);
        context.set_output(0, context.dtype(2), shape_as(context, "MatMul", {0, 1}, DType::F32));
      },
      [](Graph& graph, const Node& node) {
        NodeBuilder build(graph, node);
        const ValueId real = scaled_product(
            build, {node.inputs[0], node.inputs[1], optional_input(node, 4), optional_input(node, 5)},
            node.inputs[2], node.inputs[3], optional_input(node, 6));
        build.give(0, real);
        return build.take();
      });
  row.types = {{kBytes, {0, 4}}, {kBytes, {1, 5}}, {kSingle, {2, 3, 6}}};
  return row;
}

// Inputs: a, floats; b, its scale and zero point; the bias.
OpRow dynamic_product() {
  OpRow row = contributed(
      "DynamicQuantizeMatMul", {2},
      "Matrix product of a tensor, quantised while the model runs, and a quantised one, and a bias.", {3, 5},
      [](InferContext& context) {
        const Dim columns = columns_of(context, 1);
        check_scale_count(context, {2, 3}, columns, "columns");
        check_bias(context, 4, columns);
        context.set_output(0, DType::F32, shape_as(context, "MatMul", {0, 1}, DType::F32));
      },
      [](Graph& graph, const Node& node) {
        NodeBuilder build(graph, node);
        const auto a = build.add_many("DynamicQuantizeLinear", {node.inputs[0]}, 3);
        build.give(0, scaled_product(build, {a[0], node.inputs[1], a[2], optional_input(node, 3)}, a[1],
                                     node.inputs[2], optional_input(node, 4)));
        return build.take();
      });
  row.types = {{kSingle, {0, 2, 4}}, {kBytes, {1, 3}}};
  return row;
}

// Inputs: a, its scale and zero point; b, its scale and zero point; the bias, i32 in units of the product;
// the result's scale and zero point, without which the result is floats.
void infer_gemm(InferContext& context) {
  for (const int matrix : {0, 3}) {
    if (context.rank(matrix) != 2)
      context.error("input ", matrix, " has shape ", str(context.shape(matrix)), "; a matrix is needed");
  }
  const Shape shape = shape_as(context, "Gemm", {0, 3}, DType::F32);
  check_scale_count(context, {1, 2, 7, 8});
  check_scale_count(context, {4, 5}, shape[1], "columns");
  need_broadcast(context, 6, shape, "input 6, the bias,");
  if (context.has_input(7) != context.has_input(8))
    context.fail_at(ErrorKind::Model,
                    "has a scale or a zero point of its result alone; inputs 7 and 8 are given together");
  const double alpha = float_attribute(context.node(), "alpha");
  if (!std::isfinite(alpha) || alpha <= 0)
    context.unsupported("alpha is ", alpha, "; a number over 0 is needed");
  context.set_output(0, context.has_input(8) ? context.dtype(8) : DType::F32, shape);
}

// The numbers of a constant times a factor, as f32.
ValueId times(NodeBuilder& build, const Tensor& numbers, double factor) {
  std::vector<double> result;
  for (int64_t i = 0; i < numbers.count(); ++i)
    result.push_back(static_cast<float>(numbers.as_double(i) * factor));
  return build.constant(
      number_tensor(DType::F32, numbers.count() == 1 ? std::vector<int64_t>() : numbers.shape, result));
}

// With constant scales, weights and bias it becomes a float Gemm.
ValueId gemm_of_floats(NodeBuilder& build, const Node& node) {
  const Graph& graph = build.graph();
  const double alpha = float_attribute(node, "alpha");
  const bool transposed = int_attribute(node, "transB") != 0;
  const Attributes axis = {{"axis", int64_t{transposed ? 0 : 1}}};
  const Tensor &a_scale = *graph[node.inputs[1]].constant, &b_scale = *graph[node.inputs[4]].constant;
  std::vector<ValueId> operands = {
      dequantised(build, node, 0),
      build.add("DequantizeLinear", {node.inputs[3], times(build, b_scale, alpha), node.inputs[5]}, axis)};
  if (input_given(node, 6)) {
    auto bias = std::make_shared<Tensor>(*graph[node.inputs[6]].constant);
    bias->shape = {bias->count()};
    operands.push_back(build.add("DequantizeLinear",
                                 {build.constant(bias), times(build, b_scale, alpha * a_scale.as_double(0))},
                                 {{"axis", int64_t{0}}}));
  }
  return build.add("Gemm", operands,
                   {{"transA", int_attribute(node, "transA")}, {"transB", int_attribute(node, "transB")}});
}

std::vector<Node> expand_gemm(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  bool constant = true;
  for (const int i : {1, 2, 3, 4, 5, 6})
    constant = constant && (!input_given(node, i) || graph[node.inputs[i]].constant);
  const int64_t columns_axis = int_attribute(node, "transB") ? 0 : 1;
  const Dim columns = build.shape(node.inputs[3])[columns_axis];
  // A bias that is not one number for each column is added to the sums separately.
  if (constant && input_given(node, 6))
    constant =
        build.dtype(node.inputs[6]) == DType::I32 && element_count(build.shape(node.inputs[6])) == columns;
  ValueId real = kNoValue;
  if (constant) {
    real = gemm_of_floats(build, node);
  } else {
    auto transposed = [&](ValueId id, const char* name) {
      return int_attribute(node, name) ? build.add("Transpose", {id}, {{"perm", std::vector<int64_t>{1, 0}}})
                                       : id;
    };
    ValueId sum =
        build.add("MatMulInteger", {transposed(node.inputs[0], "transA"),
                                    transposed(node.inputs[3], "transB"), node.inputs[2], node.inputs[5]});
    if (input_given(node, 6)) sum = build.add("Add", {sum, node.inputs[6]});
    ValueId scale =
        build.add("Mul", {along_columns(build, node.inputs[1]), along_columns(build, node.inputs[4])});
    scale = build.add("Mul", {scale, build.number(DType::F32, float_attribute(node, "alpha"))});
    real = build.add("Mul", {build.cast(sum, DType::F32), scale});
  }
  if (input_given(node, 7)) return quantised(build, node, real, 7, node.inputs[0]);
  build.give(0, real);
  return build.take();
}

// --- attention ----------------------------------------------------------------------------------------

// Inputs: input, weights, bias, the scales of both, a mask, the zero points of both, the past. It becomes
// attention of dequantised tensors.
Node as_attention(InferContext& context) {
  Node node = context.node();
  node.op = find_op("ProjectedAttention");
  node.inputs = {node.inputs[0], node.inputs[1], node.inputs[2], optional_input(context.node(), 5),
                 optional_input(context.node(), 8)};
  return node;
}

void infer_attention(InferContext& context) {
  check_scale_count(context, {3, 6});
  check_scale_count(context, {4, 7}, columns_of(context, 1), "columns");
  Node node = as_attention(context);
  Graph& graph = context.graph();
  const size_t values = graph.values.size();
  for (size_t i = 0; i < 2; ++i) {
    Value value = graph[node.inputs[i]];
    value.dtype = DType::F32;
    node.inputs[i] = static_cast<ValueId>(graph.values.size());
    graph.values.push_back(std::move(value));
  }
  for (size_t i = 0; i < 2; ++i) {
    if (i == node.outputs.size()) node.outputs.push_back(kNoValue);
    node.outputs[i] = static_cast<ValueId>(graph.values.size());
    graph.values.emplace_back();
  }
  InferContext inner(graph, node);
  infer_by_row(inner);
  std::vector<std::optional<Shape>> shapes;
  for (size_t i = 0; i < 2; ++i) shapes.push_back(graph[node.outputs[i]].shape);
  graph.values.resize(values);
  for (size_t i = 0; i < 2; ++i) {
    if (shapes[i]) context.set_output(static_cast<int>(i), DType::F32, *shapes[i]);
  }
}

std::vector<Node> expand_attention(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  auto real = [&](int tensor, int scale, int zero, int64_t axis) {
    std::vector<ValueId> inputs = {node.inputs[static_cast<size_t>(tensor)],
                                   node.inputs[static_cast<size_t>(scale)]};
    if (input_given(node, zero)) inputs.push_back(node.inputs[static_cast<size_t>(zero)]);
    return build.add("DequantizeLinear", inputs, {{"axis", axis}});
  };
  std::vector<ValueId> inputs = {real(0, 3, 6, 1), real(1, 4, 7, 1), node.inputs[2], optional_input(node, 5),
                                 optional_input(node, 8)};
  build.add_to("ProjectedAttention", inputs, node.outputs, attributes_for(node, "ProjectedAttention"));
  return build.take();
}

}  // namespace

void check_bias(InferContext& context, int bias, const Dim& columns) {
  need_shape(context, bias, {columns}, text("input ", bias, ", the bias,"));
}

void register_contributed_quantised_ops(OpTable& table) {
  table.add(of_two("QLinearAdd", "Add", "Sum of quantised tensors."));
  table.add(of_two("QLinearMul", "Mul", "Product of quantised tensors."));
  table.add(of_one(table, "QLinearAveragePool", "AveragePool", "Mean of each window of a quantised tensor."));
  table.add(of_one(table, "QLinearGlobalAveragePool", "GlobalAveragePool",
                   "Mean of each map of a quantised tensor."));
  table.add(of_one(table, "QLinearLeakyRelu", "LeakyRelu", "Slope `alpha` below 0, of a quantised tensor."));
  table.add(of_one(table, "QLinearSigmoid", "Sigmoid", "1 / (1 + exp(-a)) of a quantised tensor."));
  OpRow softmax =
      of_one(table, "QLinearSoftmax", "Softmax", "exp(x) over its sum along an axis, of a quantised tensor.");
  softmax.attributes.push_back({"opset", int64_t{13}});
  softmax.infer = [infer = softmax.infer](InferContext& context) {
    const int64_t rank = context.rank(0), axis = context.axis(int_attribute(context.node(), "axis"), rank);
    // Before opset 13, softmax treated the axes from `axis` on as one.
    if (int_attribute(context.node(), "opset") < 13 && axis != rank - 1) {
      context.unsupported("a softmax of opset ", int_attribute(context.node(), "opset"), " along axis ", axis,
                          " of ", rank, " is not supported; the last axis is");
    }
    infer(context);
  };
  table.add(std::move(softmax));

  OpRow concat =
      expanded_quantised({"QLinearConcat", 1,
                          [](Graph& graph, Node& node) {
                            for (size_t i = 0; i < node.inputs.size(); i += 3) refuse_scale(graph, node, i);
                          },
                          "com.microsoft"},
                         "Quantised tensors one after the other along an axis, in the units of the result.",
                         {5, -1}, infer_joined, expand_joined);
  concat.attributes = {{"axis", int64_t{1}, true}};
  table.add(std::move(concat));

  OpRow gemm = contributed(
      "QGemm", {1, 4, 7},
      "alpha * A * B and a bias in units of the product, of quantised tensors; floats without a scale of the result.",
      {6, 9}, infer_gemm, expand_gemm);
  gemm.attributes = {{"alpha", 1.0}, {"transA", int64_t{0}}, {"transB", int64_t{0}}};
  gemm.types = {{kBytes, {0, 2}}, {kBytes, {3, 5}}, {kSingle, {1, 4, 7}}, {kBytes, {8}}};
  table.add(std::move(gemm));
  table.add(integers_to_floats());
  table.add(dynamic_product());

  OpRow attention =
      contributed("QAttention", {3, 4},
                  "Attention of a quantised tensor to itself, with the products that make Q, K and V.",
                  {5, 9}, infer_attention, expand_attention);
  attention.outputs = 2;
  attention.attributes = table.rows.at("ProjectedAttention").attributes;
  attention.types = {{kBytes, {0, 6}}, {kBytes, {1, 7}}, {kSingle, {2, 3, 4, 8}}};
  table.add(std::move(attention));
}

}  // namespace tc
