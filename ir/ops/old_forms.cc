// Operators and forms of ONNX's first opsets (1 to 6), converted to today's.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// Puts the additional nodes that a form needs before the node itself.
void put_before(Graph& graph, NodeBuilder& build) {
  for (Node& node : build.take()) graph.nodes.push_back(std::move(node));
}

// Appends `count` axes of extent 1 to input `input`.
void add_axes(Graph& graph, Node& node, size_t input, size_t count) {
  if (count == 0) return;
  const Value& value = graph[node.inputs[input]];
  if (value.constant) {
    auto data = std::make_shared<Tensor>(*value.constant);
    data->shape.insert(data->shape.end(), count, 1);
    node.inputs[input] = graph.add_constant(value.name, data);
    return;
  }
  std::vector<int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), static_cast<int64_t>(value.shape->size()));
  NodeBuilder build(graph, node);
  node.inputs[input] = build.add("Unsqueeze", {node.inputs[input]}, {{"axes", axes}});
  put_before(graph, build);
}

const Shape& shape_of_input(const Graph& graph, const Node& node, size_t input) {
  if (node.inputs.size() <= input || node.inputs[input] == kNoValue) {
    fail(ErrorKind::Model, node.origin.str(), " leaves out input ", input);
  }
  return graph[node.inputs[input]].shape.value();
}

int64_t taken_int(Node& node, const char* name, int64_t fallback) {
  auto found = node.attributes.find(name);
  if (found == node.attributes.end()) return fallback;
  const int64_t* value = std::get_if<int64_t>(&found->second);
  if (!value) fail(ErrorKind::Model, node.origin.str(), ": attribute '", name, "' is of the wrong kind");
  const int64_t result = *value;
  node.attributes.erase(found);
  return result;
}

// The only element of an operand, which must be known while compiling.
int64_t known_number(const Graph& graph, const Node& node, size_t input) {
  shape_of_input(graph, node, input);
  const Value& value = graph[node.inputs[input]];
  if (!value.constant || value.constant->count() != 1) {
    fail(ErrorKind::Unsupported, node.origin.str(), ": input ", input, ", '", value.name,
         "', must be a constant of one number");
  }
  const double number = value.constant->as_double(0);
  if (!(std::abs(number) < 0x1p31))
    fail(ErrorKind::Shape, node.origin.str(), ": input ", input, " is ", number);
  return static_cast<int64_t>(number);
}

// Operand 1 is broadcast, aligned at `axis`, where `broadcast` is 1.
void old_broadcast(Graph& graph, Node& node) {
  const bool wanted = taken_int(node, "broadcast", 0) != 0, placed = has_attribute(node, "axis");
  int64_t axis = taken_int(node, "axis", 0);
  if (!wanted || !placed || node.inputs.size() != 2) return;
  const int64_t rank = static_cast<int64_t>(shape_of_input(graph, node, 0).size());
  const int64_t own = static_cast<int64_t>(shape_of_input(graph, node, 1).size());
  if (axis < -rank || axis > rank || (axis < 0 ? axis + rank : axis) + own > rank) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", own, " axes from axis ", axis,
         " on do not lie in a tensor of rank ", rank);
  }
  if (axis < 0) axis += rank;
  add_axes(graph, node, 1, static_cast<size_t>(rank - axis - own));
}

// A slope per channel.
void old_slope(Graph& graph, Node& node) {
  const size_t rank = shape_of_input(graph, node, 0).size();
  const Shape& slope = shape_of_input(graph, node, 1);
  if (rank > 2 && slope.size() == 1 && slope[0] != Dim(1)) add_axes(graph, node, 1, rank - 2);
}

// The attribute gave the type's name instead of its number.
void old_cast(Graph& graph, Node& node) {
  static const std::map<std::string, int64_t> numbers = {
      {"FLOAT", 1}, {"UINT8", 2}, {"INT8", 3},     {"UINT16", 4},  {"INT16", 5},   {"INT32", 6},
      {"INT64", 7}, {"BOOL", 9},  {"FLOAT16", 10}, {"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13}};
  auto found = node.attributes.find("to");
  if (found != node.attributes.end() && std::holds_alternative<std::string>(found->second)) {
    std::string name = std::get<std::string>(found->second);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const auto number = numbers.find(name);
    if (number == numbers.end())
      fail(ErrorKind::Unsupported, node.origin.str(), ": element type '", name, "' is not supported");
    found->second = number->second;
  }
  dtype_attribute("to")(graph, node);
}

// The first Tile copies along one axis only.
void old_tile(Graph& graph, Node& node) {
  const int64_t rank = static_cast<int64_t>(shape_of_input(graph, node, 0).size());
  const int64_t tiles = known_number(graph, node, 1), axis = known_number(graph, node, 2);
  if (axis < 0 || axis >= rank || tiles < 0) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", tiles, " tiles along axis ", axis,
         " of a tensor of rank ", rank);
  }
  std::vector<int64_t> repeats(static_cast<size_t>(rank), 1);
  repeats[static_cast<size_t>(axis)] = tiles;
  node.attributes["repeats"] = repeats;
  node.inputs.resize(1);
}

