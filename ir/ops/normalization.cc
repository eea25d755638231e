// Normalisations: softmax, batch, layer, instance, group, local response.
#include <algorithm>
#include <cmath>
#include <set>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// The loops of a row program: iterators of the kept axes outside, of the reduced ones inside, one
// name per axis, and the position of a row's statistics (0 at reduced axes).
struct Rows {
  std::vector<Iterator> outer, inner, all;
  std::vector<Affine> position, statistics;
  Shape statistics_shape;
  Dim count = 1;  // elements per row
};

Rows rows_over(LowerContext& context, const Shape& shape, const std::set<int64_t>& reduced) {
  Rows rows;
  auto space = context.space("i", shape);
  rows.position = space.position;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool inside = reduced.count(static_cast<int64_t>(axis)) > 0;
    rows.statistics.push_back(inside ? Affine(0) : space.position[axis]);
    rows.statistics_shape.push_back(inside ? Dim(1) : shape[axis]);
    if (inside) rows.count = rows.count * shape[axis];
    const std::string name = space.position[axis].as_variable();
    for (const Iterator& iterator : space.iterators) {
      if (iterator.name == name) (inside ? rows.inner : rows.outer).push_back(iterator);
    }
  }
  rows.all = rows.outer;
  rows.all.insert(rows.all.end(), rows.inner.begin(), rows.inner.end());
  return rows;
}

// value / count.
ExprPtr divided(LowerContext& context, ExprPtr value, const Dim& count) {
  const DType type = value->dtype;
  if (count.is_constant()) {
    return binary(BinaryOp::Mul, value, constant(type, 1.0 / static_cast<double>(count.constant())));
  }
  return binary(BinaryOp::Div, value, cast(type, index_value(context.dim(count))));
}

// Buffers of each row's mean, of 1 / sqrt(variance + epsilon), and of the mean's error times the latter (-1:
// no such buffer).
struct Moments {
  int mean, scale, shift = -1;
};

// In rows at least as long as this the error of a float32 mean may be too large compared with the deviations,
// if the elements are far from zero.
constexpr int64_t kLongRow = 16384;

// The position of the row's first element, given that of each element.
std::vector<Affine> first_of(const Rows& rows, std::vector<Affine> input) {
  std::map<std::string, Affine> start;
  for (const Iterator& inner : rows.inner) start[inner.name] = Affine(0);
  for (Affine& each : input) each = each.substitute(start);
  return input;
}

// The mean is computed as the first element plus the average difference from it: the sum of large and nearly
// equal elements would be rounded by more than they differ, which 1 / sqrt(epsilon) magnifies. A row of
// unknown length may have no first element.
//
// The mean of a long row has an error from rounding its sum and itself. The elements' average difference from
// that mean is this error; being small, it is computed precisely. It corrects the variance, and `normalized`
// subtracts it when it scales the row ("corrected two-pass algorithm": Chan, Golub and LeVeque, "Algorithms
// for computing the sample variance", 1983).
Moments moments(LowerContext& context, const Rows& rows, const std::vector<Affine>& input, double epsilon) {
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int sum = context.local("sum", type, rows.statistics_shape);
  Moments result{context.local("mean", type, rows.statistics_shape),
                 context.local("scale", type, rows.statistics_shape)};
  const int squares = context.local("squares", type, rows.statistics_shape);
  ExprPtr value = context.read(0, input);
  ExprPtr first = rows.count.is_constant() && rows.count.constant() > 0
                      ? context.read(0, first_of(rows, input))
                      : nullptr;
  context.reduce("total", {rows.outer, rows.inner}, sum, rows.statistics, Reduction::Sum,
                 first ? binary(BinaryOp::Sub, value, first) : value);
  ExprPtr mean = divided(context, context.read_buffer(sum, rows.statistics), rows.count);
  context.assign("mean", rows.outer, result.mean, rows.statistics,
                 first ? binary(BinaryOp::Add, first, mean) : mean);
  ExprPtr away = binary(BinaryOp::Sub, value, context.read_buffer(result.mean, rows.statistics));
  context.reduce("spread", {rows.outer, rows.inner}, squares, rows.statistics, Reduction::Sum,
                 binary(BinaryOp::Mul, away, away));
  ExprPtr variance = divided(context, context.read_buffer(squares, rows.statistics), rows.count);
  ExprPtr left;
  if (!rows.count.is_constant() || rows.count.constant() >= kLongRow) {
    const int rest = context.local("rest", type, rows.statistics_shape);
    context.reduce("rest", {rows.outer, rows.inner}, rest, rows.statistics, Reduction::Sum, away);
    left = divided(context, context.read_buffer(rest, rows.statistics), rows.count);
    variance = binary(BinaryOp::Max, binary(BinaryOp::Sub, variance, binary(BinaryOp::Mul, left, left)),
                      constant(type, 0));
  }
  ExprPtr root = unary(UnaryOp::Sqrt, binary(BinaryOp::Add, variance, constant(type, epsilon)));
  context.assign("scale", rows.outer, result.scale, rows.statistics,
                 binary(BinaryOp::Div, constant(type, 1), root));
  if (left) {
    result.shift = context.local("shift", type, rows.statistics_shape);
    context.assign("shift", rows.outer, result.shift, rows.statistics,
                   binary(BinaryOp::Mul, left, context.read_buffer(result.scale, rows.statistics)));
  }
  return result;
}

