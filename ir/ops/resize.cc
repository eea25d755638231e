// Resampling of maps: every mode becomes affine copies or tables of source indices and weights, made
// while the model is read.
#include <algorithm>
#include <cmath>

#include "ir/ops/depends_on_data.h"
#include "ir/ops/resize_tables.h"
#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// How one axis is resampled: output element x is the sum over taps t of weight[x][t] times the input
// element index[x][t]. A negative index marks an element that takes the extrapolation value.
struct AxisTable {
  int64_t taps = 1;
  std::vector<int64_t> index;
  std::vector<double> weight;
};

struct Sampling {
  std::string mode, coordinates, nearest;
  double cubic = -0.75;
  bool exclude_outside = false, antialias = false;
};

// Position in the input of output element x; `roi` is the axis' start and end.
double source_position(const Sampling& sampling, double x, double scale, int64_t in, int64_t out,
                       std::pair<double, double> roi) {
  const double width = scale * static_cast<double>(in), size = static_cast<double>(in);
  const std::string& how = sampling.coordinates;
  if (how == "align_corners") return width <= 1 ? 0 : x * (size - 1) / (width - 1);
  if (how == "asymmetric") return x / scale;
  if (how == "tf_half_pixel_for_nn") return (x + 0.5) / scale;
  if (how == "pytorch_half_pixel") return out == 1 ? -0.5 : (x + 0.5) / scale - 0.5;
  if (how == "half_pixel_symmetric") {
    // The definition, size/2 * (1 - out/width) + (x + 0.5)/scale - 0.5, with equal terms combined, so that
    // the centres coincide and whole numbers are exact.
    return (size - 1) / 2 + (2 * x + 1 - static_cast<double>(out)) / (2 * scale);
  }
  if (how == "tf_crop_and_resize") {
    const double reach = roi.second - roi.first;
    const double at = width <= 1 ? reach * (size - 1) / 2 : x * reach * (size - 1) / (width - 1);
    return at + roi.first * (size - 1);
  }
  return (x + 0.5) / scale - 0.5;
}