// The order of the norm was a float.
void old_norm_order(Graph&, Node& node) {
  auto found = node.attributes.find("p");
  if (found == node.attributes.end() || !std::holds_alternative<double>(found->second)) return;
  const double p = std::get<double>(found->second);
  if (!(p >= 1 && p < 0x1p31) || std::floor(p) != p)
    fail(ErrorKind::Unsupported, node.origin.str(), ": p is ", p, "; a whole number is supported");
  found->second = static_cast<int64_t>(p);
}

// The first opset's constants have fewer digits.
void old_selu(Graph&, Node& node) {
  node.attributes.emplace("alpha", 1.673200011253357);
  node.attributes.emplace("gamma", 1.0506999492645264);
}

// --- operators that ONNX tried and dropped -----------------------------------------------------------------

// `border`: how much is cut at the left, top, right and bottom; with `scale`, it gives the height and width
// that are kept.
std::vector<Dim> crop_bounds(const Node& node, const Shape& shape) {
  const std::vector<int64_t> border = ints_attribute(node, "border"), scale = ints_attribute(node, "scale");
  if (shape.size() != 4 || border.size() != 4 || (!scale.empty() && scale.size() != 2)) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", border.size(), " borders and ", scale.size(),
         " scales for a tensor of shape ", str(shape), "; rank 4, 4 borders and no scale or 2 are needed");
  }
  const Dim top = border[1], left = border[0];
  const Dim bottom = scale.empty() ? shape[2] - Dim(border[3]) : top + Dim(scale[0]);
  const Dim right = scale.empty() ? shape[3] - Dim(border[2]) : left + Dim(scale[1]);
  auto inside = [](const Dim& first, const Dim& end, const Dim& extent) {
    const bool known = end.is_constant() && extent.is_constant();
    return first.constant() >= 0 &&
           (!known || (first.constant() <= end.constant() && end.constant() <= extent.constant()));
  };
  if (!inside(top, bottom, shape[2]) || !inside(left, right, shape[3])) {
    fail(ErrorKind::Shape, node.origin.str(), ": rows ", top.str(), " to ", bottom.str(), " and columns ",
         left.str(), " to ", right.str(), " do not lie in a tensor of shape ", str(shape));
  }
  return {top, left, bottom, right};
}

OpRow crop_row() {
  OpRow row;
  row.name = "Crop";
  row.kind = OpRow::Kind::Expand;
  row.category = "movement";
  row.doc = "The maps without their borders.";
  row.onnx = {{"Crop", 1}};
  row.attributes = {{"border", std::vector<int64_t>(), true}, {"scale", std::vector<int64_t>()}};
  row.infer = [](InferContext& context) {
    const Shape& shape = context.shape(0);
    const std::vector<Dim> bounds = crop_bounds(context.node(), shape);
    context.set_output(0, context.dtype(0),
                       {shape[0], shape[1], bounds[2] - bounds[0], bounds[3] - bounds[1]});
  };
  row.expand = [](Graph& graph, const Node& node) {
    NodeBuilder build(graph, node);
    const std::vector<Dim> bounds = crop_bounds(node, build.shape(node.inputs[0]));
    build.add_to("Slice", node.inputs, node.outputs,
                 {{"starts", std::vector<Dim>{bounds[0], bounds[1]}},
                  {"ends", std::vector<Dim>{bounds[2], bounds[3]}},
                  {"axes", std::vector<int64_t>{2, 3}}});
    return build.take();
  };
  return row;
}