// (x - mean) * scale, with the row's moments.
ExprPtr normalized(LowerContext& context, const Rows& rows, const Moments& moments,
                   const std::vector<Affine>& input) {
  ExprPtr away =
      binary(BinaryOp::Sub, context.read(0, input), context.read_buffer(moments.mean, rows.statistics));
  ExprPtr scaled = binary(BinaryOp::Mul, away, context.read_buffer(moments.scale, rows.statistics));
  if (moments.shift < 0) return scaled;
  return binary(BinaryOp::Sub, scaled, context.read_buffer(moments.shift, rows.statistics));
}

std::set<int64_t> softmax_axes(const Node& node, int64_t rank) {
  int64_t axis = int_attribute(node, "axis");
  if (axis < 0) axis += rank;
  std::set<int64_t> axes = {axis};
  if (int_attribute(node, "to_end")) {
    for (int64_t i = axis; i < rank; ++i) axes.insert(i);
  }
  return axes;
}

// The maximum ignores NaN, which takes one instruction instead of three. The result is the same: an element
// that is NaN makes its own power NaN whatever the maximum is, hence the row's sum, hence every element of
// the row. The same holds in a row of only NaN, whose maximum is -inf. In rows without NaN both kinds of
// maximum agree.
void lower_softmax(LowerContext& context, bool logarithm) {
  const Shape& shape = context.shape(0);
  const DType type = LowerContext::compute_type(context.dtype(0));
  const Rows rows =
      rows_over(context, shape, softmax_axes(context.node(), static_cast<int64_t>(shape.size())));
  const int largest = context.local("largest", type, rows.statistics_shape);
  const int sum = context.local("sum", type, rows.statistics_shape);
  context.reduce("maximum", {rows.outer, rows.inner}, largest, rows.statistics, Reduction::MaxNumber,
                 context.read(0, rows.position));
  int shift = largest;
  const bool masked = int_attribute(context.node(), "masked") != 0;
  if (masked) {
    // The largest element of a fully masked row is -inf, which would make the differences NaN.
    shift = context.local("shift", type, rows.statistics_shape);
    ExprPtr most = context.read_buffer(largest, rows.statistics);
    context.assign("shift", rows.outer, shift, rows.statistics,
                   select(binary(BinaryOp::Eq, most, constant(type, -INFINITY)), constant(type, 0), most));
  }
  ExprPtr away =
      binary(BinaryOp::Sub, context.read(0, rows.position), context.read_buffer(shift, rows.statistics));
  if (logarithm) {
    context.reduce("total", {rows.outer, rows.inner}, sum, rows.statistics, Reduction::Sum,
                   unary(UnaryOp::Exp, away));
    const int log = context.local("log", type, rows.statistics_shape);
    context.assign("log", rows.outer, log, rows.statistics,
                   unary(UnaryOp::Log, context.read_buffer(sum, rows.statistics)));
    context.assign("store", rows.all, context.output(0), rows.position,
                   binary(BinaryOp::Sub, away, context.read_buffer(log, rows.statistics)));
    return;
  }
  const int power = context.local("power", type, shape);
  context.assign("power", rows.all, power, rows.position, unary(UnaryOp::Exp, away));
  context.reduce("total", {rows.outer, rows.inner}, sum, rows.statistics, Reduction::Sum,
                 context.read_buffer(power, rows.position));
  // One division for each row: vector divisions take 16 cycles each.
  const int scale = context.local("scale", type, rows.statistics_shape);
  ExprPtr total = context.read_buffer(sum, rows.statistics);
  // In any other row the largest element alone contributes 1 to the sum.
  if (masked) total = select(binary(BinaryOp::Eq, total, constant(type, 0)), constant(type, 1), total);
  context.assign("scale", rows.outer, scale, rows.statistics,
                 binary(BinaryOp::Div, constant(type, 1), total));
  context.assign("store", rows.all, context.output(0), rows.position,
                 binary(BinaryOp::Mul, context.read_buffer(power, rows.position),
                        context.read_buffer(scale, rows.statistics)));
}