double cubic_weight(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

AxisTable table_of(const Sampling& sampling, double scale, int64_t in, int64_t out,
                   std::pair<double, double> roi) {
  AxisTable table;
  const bool nearest = sampling.mode == "nearest", cubic = sampling.mode == "cubic";
  const double shrink = sampling.antialias ? std::min(scale, 1.0) : 1.0;
  const int64_t first = static_cast<int64_t>(std::floor((cubic ? -2 : -1) / shrink)) + 1;
  table.taps = nearest ? 1 : 2 - 2 * first;
  for (int64_t x = 0; x < out; ++x) {
    const double at = source_position(sampling, static_cast<double>(x), scale, in, out, roi);
    const bool outside =
        sampling.coordinates == "tf_crop_and_resize" && (at < 0 || at > static_cast<double>(in - 1));
    auto inside = [&](double index) {
      return static_cast<int64_t>(std::clamp(index, 0.0, static_cast<double>(in - 1)));
    };
    if (nearest) {
      const std::string& how = sampling.nearest;
      const double chosen = how == "floor"               ? std::floor(at)
                            : how == "ceil"              ? std::ceil(at)
                            : how == "round_prefer_ceil" ? std::floor(at + 0.5)
                                                         : std::ceil(at - 0.5);
      table.index.push_back(outside ? -1 : inside(chosen));
      table.weight.push_back(1);
      continue;
    }
    // The ratio is in (0, 1].
    const double base = std::ceil(at) - 1, ratio = at - base;
    double total = 0;
    std::vector<double> weights;
    for (int64_t t = first; t < first + table.taps; ++t) {
      const double distance = (static_cast<double>(t) - ratio) * shrink;
      double weight = cubic ? cubic_weight(distance, sampling.cubic) : std::max(0.0, 1 - std::abs(distance));
      const double index = base + static_cast<double>(t);
      if (sampling.exclude_outside && (index < 0 || index >= static_cast<double>(in))) weight = 0;
      total += weight;
      weights.push_back(weight);
      table.index.push_back(outside ? -1 : inside(index));
    }
    for (double weight : weights) table.weight.push_back(total == 0 ? 0 : weight / total);
  }
  return table;
}

// A table that is an affine map: a factor by which elements repeat, or a step and an offset.
struct AffineAxis {
  int64_t factor = 0, step = 0, offset = 0;
};

std::optional<AffineAxis> affine_axis(const AxisTable& table, int64_t in, int64_t out) {
  if (table.taps != 1 || out == 0 || in == 0) return std::nullopt;
  if (out % in == 0) {
    const int64_t factor = out / in;
    bool repeats = true;
    for (int64_t x = 0; x < out; ++x) repeats = repeats && table.index[x] == x / factor;
    if (repeats) return AffineAxis{factor, 0, 0};
  }
  const int64_t offset = table.index[0], step = out > 1 ? table.index[1] - offset : 1;
  for (int64_t x = 0; x < out; ++x) {
    if (table.index[x] != offset + x * step) return std::nullopt;
  }
  if (step < 1) return std::nullopt;
  return AffineAxis{0, step, offset};
}

// The scales and sizes that the node's inputs or attributes give for all axes.
struct ResizedShape {
  std::vector<double> scales;
  Shape sizes;
};

std::vector<double> floats_of_input(const Graph& graph, const Node& node, int input) {
  const Value& value = graph[node.inputs[input]];
  if (!value.constant || value.constant->count() > 16) {
    throw DependsOnData(node, graph, node.inputs[input], "input");
  }
  std::vector<double> result;
  for (int64_t i = 0; i < value.constant->count(); ++i) result.push_back(value.constant->as_double(i));
  return result;
}

Dim scaled_size(const Node& node, const Dim& in, double scale) {
  if (!(scale > 0) || scale > 1e6)
    fail(ErrorKind::Shape, node.origin.str(), ": scale ", scale, " is outside of (0, 1e6]");
  if (in.is_constant())
    return static_cast<int64_t>(std::floor(static_cast<double>(in.constant()) * scale + 1e-9));
  if (scale == std::floor(scale)) return in * Dim(static_cast<int64_t>(scale));
  const double inverse = std::round(1 / scale);
  if (std::abs(inverse * scale - 1) < 1e-6) return floor_div(in, Dim(static_cast<int64_t>(inverse)));
  for (int64_t below = 2; below <= 1000; ++below) {
    const double above = scale * static_cast<double>(below);
    if (std::abs(above - std::round(above)) < 1e-6)
      return floor_div(in * Dim(static_cast<int64_t>(std::round(above))), Dim(below));
  }
  throw NeedsNumbers(node, text("scale ", scale, " of an axis of size '", in.str(), "' needs a fixed size"),
                     {in});
}

// Stands for the scale of sizes whose quotient is known only at run time.
constexpr double kComputedScale = 0;

double known_scale(const Node& node, const Dim& in, const Dim& out) {
  if (in == out) return 1;
  if (in.is_constant() && out.is_constant() && in.constant() > 0) {
    return static_cast<double>(out.constant()) / static_cast<double>(in.constant());
  }
  if (in == Dim(0))
    fail(ErrorKind::Shape, node.origin.str(), ": an axis of size 0 cannot become ", out.str());
  for (int64_t factor = 2; factor <= 16; ++factor) {
    if (in * Dim(factor) == out) return static_cast<double>(factor);
  }
  return kComputedScale;
}

// Applies sizes for some axes under the aspect policy.
void take_sizes(const Node& node, const Shape& in, const std::vector<int64_t>& axes,
                const std::vector<Dim>& sizes, ResizedShape& target) {
  if (sizes.size() != axes.size())
    fail(ErrorKind::Shape, node.origin.str(), ": ", sizes.size(), " sizes are given for ", axes.size(),
         " axes");
  const std::string policy =
      choice_attribute(node, "keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"});
  std::optional<double> common;
  for (size_t i = 0; i < axes.size(); ++i) {
    const double scale = known_scale(node, in[axes[i]], sizes[i]);
    if (scale == kComputedScale && policy != "stretch") {
      throw NeedsNumbers(
          node,
          text("an axis of size '", in[axes[i]].str(), "' becomes '", sizes[i].str(), "' under ", policy),
          {in[axes[i]], sizes[i]});
    }
    target.scales[axes[i]] = scale;
    target.sizes[axes[i]] = sizes[i];
    if (!common) common = scale;
    common = policy == "not_larger" ? std::min(*common, scale) : std::max(*common, scale);
  }
  if (policy == "stretch") return;
  for (int64_t axis : axes) {
    target.scales[axis] = *common;
    if (!in[axis].is_constant())
      fail(ErrorKind::Unsupported, node.origin.str(), ": keeping the aspect ratio needs fixed sizes");
    target.sizes[axis] =
        static_cast<int64_t>(std::floor(static_cast<double>(in[axis].constant()) * *common + 0.5));
  }
}