OpRow image_scaler_row() {
  OpRow row;
  row.name = "ImageScaler";
  row.kind = OpRow::Kind::Expand;
  row.category = "elementwise";
  row.doc = "The maps times `scale`, with a bias of each channel.";
  row.onnx = {{"ImageScaler", 1}};
  row.attributes = {{"bias", std::vector<double>()}, {"scale", 1.0}};
  row.infer = [](InferContext& context) {
    require_float(context);
    const size_t count = floats_attribute(context.node(), "bias").size();
    const Shape& shape = context.shape(0);
    const std::string unfit =
        text("the input has shape ", str(shape), "; [batch, ", count, ", height, width] is needed");
    if (shape.size() != 4) context.error(unfit);
    if (count != 0) need_equal(context, shape[1], Dim(static_cast<int64_t>(count)), unfit);
    infer_same(context);
  };
  row.expand = [](Graph& graph, const Node& node) {
    NodeBuilder build(graph, node);
    const DType type = build.dtype(node.inputs[0]);
    const std::vector<double> bias = floats_attribute(node, "bias");
    ValueId y = build.add("Mul", {node.inputs[0], build.number(type, float_attribute(node, "scale"))});
    if (!bias.empty())
      y = build.add(
          "Add", {y, build.constant(number_tensor(type, {static_cast<int64_t>(bias.size()), 1, 1}, bias))});
    build.give(0, y);
    return build.take();
  };
  return row;
}

// The first Upsample has one attribute for each of a map's two scales.
Normalize old_upsample(const Normalize& next) {
  return [next](Graph& graph, Node& node) {
    std::vector<double> scales = {1, 1};
    for (const char* name : {"height_scale", "width_scale"}) {
      auto found = node.attributes.find(name);
      const double* scale = found == node.attributes.end() ? nullptr : std::get_if<double>(&found->second);
      if (!scale)
        fail(ErrorKind::Model, node.origin.str(), " lacks attribute '", name, "', which Upsample needs");
      scales.push_back(*scale);
      node.attributes.erase(name);
    }
    const Shape& shape = shape_of_input(graph, node, 0);
    if (shape.size() != 4)
      fail(ErrorKind::Shape, node.origin.str(), ": the input has shape ", str(shape), "; rank 4 is needed");
    node.attributes["scales"] = scales;
    if (has_attribute(node, "mode") && string_attribute(node, "mode") == "bilinear")
      node.attributes["mode"] = std::string("linear");
    next(graph, node);
  };
}

// Adds a form of the first opsets to the row of an operator, whose own form begins at `since`.
void add_old_form(OpTable& table, const char* name, int since, Normalize normalize) {
  OpRow& row = table.rows.at(name);
  for (OnnxName& form : row.onnx) {
    if (form.name == name && form.domain.empty() && form.since == 1) form.since = since;
  }
  row.onnx.insert(row.onnx.begin(), {name, 1, std::move(normalize)});
}

}  // namespace

void register_old_forms(OpTable& table) {
  for (const char* name :
       {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"}) {
    add_old_form(table, name, 7, old_broadcast);
  }
  add_old_form(table, "PRelu", 7, old_slope);
  add_old_form(table, "Cast", 6, old_cast);
  add_old_form(table, "Tile", 6, old_tile);
  add_old_form(table, "Selu", 6, old_selu);
  add_old_form(table, "LpPool", 2, old_norm_order);
  add_old_form(table, "GlobalLpPool", 2, old_norm_order);

  std::vector<OnnxName>& resize = table.rows.at("Resize").onnx;
  const auto upsample = std::find_if(resize.begin(), resize.end(),
                                     [](const OnnxName& form) { return form.name == "Upsample"; });
  TC_CHECK(upsample != resize.end());
  resize.insert(resize.begin(), {"Upsample", 1, old_upsample(upsample->normalize)});

  // clang-format off
  const ElementwiseRow rows[] = {
      {"Affine", 1, "alpha * a + beta", 1, "The element times `alpha`, and `beta`.", {{"alpha", 1.0}, {"beta", 0.0}}},
      {"ParametricSoftplus", 1, "alpha * (max(beta * a, 0) + log1p(exp(-abs(beta * a))))", 1, "alpha * log(1 + exp(beta * a)).",
       {{"alpha", 1.0}, {"beta", 1.0}}},
      {"Scale", 1, "scale * a", 1, "The element times `scale`.", {{"scale", 1.0}}},
      {"ScaledTanh", 1, "alpha * tanh(beta * a)", 1, "alpha * tanh(beta * a).", {{"alpha", 1.0}, {"beta", 1.0}}},
  };
  // clang-format on
  for (const ElementwiseRow& row : rows) table.add(elementwise(row));
  table.add(crop_row());
  table.add(image_scaler_row());
}

}  // namespace tc