// Before opset 13 softmax runs over all axes from `axis` (1 by default) on.
void old_softmax(Graph& graph, Node& node) {
  const int64_t axis = has_attribute(node, "axis") ? int_attribute(node, "axis") : 1;
  const Value& input = graph[node.inputs.at(0)];
  const int64_t rank = input.shape ? static_cast<int64_t>(input.shape->size()) : 0;
  node.attributes["axis"] = axis;
  const bool last = axis == -1 || axis == rank - 1;
  node.attributes["to_end"] = int64_t{last ? 0 : 1};
}

OpRow softmax_row(const std::string& name, bool logarithm) {
  OpRow row;
  row.name = name;
  row.category = "normalization";
  row.traits.row_program = true;
  row.doc = logarithm ? "Logarithm of the softmax along an axis." : "exp(x) over its sum along an axis.";
  row.equation =
      logarithm ? "M[n] max= X[n,k]; S[n] += exp(X[n,k] - M[n]); O[n,k] = X[n,k] - M[n] - log(S[n])"
                : "M[n] max= X[n,k]; E[n,k] = exp(X[n,k] - M[n]); S[n] += E[n,k]; O[n,k] = E[n,k] / S[n]";
  row.onnx = {{name, 1, old_softmax}, {name, 13}};
  row.attributes = {{"axis", int64_t{-1}, false, "", axis_of(0)},
                    {"to_end", int64_t{0}, false, "1: over all axes from `axis`"},
                    {"masked", int64_t{0}, false, "1: a row of -inf gives zeros (not a logarithm)"}};
  row.types = {{kFloats}};
  row.infer = infer_same;
  row.lower = [logarithm](LowerContext& context) { lower_softmax(context, logarithm); };
  return row;
}

// Hardmax: 1 at the first largest element of the row, or at its first NaN, else 0.
void lower_hardmax(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const DType type = LowerContext::compute_type(context.dtype(0));
  const std::set<int64_t> axes = softmax_axes(context.node(), static_cast<int64_t>(shape.size()));
  const Rows rows = rows_over(context, shape, axes);
  const int largest = context.local("largest", type, rows.statistics_shape);
  const int first = context.local("first", DType::I64, rows.statistics_shape);
  context.reduce("maximum", {rows.outer, rows.inner}, largest, rows.statistics, Reduction::Max,
                 context.read(0, rows.position));
  ExprPtr flat = int_constant(DType::I64, 0);
  for (int64_t axis : axes) {
    flat = binary(BinaryOp::Add, binary(BinaryOp::Mul, flat, index_value(context.dim(shape[axis]))),
                  index_value(rows.position[axis]));
  }
  ExprPtr found =
      binary(BinaryOp::Eq, context.read(0, rows.position), context.read_buffer(largest, rows.statistics));
  // As in ArgMax: the largest of numbers with a NaN among them is NaN, which is equal to no element.
  if (is_float(type))
    found = binary(BinaryOp::Or, found, unary(UnaryOp::IsNan, context.read(0, rows.position)));
  context.reduce("where", {rows.outer, rows.inner}, first, rows.statistics, Reduction::Min,
                 select(found, flat, int_constant(DType::I64, INT64_MAX)));
  ExprPtr here = binary(BinaryOp::Eq, flat, context.read_buffer(first, rows.statistics));
  context.assign("store", rows.all, context.output(0), rows.position,
                 select(here, constant(type, 1), constant(type, 0)));
}