// Which inputs hold what (-1: none), and whether the rules of opset 10 and earlier apply.
struct ResizeForm {
  int roi = -1, scales = -1, sizes = -1;
  bool old_rules = false;
};

bool given(const Graph& graph, const Node& node, int input) {
  if (input < 0 || !input_given(node, input)) return false;
  const Value& value = graph[node.inputs[input]];
  return !(value.shape && value.shape->size() == 1 && (*value.shape)[0] == Dim(0));
}

// The axes that are resampled, from 0.
std::vector<int64_t> resized_axes(const Node& node, int64_t rank) {
  std::vector<int64_t> axes =
      has_attribute(node, "axes") ? ints_attribute(node, "axes") : std::vector<int64_t>();
  if (axes.empty()) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  for (int64_t& axis : axes) {
    if (axis < -rank || axis >= rank)
      fail(ErrorKind::Shape, node.origin.str(), ": axis ", axis, " is outside of a tensor of rank ", rank);
    if (axis < 0) axis += rank;
  }
  return axes;
}

ResizedShape target_of(const Graph& graph, const Node& node, const ResizeForm& form,
                       const std::vector<int64_t>& axes) {
  const Shape in = graph[node.inputs.at(0)].shape.value();
  ResizedShape target{std::vector<double>(in.size(), 1.0), in};
  if (given(graph, node, form.sizes)) {
    auto sizes = known_elements(graph[node.inputs[form.sizes]]);
    if (!sizes) throw DependsOnData(node, graph, node.inputs[form.sizes], "sizes").sizes();
    take_sizes(node, in, axes, *sizes, target);
    return target;
  }
  std::vector<double> scales;
  if (given(graph, node, form.scales)) scales = floats_of_input(graph, node, form.scales);
  else if (has_attribute(node, "scales")) scales = floats_attribute(node, "scales");
  if (scales.size() != axes.size())
    fail(ErrorKind::Shape, node.origin.str(), ": ", scales.size(), " scales are given for ", axes.size(),
         " axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    target.scales[axes[i]] = scales[i];
    target.sizes[axes[i]] = scaled_size(node, in[axes[i]], scales[i]);
  }
  return target;
}

