// Maps sampled at positions that are data: grids of coordinates, and deformable convolutions.
#include <algorithm>

#include "ir/ops/sizes.h"
#include "ir/ops/taps.h"

namespace tc {
namespace {

// --- GridSample ------------------------------------------------------------------------------------

void infer_grid_sample(InferContext& context) {
  const Node& node = context.node();
  const std::string mode = choice_attribute(node, "mode", {"linear", "nearest", "cubic"});
  choice_attribute(node, "padding_mode", {"zeros", "border", "reflection"});
  const Shape& map = context.shape(0);
  const Shape& grid = context.shape(1);
  const int64_t axes = static_cast<int64_t>(map.size()) - 2;
  const std::string unfit =
      text("X and grid have shapes ", str(map), " and ", str(grid),
           "; [N, C, 1 to 3 spatial axes] and [N, as many axes, their number] are needed");
  if (axes < 1 || axes > 3 || grid.size() != map.size()) context.error(unfit);
  need_equal(context, grid.back(), Dim(axes), unfit);
  need_equal(context, grid[0], map[0], unfit);
  if (!is_float(context.dtype(1)))
    context.error("grid has type ", name_of(context.dtype(1)), "; a float type is needed");
  if (mode != "nearest" && !is_float(context.dtype(0))) {
    context.error("X has type ", name_of(context.dtype(0)), "; mode ", mode, " needs a float type");
  }
  for (int64_t i = 0; i < axes; ++i) {
    if (map[2 + i] == Dim(0)) context.error("X has shape ", str(map), "; there is nothing to sample");
  }
  Shape shape = {map[0], map[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  context.set_output(0, context.dtype(0), shape);
}

// The limits between which positions are inside: the outer pixels' centres, or their outer edges.
struct Borders {
  ExprPtr low, high;
};

Borders borders_of(LowerContext& context, const Dim& size, bool centres, DType type) {
  const ExprPtr extent = float_extent(context, size, type);
  return {constant(type, centres ? 0 : -0.5),
          binary(BinaryOp::Sub, extent, constant(type, centres ? 1 : 0.5))};
}

// The position, mirrored at the ends until it is between them.
ExprPtr reflected(const ExprPtr& x, const Borders& borders) {
  const DType type = x->dtype;
  const ExprPtr zero = constant(type, 0), range = binary(BinaryOp::Sub, borders.high, borders.low);
  // The distance from the low end, without its sign, is mapped to a triangle wave with a period of twice the
  // range.
  const ExprPtr distance = unary(UnaryOp::Abs, binary(BinaryOp::Sub, x, borders.low));
  const ExprPtr turns = unary(UnaryOp::Floor, binary(BinaryOp::Div, distance, range));
  const ExprPtr rest = binary(BinaryOp::Sub, distance, binary(BinaryOp::Mul, turns, range));
  const ExprPtr half = binary(BinaryOp::Mul, turns, constant(type, 0.5));
  const ExprPtr even = binary(BinaryOp::Eq, unary(UnaryOp::Floor, half), half);
  const ExprPtr mirrored =
      select(even, binary(BinaryOp::Add, borders.low, rest), binary(BinaryOp::Sub, borders.high, rest));
  return select(binary(BinaryOp::Gt, range, zero), mirrored, borders.low);
}

ExprPtr padded(const ExprPtr& x, const Borders& borders, const std::string& padding, const ExprPtr& last) {
  const DType type = x->dtype;
  if (padding == "zeros") return x;
  const ExprPtr outside =
      binary(BinaryOp::Or, binary(BinaryOp::Lt, x, borders.low), binary(BinaryOp::Gt, x, borders.high));
  const ExprPtr clamped = binary(BinaryOp::Min, binary(BinaryOp::Max, x, constant(type, 0)), last);
  return select(outside, padding == "border" ? clamped : reflected(x, borders), x);
}

// Keys' cubic convolution with a = -0.75: the weight of the tap at distance `part` + 1 - tap.
ExprPtr cubic_weight(const ExprPtr& part, int64_t tap) {
  const DType type = part->dtype;
  constexpr double a = -0.75;
  auto number = [&](double value) { return constant(type, value); };
  auto times = [](const ExprPtr& x, const ExprPtr& y) { return binary(BinaryOp::Mul, x, y); };
  auto plus = [](const ExprPtr& x, const ExprPtr& y) { return binary(BinaryOp::Add, x, y); };
  const bool near = tap == 1 || tap == 2;
  const ExprPtr x = tap == 0   ? plus(part, number(1))
                    : tap == 1 ? part
                    : tap == 2 ? binary(BinaryOp::Sub, number(1), part)
                               : binary(BinaryOp::Sub, number(2), part);
  if (near) return plus(times(times(plus(times(number(a + 2), x), number(-(a + 3))), x), x), number(1));
  return plus(times(plus(times(plus(times(number(a), x), number(-5 * a)), x), number(8 * a)), x),
              number(-4 * a));
}

// Tables of one axis of the map for all points of the grid.
class GridAxis {
 public:
  GridAxis(LowerContext& context, const TableSpace& space, size_t axis) : context_(context), space_(space) {
    const Node& node = context.node();
    mode_ = string_attribute(node, "mode");
    padding_ = string_attribute(node, "padding_mode");
    centres_ = int_attribute(node, "align_corners") != 0;
    size_ = context.shape(0)[2 + axis];
    // Coordinates come in the order x, y, z: the last axis first.
    component_ = static_cast<int64_t>(context.shape(0).size()) - 3 - static_cast<int64_t>(axis);
    type_ = LowerContext::compute_type(context.dtype(1));
    borders_ = borders_of(context, size_, centres_, type_);
  }

  SampledAxis tables() {
    const int place = context_.local("place", type_, space_.shape);
    context_.assign("place", space_.iterators, place, space_.position, position());
    const bool zeros = padding_ == "zeros";
    if (mode_ == "linear") return linear_axis(context_, space_, place, size_, zeros);
    const ExprPtr x = context_.read_buffer(place, space_.position);
    SampledAxis axis = make_axis(context_, space_, mode_ == "cubic" ? 4 : 1, type_, zeros);
    axis.position = space_.position;
    const ExprPtr below = unary(UnaryOp::Floor, x);
    for (int64_t tap = 0; tap < axis.taps; ++tap) {
      store_index(context_, space_, axis, tap, tap_index(x, below, tap), size_);
      if (axis.weight >= 0)
        store_weight(context_, space_, axis, tap, cubic_weight(binary(BinaryOp::Sub, x, below), tap));
    }
    return axis;
  }

 private:
  // A coordinate in [-1, 1] converted to elements and brought inside the map according to the padding.
  ExprPtr position() const {
    std::vector<Affine> where = space_.position;
    where.push_back(Affine(component_));
    const ExprPtr one = constant(type_, 1), half = constant(type_, 0.5);
    const ExprPtr from_start = binary(BinaryOp::Add, context_.read(1, where), one);
    const ExprPtr extent = float_extent(context_, size_, type_), last = binary(BinaryOp::Sub, extent, one);
    ExprPtr x = binary(BinaryOp::Mul, binary(BinaryOp::Mul, from_start, half), last);
    if (!centres_)
      x = binary(BinaryOp::Mul, binary(BinaryOp::Sub, binary(BinaryOp::Mul, from_start, extent), one), half);
    if (mode_ == "nearest") x = unary(UnaryOp::Round, x);
    // With cubic interpolation each tap is brought inside separately.
    return mode_ == "cubic" && padding_ == "border" ? x : padded(x, borders_, padding_, last);
  }

  ExprPtr tap_index(const ExprPtr& x, const ExprPtr& below, int64_t tap) const {
    ExprPtr at =
        mode_ == "cubic" ? binary(BinaryOp::Add, below, constant(type_, static_cast<double>(tap - 1))) : x;
    if (padding_ == "reflection" && mode_ == "cubic") {
      const ExprPtr outside = binary(BinaryOp::Or, binary(BinaryOp::Lt, at, borders_.low),
                                     binary(BinaryOp::Gt, at, borders_.high));
      at = select(outside, reflected(at, borders_), at);
    }
    const ExprPtr whole = cast(DType::I64, at);
    // A NaN is outside of the map, but as an integer it would be 0.
    return padding_ == "zeros" ? select(unary(UnaryOp::IsNan, x), int_constant(DType::I64, -1), whole)
                               : whole;
  }

  LowerContext& context_;
  const TableSpace& space_;
  std::string mode_, padding_;
  bool centres_ = false;
  Dim size_;
  int64_t component_ = 0;
  DType type_ = DType::F32;
  Borders borders_;
};

void lower_grid_sample(LowerContext& context) {
  const Shape& out = *context.output_value(0).shape;
  auto outer = context.space("i", out);
  TableSpace points;
  for (size_t i = 0; i < out.size(); ++i) {
    if (i == 1) continue;
    points.shape.push_back(out[i]);
    points.position.push_back(outer.position[i]);
    for (const Iterator& iterator : outer.iterators) {
      if (iterator.name == outer.position[i].as_variable()) points.iterators.push_back(iterator);
    }
  }
  std::vector<SampledAxis> axes;
  for (size_t axis = 0; axis + 2 < out.size(); ++axis)
    axes.push_back(GridAxis(context, points, axis).tables());
  SampleLoops loops{
      outer.iterators, outer.position, {{outer.position[0], nullptr}, {outer.position[1], nullptr}}, out};
  lower_samples(context, loops, axes, context.output(0));
}

// Opset 16 has the names of modes for two-dimensional maps.
void old_modes(Graph&, Node& node) {
  auto mode = node.attributes.find("mode");
  if (mode == node.attributes.end() || !std::holds_alternative<std::string>(mode->second)) return;
  std::string& name = std::get<std::string>(mode->second);
  if (name == "bilinear") name = "linear";
  if (name == "bicubic") name = "cubic";
}

// --- AffineGrid ------------------------------------------------------------------------------------

void infer_affine_grid(InferContext& context) {
  require_float(context);
  const Shape size = dims_attribute(context.node(), "size");
  const int64_t axes = static_cast<int64_t>(size.size()) - 2;
  if (axes != 2 && axes != 3)
    context.error("size has ", size.size(), " numbers; [N, C, H, W] or [N, C, D, H, W] is needed");
  const Shape expected = {size[0], Dim(axes), Dim(axes + 1)};
  need_shape(context, 0, expected, "theta");
  Shape shape = {size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(Dim(axes));
  context.set_output(0, context.dtype(0), shape);
}

// theta[n,k,·] times the vector of each element's position in [-1, 1], x first, with 1 appended.
void lower_affine_grid(LowerContext& context) {
  const Shape& out = *context.output_value(0).shape;
  const DType type = LowerContext::compute_type(context.dtype(0));
  const bool centres = int_attribute(context.node(), "align_corners") != 0;
  const size_t axes = out.size() - 2;
  auto space = context.space("i", out);
  auto theta = [&](int64_t column) {
    return context.read(0, std::vector<Affine>{space.position[0], space.position.back(), Affine(column)});
  };
  ExprPtr sum = theta(static_cast<int64_t>(axes));
  for (size_t axis = 0; axis < axes; ++axis) {
    const ExprPtr extent = float_extent(context, out[1 + axis], type),
                  i = cast(type, index_value(space.position[1 + axis]));
    const ExprPtr one = constant(type, 1), two = constant(type, 2);
    ExprPtr at;
    if (centres) {
      // The only element of an axis of size 1 is at its start.
      const ExprPtr steps = binary(BinaryOp::Max, binary(BinaryOp::Sub, extent, one), one);
      at = binary(BinaryOp::Div, binary(BinaryOp::Mul, i, two), steps);
    } else {
      at = binary(BinaryOp::Div, binary(BinaryOp::Add, binary(BinaryOp::Mul, i, two), one), extent);
    }
    const ExprPtr column = theta(static_cast<int64_t>(axes - 1 - axis));
    sum = binary(BinaryOp::Add, sum, binary(BinaryOp::Mul, column, binary(BinaryOp::Sub, at, one)));
  }
  context.assign("e", space.iterators, context.output(0), space.position, sum);
}

// --- DeformConv ------------------------------------------------------------------------------------

// The sizes of a deformable convolution, from shapes and attributes. Inputs: X, W, offset, B, mask; the row
// for its columns has X, offset, mask.
struct Deformed {
  Window window;
  int64_t groups = 1, offset_groups = 1, taps = 1;
};

Deformed deformed(const Node& node, const Shape& map, const std::vector<int64_t>& kernel) {
  Deformed result;
  if (map.size() < 3 || map.size() > 5 || kernel.size() + 2 != map.size()) {
    fail(ErrorKind::Shape, node.origin.str(), ": X has shape ", str(map), " and the kernel ", kernel.size(),
         " axes; [N, C, 1 to 3 spatial axes] and as many are needed");
  }
  result.window = window_of(node, {map.begin() + 2, map.end()}, kernel, false);
  result.groups = int_attribute(node, "group");
  result.offset_groups = int_attribute(node, "offset_group");
  for (int64_t size : kernel) {
    if (size > (int64_t{1} << 20) / result.taps)
      fail(ErrorKind::Shape, node.origin.str(), ": the kernel has more than 2^20 elements");
    result.taps *= size;
  }
  if (!map[1].is_constant()) {
    throw NeedsNumbers(node, text("X has '", map[1].str(), "' channels, which depends on symbols"), {map[1]});
  }
  const int64_t channels = map[1].constant();
  for (int64_t groups : {result.groups, result.offset_groups}) {
    if (groups < 1 || channels % groups != 0) {
      fail(ErrorKind::Shape, node.origin.str(), ": ", channels, " channels do not divide into ", groups,
           " groups");
    }
  }
  return result;
}

// The shape of the offsets or of the mask, with the given count of numbers per tap.
Shape per_tap(const Deformed& form, const Dim& batch, int64_t numbers) {
  const __int128 channels = static_cast<__int128>(form.offset_groups) * form.taps * numbers;
  Shape shape = {batch, Dim(static_cast<int64_t>(std::min<__int128>(channels, int64_t{1} << 60)))};
  shape.insert(shape.end(), form.window.output.begin(), form.window.output.end());
  return shape;
}

void infer_deform_conv(InferContext& context) {
  const Node& node = context.node();
  require_one_type(context, [](DType type) { return is_float(type); }, "a float type");
  const Shape& map = context.shape(0);
  const Shape& weights = context.shape(1);
  if (!is_constant(weights) || weights.size() != map.size()) {
    context.error("X and W have shapes ", str(map), " and ", str(weights),
                  "; equal ranks and a fixed kernel are needed", how_to_bind(context.graph(), weights));
  }
  need_equal(context, map[1], weights[1] * Dim(int_attribute(node, "group")),
             text("X and W have shapes ", str(map), " and ", str(weights), ", which do not fit ",
                  int_attribute(node, "group"), " groups"));
  std::vector<int64_t> kernel = constant_shape({weights.begin() + 2, weights.end()});
  const std::vector<int64_t> told = ints_attribute(node, "kernel_shape");
  if (!told.empty() && told != kernel) context.error("kernel_shape does not fit W of shape ", str(weights));
  const Deformed form = deformed(node, map, kernel);
  if (weights[0].constant() % form.groups != 0) {
    context.error("X and W have shapes ", str(map), " and ", str(weights), ", which do not fit ", form.groups,
                  " groups");
  }
  const Shape offsets = per_tap(form, map[0], static_cast<int64_t>(kernel.size())),
              mask = per_tap(form, map[0], 1);
  need_shape(context, 2, offsets, "offset");
  need_shape(context, 3, {weights[0]}, "B");
  need_shape(context, 4, mask, "mask");
  Shape shape = {map[0], weights[0]};
  shape.insert(shape.end(), form.window.output.begin(), form.window.output.end());
  context.set_output(0, context.dtype(0), shape);
}

// The product of the weights and the columns, i.e. the sampled elements of all taps.
std::vector<Node> expand_deform_conv(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Shape weights = build.shape(node.inputs[1]), out = *graph[node.outputs[0]].shape;
  const int64_t groups = int_attribute(node, "group"), features = weights[0].constant() / groups;
  std::map<std::string, Attribute> attributes = node.attributes;
  attributes["kernel_shape"] = constant_shape({weights.begin() + 2, weights.end()});
  std::vector<ValueId> inputs = {node.inputs[0], node.inputs[2]};
  if (input_given(node, 4)) inputs.push_back(node.inputs[4]);
  const ValueId columns = build.add("DeformColumns", inputs, attributes);
  const Dim depth = element_count({weights.begin() + 1, weights.end()}),
            points = element_count({out.begin() + 2, out.end()});
  auto shaped = [](std::vector<Dim> shape) {
    return std::map<std::string, Attribute>{{"shape", std::move(shape)}, {"allowzero", int64_t{1}}};
  };
  const ValueId matrix = build.add("Reshape", {columns}, shaped({out[0], Dim(groups), depth, points}));
  const ValueId rows = build.add("Reshape", {node.inputs[1]}, shaped({Dim(groups), Dim(features), depth}));
  const ValueId product = build.add("MatMul", {rows, matrix});
  if (!input_given(node, 3)) {
    build.add_to("Reshape", {product}, {node.outputs[0]}, shaped(out));
    return build.take();
  }
  const ValueId bias = build.add("Reshape", {node.inputs[3]}, shaped({Dim(groups), Dim(features), Dim(1)}));
  build.add_to("Reshape", {build.add("Add", {product, bias})}, {node.outputs[0]}, shaped(out));
  return build.take();
}

void infer_deform_columns(InferContext& context) {
  const Deformed form =
      deformed(context.node(), context.shape(0), ints_attribute(context.node(), "kernel_shape"));
  Shape shape = {context.shape(0)[0], context.shape(0)[1]};
  for (int64_t size : form.window.kernel) shape.push_back(Dim(size));
  shape.insert(shape.end(), form.window.output.begin(), form.window.output.end());
  context.set_output(0, context.dtype(0), shape);
}

// The loops over batch, group of offsets, channels of the group, taps and points.
struct DeformLoops {
  TableSpace table;  // the tables' space, without channels
  std::vector<Iterator> iterators;
  std::vector<Affine> position;  // of the result
  Affine batch, channel, group, tap;
  std::vector<Affine> taps, points;
};

DeformLoops deform_loops(LowerContext& context, const Deformed& form) {
  const int64_t per_group = context.shape(0)[1].constant() / form.offset_groups;
  DeformLoops loops;
  auto axis = [&](const std::string& name, const Dim& extent, bool in_table) {
    if (in_table) loops.table.shape.push_back(extent);
    Affine at = 0;
    if (extent != Dim(1)) {
      loops.iterators.push_back({name, context.dim(extent)});
      if (in_table) loops.table.iterators.push_back(loops.iterators.back());
      at = Affine::variable(name);
    }
    if (in_table) loops.table.position.push_back(at);
    return at;
  };
  loops.batch = axis("n", context.shape(0)[0], true);
  loops.group = axis("g", Dim(form.offset_groups), true);
  loops.channel = loops.group * per_group + axis("c", Dim(per_group), false);
  loops.position = {loops.batch, loops.channel};
  for (size_t i = 0; i < form.window.kernel.size(); ++i) {
    loops.taps.push_back(axis(text("r", i), Dim(form.window.kernel[i]), true));
    loops.tap = loops.tap * form.window.kernel[i] + loops.taps.back();
    loops.position.push_back(loops.taps.back());
  }
  for (size_t i = 0; i < form.window.kernel.size(); ++i) {
    loops.points.push_back(axis(text("o", i), form.window.output[i], true));
    loops.position.push_back(loops.points.back());
  }
  return loops;
}

void lower_deform_columns(LowerContext& context) {
  const Shape& map = context.shape(0);
  const Deformed form = deformed(context.node(), map, ints_attribute(context.node(), "kernel_shape"));
  const DeformLoops loops = deform_loops(context, form);
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int64_t axes = static_cast<int64_t>(form.window.kernel.size());
  const Affine tap = loops.group * form.taps + loops.tap;
  auto at_point = [&](const Affine& channel) {
    std::vector<Affine> where = {loops.batch, channel};
    where.insert(where.end(), loops.points.begin(), loops.points.end());
    return where;
  };
  std::vector<SampledAxis> sampled;
  for (int64_t i = 0; i < axes; ++i) {
    const Affine regular = loops.points[i] * form.window.strides[i] +
                           loops.taps[i] * form.window.dilations[i] - Affine(form.window.before[i]);
    const ExprPtr moved = context.read(1, at_point(tap * axes + Affine(i)));
    const int place = context.local("place", type, loops.table.shape);
    context.assign("place", loops.table.iterators, place, loops.table.position,
                   binary(BinaryOp::Add, cast(type, index_value(regular)), moved));
    sampled.push_back(linear_axis(context, loops.table, place, map[2 + i], true));
  }
  SampleLoops sample{loops.iterators,
                     loops.position,
                     {{loops.batch, nullptr}, {loops.channel, nullptr}},
                     *context.output_value(0).shape};
  if (context.has_input(2)) sample.factor = context.read(2, at_point(tap));
  lower_samples(context, sample, sampled, context.output(0));
}

}  // namespace

void register_sampling_ops(OpTable& table) {
  OpRow grid =
      onnx_row("resampling", {"GridSample", 16, old_modes},
               "The map at the points of a grid: nearest, linear or cubic, with any padding.", {2, 2},
               {{"mode", std::string("linear")},
                {"padding_mode", std::string("zeros")},
                {"align_corners", int64_t{0}}});
  grid.onnx.push_back({"GridSample", 20});
  grid.traits.blocks = OpTraits::Blocks::Channelwise;
  grid.equation = "O[n,c,y,x] += W[t,n,y,x] * V[u,n,y,x] * I[n,c,Y[t,n,y,x],X[u,n,y,x]]";
  grid.infer = infer_grid_sample;
  grid.lower = lower_grid_sample;
  table.add(std::move(grid));

  OpRow affine = onnx_row("resampling", {"AffineGrid", 20, input_to_dims(1, "size")},
                          "The grid that an affine map makes of regular points.", {1, 2},
                          {{"size", std::vector<int64_t>(), true}, {"align_corners", int64_t{0}}});
  affine.equation = "O[n,y,x,k] = theta[n,k,0] * X[x] + theta[n,k,1] * Y[y] + theta[n,k,2]";
  affine.infer = infer_affine_grid;
  affine.lower = lower_affine_grid;
  table.add(std::move(affine));

  const std::vector<AttributeRow> window = {
      {"dilations", std::vector<int64_t>()},    {"group", int64_t{1}},
      {"kernel_shape", std::vector<int64_t>()}, {"offset_group", int64_t{1}},
      {"pads", std::vector<int64_t>()},         {"strides", std::vector<int64_t>()}};
  OpRow conv = onnx_row(
      "resampling", {"DeformConv", 19},
      "Convolution whose taps are moved by offsets, linear between elements, and weighted by a mask.", {3, 5},
      window);
  conv.kind = OpRow::Kind::Expand;
  conv.category = "convolution";
  conv.infer = infer_deform_conv;
  conv.expand = expand_deform_conv;
  table.add(std::move(conv));
  OpRow columns = onnx_row("resampling", {"DeformColumns", 1},
                           "The elements that the taps of a deformable convolution meet.", {2, 3}, window);
  columns.onnx.clear();
  columns.category = "convolution";
  columns.infer = infer_deform_columns;
  columns.lower = lower_deform_columns;
  table.add(std::move(columns));
}

}  // namespace tc