// --- batch normalisation -------------------------------------------------------------------------

void infer_batch_normalization(InferContext& context) {
  const Shape& shape = context.shape(0);
  if (shape.size() < 2) context.error("the input has shape ", str(shape), "; [batch, channels, …] is needed");
  for (int i = 1; i < 5; ++i) {
    need_shape(context, i, {shape[1]});
  }
  for (int i : {1, 2}) context.set_output(i, context.dtype(3), context.shape(3));
  infer_same(context);
}

void lower_batch_normalization(LowerContext& context) {
  auto space = context.space("i", context.shape(0));
  const DType type = LowerContext::compute_type(context.dtype(0));
  const std::vector<Affine> channel = {space.position[1]};
  auto number = [&](int i) {
    ExprPtr value = context.read(i, channel);
    return value->dtype == type ? value : cast(type, value);
  };
  ExprPtr deviation =
      unary(UnaryOp::Sqrt,
            binary(BinaryOp::Add, number(4), constant(type, float_attribute(context.node(), "epsilon"))));
  ExprPtr value = binary(BinaryOp::Sub, context.read(0, space.position), number(3));
  value = binary(BinaryOp::Mul, value, binary(BinaryOp::Div, number(1), deviation));
  context.assign("e", space.iterators, context.output(0), space.position,
                 binary(BinaryOp::Add, value, number(2)));
}

// Older files may have outputs that exist only in training; inference drops them.
void old_batch_normalization(Graph&, Node& node) {
  if (has_attribute(node, "spatial") && int_attribute(node, "spatial") == 0) {
    fail(ErrorKind::Unsupported, node.origin.str(), ": spatial 0 (statistics per element) is not supported");
  }
  for (const char* name : {"spatial", "is_test", "consumed_inputs"}) node.attributes.erase(name);
  if (node.outputs.size() > 1) node.outputs.resize(1);
}

// A node in training mode is switched to another row.
void training_form(Graph&, Node& node) {
  if (!has_attribute(node, "training_mode") || int_attribute(node, "training_mode") == 0) return;
  node.attributes.erase("training_mode");
  node.op = find_op("BatchNormalizationTraining");
}

// --- rows with learned scale ---------------------------------------------------------------------

std::set<int64_t> axes_from(int64_t first, int64_t rank) {
  std::set<int64_t> axes;
  for (int64_t i = first; i < rank; ++i) axes.insert(i);
  return axes;
}

int64_t layer_axis(const Node& node, int64_t rank) {
  const int64_t axis = int_attribute(node, "axis");
  return axis < 0 ? axis + rank : axis;
}

void infer_layer_normalization(InferContext& context) {
  const Shape& shape = context.shape(0);
  const int64_t first = context.axis(int_attribute(context.node(), "axis"), context.rank(0));
  for (int i : {1, 2}) need_broadcast(context, i, shape);
  Shape statistics = shape;
  for (size_t i = static_cast<size_t>(first); i < shape.size(); ++i) statistics[i] = 1;
  infer_same(context);
  context.set_output(1, DType::F32, statistics);
  context.set_output(2, DType::F32, statistics);
}

void lower_layer_normalization(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const int64_t rank = static_cast<int64_t>(shape.size());
  const Rows rows = rows_over(context, shape, axes_from(layer_axis(context.node(), rank), rank));
  const Moments found = moments(context, rows, rows.position, float_attribute(context.node(), "epsilon"));
  ExprPtr value = normalized(context, rows, found, rows.position);
  value =
      binary(BinaryOp::Mul, value, context.read(1, context.broadcast_index(context.shape(1), rows.position)));
  if (context.has_input(2)) {
    value = binary(BinaryOp::Add, value,
                   context.read(2, context.broadcast_index(context.shape(2), rows.position)));
  }
  context.assign("store", rows.all, context.output(0), rows.position, value);
  for (int i : {1, 2}) {
    if (context.output(i) < 0) continue;
    context.assign("statistic", rows.outer, context.output(i), rows.statistics,
                   context.read_buffer(i == 1 ? found.mean : found.scale, rows.statistics));
  }
}