Sampling sampling_of(const Node& node, bool old_rules) {
  Sampling sampling;
  sampling.mode = string_attribute(node, "mode");
  if (sampling.mode == "bilinear" || sampling.mode == "trilinear") sampling.mode = "linear";
  if (sampling.mode != "nearest" && sampling.mode != "linear" && sampling.mode != "cubic") {
    fail(ErrorKind::Unsupported, node.origin.str(), ": mode '", sampling.mode, "' is not supported");
  }
  sampling.coordinates =
      old_rules
          ? "asymmetric"
          : choice_attribute(node, "coordinate_transformation_mode",
                             {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                              "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  sampling.nearest = old_rules
                         ? "floor"
                         : choice_attribute(node, "nearest_mode",
                                            {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  if (has_attribute(node, "cubic_coeff_a")) sampling.cubic = float_attribute(node, "cubic_coeff_a");
  if (has_attribute(node, "exclude_outside"))
    sampling.exclude_outside = int_attribute(node, "exclude_outside") != 0;
  if (has_attribute(node, "antialias")) sampling.antialias = int_attribute(node, "antialias") != 0;
  return sampling;
}

// The ranges of the axes that tf_crop_and_resize reads: starts, then ends; empty in other modes.
std::vector<double> crop_of(const Graph& graph, const Node& node, const Sampling& sampling, int input,
                            size_t axes) {
  if (sampling.coordinates != "tf_crop_and_resize") return {};
  if (!given(graph, node, input))
    fail(ErrorKind::Shape, node.origin.str(), ": tf_crop_and_resize needs the input roi");
  std::vector<double> roi = floats_of_input(graph, node, input);
  if (roi.size() != 2 * axes) {
    fail(ErrorKind::Shape, node.origin.str(), ": roi has ", roi.size(), " numbers for ", axes,
         " axes; two per axis are needed");
  }
  return roi;
}

// The table of an axis; the table of a symbolic axis follows the pattern of a fixed one.
struct AxisForm {
  AxisTable table;
  std::optional<AffineAxis> affine;
  int64_t size = 0;
};

AxisForm form_of_axis(const Node& node, const Dim& in, const ResizedShape& target, int64_t axis,
                      const Sampling& sampling, std::pair<double, double> window) {
  constexpr int64_t kPattern = 48;
  const double scale = target.scales[axis];
  const bool symbolic = !in.is_constant();
  const int64_t extent = symbolic ? kPattern : in.constant();
  const int64_t size =
      symbolic ? static_cast<int64_t>(std::floor(kPattern * scale + 1e-9)) : target.sizes[axis].constant();
  // The most entries of its table, which has one for each position and tap.
  constexpr double kMaxEntries = 1 << 22;
  const double shrink = sampling.antialias ? std::min(scale, 1.0) : 1.0;
  if ((extent < 1 && size > 0) || size < 0 ||
      static_cast<double>(size) * (1 + 4 / shrink) > kMaxEntries * 5) {
    fail(ErrorKind::Shape, node.origin.str(), ": axis ", axis, " of size ", extent, " cannot become ", size);
  }
  AxisForm form{table_of(sampling, scale, extent, size, window), std::nullopt, size};
  form.affine = affine_axis(form.table, extent, size);
  return form;
}

// Adds the tables that nodes compute as inputs of the node.
void add_computed(Graph& graph, Node& node, const ResizedShape& target, int64_t axis,
                  const Sampling& sampling, std::vector<ValueId>& inputs) {
  const Dim in = (*graph[node.inputs.at(0)].shape)[axis];
  if (sampling.antialias || sampling.coordinates == "tf_crop_and_resize") {
    throw NeedsNumbers(
        node,
        text("resampling axis ", axis, " of size '", in.str(), "' to '", target.sizes[axis].str(),
             "' with antialias or tf_crop_and_resize needs fixed sizes"),
        {in, target.sizes[axis]});
  }
  NodeBuilder build(graph, node);
  const double scale = target.scales[axis];
  const ResizeTables tables = computed_tables(
      build,
      {in, target.sizes[axis], scale == kComputedScale ? std::nullopt : std::optional(scale), sampling.mode,
       sampling.coordinates, sampling.nearest, sampling.cubic, sampling.exclude_outside});
  for (Node& made : build.take()) graph.nodes.push_back(std::move(made));
  inputs.push_back(tables.index);
  inputs.push_back(tables.weight);
}

void normalize_resize(Graph& graph, Node& node, const ResizeForm& form) {
  const Shape in = graph[node.inputs.at(0)].shape.value();
  const int64_t rank = static_cast<int64_t>(in.size());
  const std::vector<int64_t> axes = resized_axes(node, rank);
  const ResizedShape target = target_of(graph, node, form, axes);
  const Sampling sampling = sampling_of(node, form.old_rules);
  const std::vector<double> roi = crop_of(graph, node, sampling, form.roi, axes.size());
  const double outside =
      has_attribute(node, "extrapolation_value") ? float_attribute(node, "extrapolation_value") : 0.0;

  std::vector<int64_t> factors(in.size(), 1), steps(in.size(), 1), offsets(in.size(), 0);
  std::vector<ValueId> inputs = {node.inputs[0]};
  for (int64_t axis = 0; axis < rank; ++axis) {
    const auto place = std::find(axes.begin(), axes.end(), axis) - axes.begin();
    const bool cropped = !roi.empty() && place < static_cast<int64_t>(axes.size());
    if (in[axis] == target.sizes[axis] && target.scales[axis] == 1 && !cropped) continue;
    std::pair<double, double> window = {0, 1};
    if (cropped) window = {roi.at(place), roi.at(axes.size() + place)};
    const bool symbolic = !in[axis].is_constant() || !target.sizes[axis].is_constant();
    const AxisForm sampled = target.scales[axis] == kComputedScale
                                 ? AxisForm()
                                 : form_of_axis(node, in[axis], target, axis, sampling, window);
    if (symbolic && !sampled.affine) {
      factors[axis] = steps[axis] = 0;
      add_computed(graph, node, target, axis, sampling, inputs);
      continue;
    }
    if (sampled.affine) {
      factors[axis] = sampled.affine->factor;
      steps[axis] = sampled.affine->step;
      offsets[axis] = sampled.affine->offset;
      continue;
    }
    factors[axis] = steps[axis] = 0;
    const std::vector<int64_t> shape = {sampled.size, sampled.table.taps};
    inputs.push_back(graph.add_constant("resize_index", int_tensor(shape, sampled.table.index)));
    inputs.push_back(
        graph.add_constant("resize_weight", number_tensor(DType::F32, shape, sampled.table.weight)));
  }
  node.inputs = inputs;
  node.attributes = {{"sizes", std::vector<Dim>(target.sizes)},
                     {"factors", factors},
                     {"steps", steps},
                     {"offsets", offsets},
                     {"outside", outside}};
}

// Inference of the normalised form, where each attribute has one entry per axis, and two inputs are tables
// for each axis without an affine map.
void infer_resize(InferContext& context) {
  const Node& node = context.node();
  const Shape sizes = dims_attribute(node, "sizes");
  const size_t rank = context.shape(0).size();
  if (sizes.size() != rank)
    context.error(sizes.size(), " sizes for a tensor of shape ", str(context.shape(0)));
  const auto factors = ints_attribute(node, "factors"), steps = ints_attribute(node, "steps"),
             offsets = ints_attribute(node, "offsets");
  if (factors.size() != rank || steps.size() != rank || offsets.size() != rank)
    context.error("factors, steps and offsets are not one per axis");
  int next = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (factors[axis] != 0 || steps[axis] != 0) continue;
    for (int last = next + 2; next < last; ++next) {
      const bool table =
          context.has_input(next) && context.rank(next) == 2 && context.shape(next)[1].is_constant();
      if (!table || context.shape(next)[0] != sizes[axis])
        context.error("input ", next, " is no table of axis ", axis);
      if (context.input(next).constant) continue;
      context.require_at_most(min(sizes[axis], Dim(1)), context.shape(0)[axis],
                              text("an empty axis of shape ", str(context.shape(0)), " cannot be resampled"));
    }
  }
  context.set_output(0, context.dtype(0), sizes);
}

// The axes that are resampled by tables, while loops are built.
struct Taps {
  size_t axis;
  int index, weight;  // inputs of the node
  int64_t count;
};
struct ResizeLoops {
  std::vector<Iterator> outer;
  std::vector<Affine> position;   // of the result
  std::vector<Subscript> source;  // of the operand, except along axes with tables
  std::vector<Taps> tables;

  static Affine iterate(LowerContext& context, std::vector<Iterator>& list, const std::string& name,
                        const Dim& extent) {
    if (extent == Dim(1)) return Affine(0);
    list.push_back({name, context.dim(extent)});
    return Affine::variable(name);
  }
};

ResizeLoops resize_loops(LowerContext& context) {
  const Node& node = context.node();
  const Shape& in = context.shape(0);
  const Shape& out = *context.output_value(0).shape;
  const auto factors = ints_attribute(node, "factors"), steps = ints_attribute(node, "steps"),
             offsets = ints_attribute(node, "offsets");
  ResizeLoops loops;
  int next = 1;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (factors[axis] > 1) {
      const Affine i = ResizeLoops::iterate(context, loops.outer, text("i", axis), in[axis]);
      const Affine r = ResizeLoops::iterate(context, loops.outer, text("r", axis), Dim(factors[axis]));
      loops.position.push_back(i * factors[axis] + r);
      loops.source.push_back({i, nullptr});
      continue;
    }
    const Affine i = ResizeLoops::iterate(context, loops.outer, text("i", axis), out[axis]);
    loops.position.push_back(i);
    loops.source.push_back({i * (factors[axis] == 1 ? 1 : steps[axis]) + Affine(offsets[axis]), nullptr});
    if (factors[axis] == 0 && steps[axis] == 0) {
      loops.tables.push_back({axis, next, next + 1, context.shape(next)[1].constant()});
      next += 2;
    }
  }
  return loops;
}

// The weighted element of one combination of taps; `outside`, if not null, becomes the condition that some
// index is outside of the operand.
ExprPtr sampled_element(LowerContext& context, const ResizeLoops& loops, const std::vector<Affine>& taps,
                        ExprPtr* outside) {
  const DType type = LowerContext::compute_type(context.dtype(0));
  std::vector<Subscript> index = loops.source;
  ExprPtr weight;
  for (size_t t = 0; t < loops.tables.size(); ++t) {
    const Taps& table = loops.tables[t];
    const std::vector<Affine> entry = {loops.position[table.axis], taps[t]};
    ExprPtr at = context.read_buffer(context.input(table.index), entry);
    const TensorPtr& indices = context.input_value(table.index).constant;
    bool marked = false;
    for (int64_t i = 0; indices && i < indices->count(); ++i) marked = marked || indices->as_int(i) < 0;
    if (marked) {
      ExprPtr here = binary(BinaryOp::Lt, at, int_constant(DType::I64, 0));
      if (outside) *outside = *outside ? binary(BinaryOp::Or, *outside, here) : here;
      at = binary(BinaryOp::Max, at, int_constant(DType::I64, 0));
    }
    index[table.axis] = {Affine(0), at};
    if (table.count == 1) continue;
    ExprPtr w = context.read_buffer(context.input(table.weight), entry);
    if (w->dtype != type) w = cast(type, w);
    weight = weight ? binary(BinaryOp::Mul, weight, w) : w;
  }
  ExprPtr value = context.read(0, index);
  return weight ? binary(BinaryOp::Mul, weight, value) : value;
}

void lower_resize(LowerContext& context) {
  constexpr int64_t kMaxInLine = 4;  // the most combinations of taps that are unrolled
  const ResizeLoops loops = resize_loops(context);
  if (loops.tables.empty()) {
    context.assign("copy", loops.outer, context.output(0), loops.position, context.read(0, loops.source));
    return;
  }
  int64_t combinations = 1;
  for (const Taps& table : loops.tables) combinations *= table.count;
  ExprPtr outside, result;
  if (combinations <= kMaxInLine) {
    for (int64_t combination = 0; combination < combinations; ++combination) {
      std::vector<Affine> taps;
      int64_t rest = combination;
      for (const Taps& table : loops.tables) {
        taps.push_back(rest % table.count);
        rest /= table.count;
      }
      ExprPtr value = sampled_element(context, loops, taps, combination == 0 ? &outside : nullptr);
      result = result ? binary(BinaryOp::Add, result, value) : value;
    }
  } else {
    std::vector<Iterator> inner;
    std::vector<Affine> taps;
    for (const Taps& table : loops.tables) {
      taps.push_back(ResizeLoops::iterate(context, inner, text("t", table.axis), Dim(table.count)));
    }
    const int sum =
        context.local("sum", LowerContext::compute_type(context.dtype(0)), *context.output_value(0).shape);
    context.reduce("sample", {loops.outer, inner}, sum, loops.position, Reduction::Sum,
                   sampled_element(context, loops, taps, nullptr));
    result = context.read_buffer(sum, loops.position);
    sampled_element(context, loops, std::vector<Affine>(loops.tables.size(), Affine(0)), &outside);
  }
  if (outside)
    result = select(outside, constant(result->dtype, float_attribute(context.node(), "outside")), result);
  context.assign("store", loops.outer, context.output(0), loops.position, result);
}

}  // namespace

void register_resize_ops(OpTable& table) {
  OpRow row;
  row.name = "Resize";
  row.category = "resampling";
  row.traits.blocks = OpTraits::Blocks::Channelwise;
  row.doc = "Resampling to given sizes: nearest, linear or cubic, in all coordinate modes.";
  row.equation = "O[n,c,y,x] += W[y,t] * V[x,u] * I[n,c,Y[y,t],X[x,u]]";
  auto rules = [](int roi, int scales, int sizes, bool old_rules) -> Normalize {
    const ResizeForm form{roi, scales, sizes, old_rules};
    return [form](Graph& graph, Node& node) { normalize_resize(graph, node, form); };
  };
  row.onnx = {{"Upsample", 7, rules(-1, -1, -1, true)},
              {"Upsample", 9, rules(-1, 1, -1, true)},
              {"Resize", 10, rules(-1, 1, -1, true)},
              {"Resize", 11, rules(1, 2, 3, false)}};
  row.maximum_inputs = -1;
  row.attributes = {{"sizes", std::vector<int64_t>()},
                    {"factors", std::vector<int64_t>()},
                    {"steps", std::vector<int64_t>()},
                    {"offsets", std::vector<int64_t>()},
                    {"outside", 0.0},
                    // Only in the file format:
                    {"mode", std::string("nearest")},
                    {"scales", std::vector<double>()},
                    {"coordinate_transformation_mode", std::string("half_pixel")},
                    {"nearest_mode", std::string("round_prefer_floor")},
                    {"cubic_coeff_a", -0.75},
                    {"exclude_outside", int64_t{0}},
                    {"extrapolation_value", 0.0},
                    {"antialias", int64_t{0}},
                    {"axes", std::vector<int64_t>()},
                    {"keep_aspect_ratio_policy", std::string("stretch")}};
  row.infer = infer_resize;
  row.lower = lower_resize;
  table.add(std::move(row));
}

}  // namespace tc