void lower_rms_normalization(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const int64_t rank = static_cast<int64_t>(shape.size());
  const DType type = LowerContext::compute_type(context.dtype(0));
  const Rows rows = rows_over(context, shape, axes_from(layer_axis(context.node(), rank), rank));
  const int squares = context.local("squares", type, rows.statistics_shape);
  const int scale = context.local("scale", type, rows.statistics_shape);
  ExprPtr x = context.read(0, rows.position);
  context.reduce("total", {rows.outer, rows.inner}, squares, rows.statistics, Reduction::Sum,
                 binary(BinaryOp::Mul, x, x));
  ExprPtr mean = divided(context, context.read_buffer(squares, rows.statistics), rows.count);
  ExprPtr root = unary(
      UnaryOp::Sqrt, binary(BinaryOp::Add, mean, constant(type, float_attribute(context.node(), "epsilon"))));
  context.assign("scale", rows.outer, scale, rows.statistics, binary(BinaryOp::Div, constant(type, 1), root));
  ExprPtr value = binary(BinaryOp::Mul, x, context.read_buffer(scale, rows.statistics));
  value =
      binary(BinaryOp::Mul, value, context.read(1, context.broadcast_index(context.shape(1), rows.position)));
  context.assign("store", rows.all, context.output(0), rows.position, value);
  if (context.output(1) < 0) return;
  context.assign("statistic", rows.outer, context.output(1), rows.statistics,
                 context.read_buffer(scale, rows.statistics));
}

void infer_channels(InferContext& context) {
  const Shape& shape = context.shape(0);
  if (shape.size() < 2) context.error("the input has shape ", str(shape), "; [batch, channels, …] is needed");
  for (int i : {1, 2}) {
    need_shape(context, i, {shape[1]});
  }
  infer_same(context);
}

void lower_instance_normalization(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const Rows rows = rows_over(context, shape, axes_from(2, static_cast<int64_t>(shape.size())));
  const Moments found = moments(context, rows, rows.position, float_attribute(context.node(), "epsilon"));
  ExprPtr value = normalized(context, rows, found, rows.position);
  value = binary(BinaryOp::Mul, value, context.read(1, std::vector<Affine>{rows.position[1]}));
  value = binary(BinaryOp::Add, value, context.read(2, std::vector<Affine>{rows.position[1]}));
  context.assign("store", rows.all, context.output(0), rows.position, value);
}

void infer_group_normalization(InferContext& context) {
  const Shape& shape = context.shape(0);
  if (shape.size() < 2) context.error("the input has shape ", str(shape), "; [batch, channels, …] is needed");
  const int64_t groups = int_attribute(context.node(), "num_groups");
  for (int i : {1, 2}) {
    if (context.shape(i) != Shape{Dim(groups)}) need_shape(context, i, {shape[1]});
  }
  if (need_number(context, shape[1], "the number of channels") % groups != 0) {
    context.error(shape[1].str(), " channels do not divide into ", groups, " groups");
  }
  infer_same(context);
}

void lower_group_normalization(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const int64_t groups = int_attribute(context.node(), "num_groups");
  const int64_t channels = constant_shape({shape[1]})[0] / groups;
  Shape split = {shape[0], Dim(groups), Dim(channels)};
  split.insert(split.end(), shape.begin() + 2, shape.end());
  const Rows rows = rows_over(context, split, axes_from(2, static_cast<int64_t>(split.size())));
  const Affine channel = rows.position[1] * channels + rows.position[2];
  std::vector<Affine> input = {rows.position[0], channel};
  input.insert(input.end(), rows.position.begin() + 3, rows.position.end());
  const Moments found = moments(context, rows, input, float_attribute(context.node(), "epsilon"));
  ExprPtr value = normalized(context, rows, found, input);
  for (int i : {1, 2}) {
    const bool per_channel = context.shape(i)[0] == shape[1];
    ExprPtr factor = context.read(i, std::vector<Affine>{per_channel ? channel : rows.position[1]});
    value = binary(i == 1 ? BinaryOp::Mul : BinaryOp::Add, value, factor);
  }
  context.assign("store", rows.all, context.output(0), input, value);
}

void lower_local_response(LowerContext& context) {
  const Node& node = context.node();
  const Shape& shape = context.shape(0);
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int64_t size = int_attribute(node, "size");
  const double alpha = float_attribute(node, "alpha"), beta = float_attribute(node, "beta"),
               bias = float_attribute(node, "bias");
  auto space = context.space("i", shape);
  const int sum = context.local("sum", type, shape);
  // The window covers size - 1 channels in addition to its own, and never more than there are.
  int64_t before = (size - 1) / 2, after = size - 1 - before;
  if (shape[1].is_constant()) {
    const int64_t furthest = std::max<int64_t>(shape[1].constant() - 1, 0);
    before = std::min(before, furthest);
    after = std::min(after, furthest);
  }
  std::vector<Affine> window = space.position;
  window[1] = window[1] + Affine::variable("k") - Affine(before);
  ExprPtr x = context.read_buffer(context.input(0), window);
  const std::vector<Affine> inside = {window[1], context.dim(shape[1]) - window[1] - Affine(1)};
  context.reduce("total", {space.iterators, {{"k", Affine(before + after + 1)}}, inside}, sum, space.position,
                 Reduction::Sum, binary(BinaryOp::Mul, x, x));
  ExprPtr base = binary(BinaryOp::Mul, context.read_buffer(sum, space.position),
                        constant(type, alpha / static_cast<double>(size)));
  base = binary(BinaryOp::Add, base, constant(type, bias));
  ExprPtr divisor;
  if (beta == 0.75) {
    ExprPtr root = unary(UnaryOp::Sqrt, base);
    divisor = binary(BinaryOp::Mul, root, unary(UnaryOp::Sqrt, root));
  } else {
    divisor = binary(BinaryOp::Pow, base, constant(type, beta));
  }
  context.assign("store", space.iterators, context.output(0), space.position,
                 binary(BinaryOp::Div, context.read(0, space.position), divisor));
}

void infer_local_response(InferContext& context) {
  if (context.rank(0) < 2)
    context.error("the input has shape ", str(context.shape(0)), "; [batch, channels, …] is needed");
  infer_same(context);
}

void lower_lp_normalization(LowerContext& context) {
  const Shape& shape = context.shape(0);
  const DType type = LowerContext::compute_type(context.dtype(0));
  const bool absolute = int_attribute(context.node(), "p") == 1;
  const Rows rows =
      rows_over(context, shape, {layer_axis(context.node(), static_cast<int64_t>(shape.size()))});
  const int sum = context.local("sum", type, rows.statistics_shape);
  const int norm = context.local("norm", type, rows.statistics_shape);
  ExprPtr x = context.read(0, rows.position);
  context.reduce("total", {rows.outer, rows.inner}, sum, rows.statistics, Reduction::Sum,
                 absolute ? unary(UnaryOp::Abs, x) : binary(BinaryOp::Mul, x, x));
  ExprPtr length = context.read_buffer(sum, rows.statistics);
  if (!absolute) length = unary(UnaryOp::Sqrt, length);
  context.assign("norm", rows.outer, norm, rows.statistics, length);
  // A row of zeros stays zero.
  ExprPtr divisor = context.read_buffer(norm, rows.statistics);
  ExprPtr zero = constant(type, 0);
  context.assign("store", rows.all, context.output(0), rows.position,
                 select(binary(BinaryOp::Eq, divisor, zero), zero, binary(BinaryOp::Div, x, divisor)));
}

void lower_mean_variance(LowerContext& context) {
  const Shape& shape = context.shape(0);
  std::set<int64_t> axes;
  for (int64_t axis : ints_attribute(context.node(), "axes")) {
    axes.insert(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
  }
  const Rows rows = rows_over(context, shape, axes);
  const Moments found = moments(context, rows, rows.position, 1e-18);
  context.assign("store", rows.all, context.output(0), rows.position,
                 normalized(context, rows, found, rows.position));
}

OpRow row_program(const OnnxName& name, const std::string& doc, const InputCount& inputs,
                  std::vector<AttributeRow> attributes, std::function<void(InferContext&)> infer,
                  std::function<void(LowerContext&)> lower) {
  OpRow row;
  row.name = name.name;
  row.category = "normalization";
  row.traits.row_program = true;
  row.doc = doc;
  row.onnx = {name};
  row.minimum_inputs = inputs.minimum;
  row.maximum_inputs = inputs.maximum;
  row.attributes = std::move(attributes);
  row.types = {{kFloats}};
  row.infer = std::move(infer);
  row.lower = std::move(lower);
  return row;
}

}  // namespace

void register_normalization_ops(OpTable& table) {
  table.add(softmax_row("Softmax", false));
  table.add(softmax_row("LogSoftmax", true));
  OpRow hardmax = softmax_row("Hardmax", false);
  hardmax.doc = "1 at the first largest element along an axis, else 0.";
  hardmax.equation.clear();
  hardmax.lower = lower_hardmax;
  table.add(std::move(hardmax));

  OpRow batch =
      row_program({"BatchNormalization", 14}, "Normalisation by stored statistics per channel (inference).",
                  {5, 5}, {{"epsilon", 1e-5}, {"momentum", 0.9}, {"training_mode", int64_t{0}}},
                  infer_batch_normalization, lower_batch_normalization);
  batch.category = "elementwise";
  batch.elementwise = true;
  batch.traits = {};
  batch.traits.blocks = OpTraits::Blocks::Channelwise;
  batch.traits.channel_statistics = true;
  batch.equation = "(X[n,c,y,x] - mean[c]) * (scale[c] / sqrt(var[c] + epsilon)) + bias[c]";
  batch.types = {{kFloats, {}, false}};
  batch.onnx = {{"BatchNormalization", 1, old_batch_normalization},
                {"BatchNormalization", 14, training_form}};
  table.add(batch_normalization_training(batch));
  table.add(std::move(batch));

  OpRow layer = row_program(
      {"LayerNormalization", 17}, "Rows brought to mean 0 and variance 1, then scaled and shifted.", {2, 3},
      {{"axis", int64_t{-1}, false, "", axis_of(0)}, {"epsilon", 1e-5}, {"stash_type", int64_t{1}}},
      infer_layer_normalization, lower_layer_normalization);
  layer.outputs = 3;
  layer.onnx.push_back({"LayerNormalization", 1});
  table.add(std::move(layer));

  OpRow rms = row_program(
      {"RMSNormalization", 23}, "Rows divided by their root mean square, then scaled.", {2, 2},
      {{"axis", int64_t{-1}, false, "", axis_of(0)}, {"epsilon", 1e-5}, {"stash_type", int64_t{1}}},
      infer_layer_normalization, lower_rms_normalization);
  rms.outputs = 2;
  rms.onnx.push_back({"SimplifiedLayerNormalization", 1});
  table.add(std::move(rms));

  OpRow instance =
      row_program({"InstanceNormalization", 6},
                  "Each map brought to mean 0 and variance 1, then scaled and shifted by channel.", {3, 3},
                  {{"epsilon", 1e-5}}, infer_channels, lower_instance_normalization);
  instance.onnx.push_back({"InstanceNormalization", 1, drop_attributes({"consumed_inputs"})});
  table.add(std::move(instance));

  table.add(row_program(
      {"GroupNormalization", 18},
      "Groups of channels brought to mean 0 and variance 1, then scaled and shifted.", {3, 3},
      {{"epsilon", 1e-5}, {"num_groups", int64_t{1}, true, "", positive()}, {"stash_type", int64_t{1}}},
      infer_group_normalization, lower_group_normalization));
  OpRow response = row_program(
      {"LRN", 1}, "Local response normalisation across channels.", {1, 1},
      {{"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}, {"size", int64_t{1}, true, "", positive()}},
      infer_local_response, lower_local_response);
  response.category = "convolution";
  response.traits = {};
  response.traits.blocks = OpTraits::Blocks::Neighbours;
  response.equation =
      "S[n,c,y,x] += X[n,c+k-half,y,x]^2; O[n,c,y,x] = X[n,c,y,x] / pow(bias + alpha / size * S[n,c,y,x], beta)";
  table.add(std::move(response));
  table.add(
      row_program({"LpNormalization", 1}, "Rows divided by their 1- or 2-norm.", {1, 1},
                  {{"axis", int64_t{-1}, false, "", axis_of(0)}, {"p", int64_t{2}, false, "", from_to(1, 2)}},
                  infer_same, lower_lp_normalization));
  table.add(row_program({"MeanVarianceNormalization", 9}, "Brought to mean 0 and variance 1 over `axes`.",
                        {1, 1}, {{"axes", std::vector<int64_t>{0, 2, 3}, false, "", axis_of(0)}}, infer_same,
                        lower_mean_variance));
}

}  // namespace tc
