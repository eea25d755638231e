// Pooling over windows and over whole maps.
#include <algorithm>

#include "ir/ops/equation.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

std::vector<Dim> spatial_of(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

void check_rank(InferContext& context) {
  const int rank = context.rank(0);
  if (rank < 3 || rank > 5) {
    context.error("the input has shape ", str(context.shape(0)),
                  "; [batch, channels, 1 to 3 spatial axes] is needed");
  }
}

Window pooling_window(const Node& node, const Shape& input) {
  const std::vector<int64_t> kernel = ints_attribute(node, "kernel_shape");
  if (kernel.size() + 2 != input.size()) {
    fail(ErrorKind::Shape, node.origin.str(), ": kernel_shape has ", kernel.size(),
         " numbers for an input of shape ", str(input));
  }
  return window_of(node, spatial_of(input), kernel, int_attribute(node, "ceil_mode") != 0);
}

void infer_pooling(InferContext& context) {
  check_rank(context);
  const Shape& input = context.shape(0);
  const Window window = pooling_window(context.node(), input);
  Shape shape = {input[0], input[1]};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  context.set_output(0, context.dtype(0), shape);
  context.set_output(1, DType::I64, shape);
}

// The equation of a pooling over windows with `axes` spatial axes: `sign` combines the elements, each written
// between `before` and `after`.
std::string pooling_equation(size_t axes, const std::string& sign, const std::string& before = "",
                             const std::string& after = "") {
  const WindowSubscripts window = window_subscripts(axes);
  return "O[n,c" + window.output + "] " + sign + " " + before + "I[n,c" + window.input + "]" + after;
}

// Lowers such an equation, with the result in `target`.
void lower_windows(LowerContext& context, const Window& window, const std::string& equation, int target) {
  EquationNames names;
  names.type = LowerContext::compute_type(context.output_value(0).dtype);
  names.extents["n"] = context.shape(0)[0];
  names.extents["c"] = context.shape(0)[1];
  names.buffers = {{"I", context.input(0)}, {"O", target}};
  bind_window(window, names);
  lower_equation(context, equation, names, "pool");
}

// Position in the output and in the input of one window element, with the constraints that keep the
// latter inside.
struct WindowLoops {
  LowerContext::Space outer;
  std::vector<Iterator> inner;
  std::vector<Affine> input;
  std::vector<Affine> constraints;
};

WindowLoops window_loops(LowerContext& context, const Window& window) {
  WindowLoops loops;
  loops.outer = context.space("i", *context.output_value(0).shape);
  loops.input = {loops.outer.position[0], loops.outer.position[1]};
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    Affine tap = 0;
    if (window.kernel[i] != 1) {
      loops.inner.push_back({text("k", i), Affine(window.kernel[i])});
      tap = Affine::variable(loops.inner.back().name);
    }
    Affine at = loops.outer.position[2 + i] * window.strides[i] + tap * window.dilations[i] -
                Affine(window.before[i]);
    loops.input.push_back(at);
    loops.constraints.push_back(at);
    loops.constraints.push_back(context.dim(context.shape(0)[2 + i]) - at - Affine(1));
  }
  loops.constraints.erase(
      std::remove_if(loops.constraints.begin(), loops.constraints.end(),
                     [](const Affine& c) { return c.is_constant() && c.constant() >= 0; }),
      loops.constraints.end());
  return loops;
}

// The flat index, in the whole input, of the first largest element.
void lower_indices(LowerContext& context, const Window& window) {
  const Shape& input = context.shape(0);
  WindowLoops loops = window_loops(context, window);
  const bool columns = int_attribute(context.node(), "storage_order") != 0;
  // Row-major over [n, c, spatial], or with the spatial axes from the first.
  std::vector<size_t> order;
  for (size_t i = 2; i < input.size(); ++i) order.push_back(i);
  if (columns) std::reverse(order.begin(), order.end());
  order.insert(order.begin(), {0, 1});
  ExprPtr flat = int_constant(DType::I64, 0);
  for (size_t i : order) {
    flat = binary(BinaryOp::Add, binary(BinaryOp::Mul, flat, index_value(context.dim(input[i]))),
                  index_value(loops.input[i]));
  }
  ExprPtr largest = context.read_buffer(context.output(0), loops.outer.position);
  ExprPtr value = context.read_buffer(context.input(0), loops.input);
  ExprPtr candidate = select(binary(BinaryOp::Eq, value, largest), flat, int_constant(DType::I64, INT64_MAX));
  context.reduce("where", {loops.outer.iterators, loops.inner, loops.constraints}, context.output(1),
                 loops.outer.position, Reduction::Min, candidate);
}

void lower_max_pool(LowerContext& context) {
  const Window window = pooling_window(context.node(), context.shape(0));
  const std::string equation = pooling_equation(window.kernel.size(), "max=");
  if (context.output(0) >= 0) lower_windows(context, window, equation, context.output(0));
  if (context.output(1) >= 0) lower_indices(context, window);
}

// How many elements a window covers along one axis: a number, or an i64 expression of its position.
ExprPtr covered(LowerContext& context, const Window& window, size_t axis, const Affine& position,
                const Dim& extent, bool count_padding) {
  const int64_t kernel = window.kernel[axis], dilation = window.dilations[axis];
  const Affine start = position * window.strides[axis] - Affine(window.before[axis]);
  const int64_t low = count_padding ? -window.before[axis] : 0;
  const Dim high = count_padding ? extent + Dim(window.after[axis]) : extent;
  // Where the windows at both ends are full, nothing has to be counted.
  const Dim last = (window.output[axis] - Dim(1)) * Dim(window.strides[axis]) +
                   Dim((kernel - 1) * dilation - window.before[axis]);
  const Dim room = high - Dim(1) - last;
  const bool starts_inside = -window.before[axis] >= low;
  if (starts_inside && room.is_constant() && room.constant() >= 0) return int_constant(DType::I64, kernel);
  auto number = [](int64_t value) { return int_constant(DType::I64, value); };
  ExprPtr first = index_value(start), end = binary(BinaryOp::Sub, index_value(context.dim(high)), first);
  // Taps k with low <= start + k*dilation < high: from ceil((low - start)/d) to ceil((high - start)/d).
  auto taps = [&](ExprPtr distance) {
    ExprPtr positive = binary(BinaryOp::Max, distance, number(0));
    if (dilation == 1) return positive;
    return binary(BinaryOp::Div, binary(BinaryOp::Add, positive, number(dilation - 1)), number(dilation));
  };
  ExprPtr result = binary(BinaryOp::Min, taps(end), number(kernel));
  if (!starts_inside) result = binary(BinaryOp::Sub, result, taps(binary(BinaryOp::Sub, number(low), first)));
  return result;
}

void lower_average_pool(LowerContext& context) {
  const Shape& input = context.shape(0);
  const Window window = pooling_window(context.node(), input);
  const Shape& output = *context.output_value(0).shape;
  const bool count_padding = int_attribute(context.node(), "count_include_pad") != 0;
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int sum = context.local("sum", type, output);
  lower_windows(context, window, pooling_equation(window.kernel.size(), "+="), sum);
  auto space = context.space("o", output);
  int64_t fixed_count = 1;
  ExprPtr count;
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    ExprPtr here = covered(context, window, i, space.position[2 + i], input[2 + i], count_padding);
    if (here->kind == Expr::Kind::Const) {
      fixed_count *= here->integer;
    } else {
      count = count ? binary(BinaryOp::Mul, count, here) : here;
    }
  }
  ExprPtr value = context.read_buffer(sum, space.position);
  if (!count) {
    value = binary(BinaryOp::Mul, value, constant(type, 1.0 / static_cast<double>(fixed_count)));
  } else {
    if (fixed_count != 1) count = binary(BinaryOp::Mul, count, int_constant(DType::I64, fixed_count));
    value = binary(BinaryOp::Div, value, cast(type, count));
  }
  context.assign("average", space.iterators, context.output(0), space.position, value);
}

// |value| to the power p, and the inverse for a sum of such powers.
ExprPtr powered(ExprPtr value, int64_t p) {
  if (p == 2) return binary(BinaryOp::Mul, value, value);
  value = unary(UnaryOp::Abs, value);
  return p == 1 ? value : binary(BinaryOp::Pow, value, constant(value->dtype, static_cast<double>(p)));
}
ExprPtr rooted(ExprPtr sum, int64_t p) {
  if (p == 1) return sum;
  return p == 2 ? unary(UnaryOp::Sqrt, sum)
                : binary(BinaryOp::Pow, sum, constant(sum->dtype, 1.0 / static_cast<double>(p)));
}

void lower_lp_pool(LowerContext& context) {
  const Window window = pooling_window(context.node(), context.shape(0));
  const Shape& output = *context.output_value(0).shape;
  const int64_t p = int_attribute(context.node(), "p");
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int sum = context.local("sum", type, output);
  const size_t axes = window.kernel.size();
  std::string equation = pooling_equation(axes, "+=", "pow(abs(", text("), ", p, ")"));
  if (p == 1) equation = pooling_equation(axes, "+=", "abs(", ")");
  if (p == 2) equation = pooling_equation(axes, "+=", "", "*I[n,c" + window_subscripts(axes).input + "]");
  lower_windows(context, window, equation, sum);
  auto space = context.space("o", output);
  context.assign("root", space.iterators, context.output(0), space.position,
                 rooted(context.read_buffer(sum, space.position), p));
}

void infer_global(InferContext& context) {
  check_rank(context);
  Shape shape = {context.shape(0)[0], context.shape(0)[1]};
  shape.resize(context.shape(0).size(), Dim(1));
  context.set_output(0, context.dtype(0), shape);
}

void lower_global(LowerContext& context, Reduction reduction) {
  const Shape& input = context.shape(0);
  const DType type = LowerContext::compute_type(context.dtype(0));
  auto outer = context.space("i", {input[0], input[1]});
  auto inner = context.space("k", {input.begin() + 2, input.end()});
  std::vector<Affine> at = outer.position, out = outer.position;
  at.insert(at.end(), inner.position.begin(), inner.position.end());
  out.resize(input.size(), Affine(0));
  ExprPtr value = context.read_buffer(context.input(0), at);
  if (context.output_value(0).dtype == DType::I32 && value->dtype != DType::I32)
    value = cast(DType::I32, value);
  if (reduction != Reduction::Sum || !is_float(type)) {
    context.reduce("pool", {outer.iterators, inner.iterators}, context.output(0), out, reduction, value);
    return;
  }
  const int sum = context.local("sum", type, *context.output_value(0).shape);
  context.reduce("pool", {outer.iterators, inner.iterators}, sum, out, reduction, value);
  const Dim count = element_count({input.begin() + 2, input.end()});
  ExprPtr total = context.read_buffer(sum, out);
  if (count.is_constant()) {
    total = binary(BinaryOp::Mul, total, constant(type, 1.0 / static_cast<double>(count.constant())));
  } else {
    total = binary(BinaryOp::Div, total, cast(type, index_value(context.dim(count))));
  }
  context.assign("average", outer.iterators, context.output(0), out, total);
}

void lower_global_norm(LowerContext& context) {
  const Shape& input = context.shape(0);
  const int64_t p = int_attribute(context.node(), "p");
  auto outer = context.space("i", {input[0], input[1]});
  auto inner = context.space("k", {input.begin() + 2, input.end()});
  std::vector<Affine> at = outer.position, out = outer.position;
  at.insert(at.end(), inner.position.begin(), inner.position.end());
  out.resize(input.size(), Affine(0));
  const int sum =
      context.local("sum", LowerContext::compute_type(context.dtype(0)), *context.output_value(0).shape);
  context.reduce("pool", {outer.iterators, inner.iterators}, sum, out, Reduction::Sum,
                 powered(context.read_buffer(context.input(0), at), p));
  context.assign("root", outer.iterators, context.output(0), out, rooted(context.read_buffer(sum, out), p));
}

OpRow pooling_row(const std::string& name, const std::string& doc, const std::string& equation,
                  std::function<void(LowerContext&)> lower) {
  OpRow row;
  row.name = name;
  row.category = "pooling";
  row.doc = doc;
  row.equation = equation;
  row.onnx = {{name, 1}};
  row.attributes = window_attributes(true);
  row.attributes.push_back({"ceil_mode", int64_t{0}});
  row.types = {{kFloats}};
  row.infer = infer_pooling;
  row.lower = std::move(lower);
  return row;
}

// A row that reduces each map to one element.
OpRow global_row(const std::string& name, const std::string& doc, const std::string& equation) {
  OpRow row;
  row.name = name;
  row.category = "pooling";
  row.doc = doc;
  row.equation = equation;
  row.traits.blocks = OpTraits::Blocks::Channelwise;
  row.traits.reads_blocks = true;
  row.infer = infer_global;
  return row;
}

// Rows of sums of bytes, which passes make from means; their results are i32.
void register_sums_of_bytes(OpTable& table) {
  OpRow windows = pooling_row(
      "IntegerPool",
      "Sum of the 8-bit integers of each window, in 32 bits; the compiler makes it of means of quantised ones.",
      pooling_equation(2, "+="), [](LowerContext& context) {
        const Window window = pooling_window(context.node(), context.shape(0));
        lower_windows(context, window, pooling_equation(window.kernel.size(), "+="), context.output(0));
      });
  windows.category = "quantisation";
  windows.onnx.clear();
  windows.types = {{kBytes}};
  windows.traits.blocks = OpTraits::Blocks::Channelwise;
  windows.infer = [](InferContext& context) {
    infer_pooling(context);
    context.set_output(0, DType::I32, *context.graph()[context.node().outputs[0]].shape);
  };
  table.add(std::move(windows));

  OpRow whole = global_row(
      "IntegerGlobalPool",
      "Sum of the 8-bit integers of each map, in 32 bits; the compiler makes it of means of quantised ones.",
      "O[n,c,0,0] += I[n,c,y,x]");
  whole.category = "quantisation";
  whole.types = {{kBytes}};
  whole.infer = [](InferContext& context) {
    infer_global(context);
    context.set_output(0, DType::I32, *context.graph()[context.node().outputs[0]].shape);
  };
  whole.lower = [](LowerContext& context) { lower_global(context, Reduction::Sum); };
  table.add(std::move(whole));
}

}  // namespace

void register_pooling_ops(OpTable& table) {
  register_sums_of_bytes(table);
  OpRow max_pool = pooling_row("MaxPool", "Largest element of each window; optionally its flat index.",
                               pooling_equation(2, "max="), lower_max_pool);
  max_pool.traits.blocks = OpTraits::Blocks::Channelwise;
  max_pool.traits.selects = true;
  max_pool.outputs = 2;
  max_pool.types = {{kNumbers}};
  max_pool.attributes.push_back({"storage_order", int64_t{0}});
  table.add(std::move(max_pool));

  OpRow average = pooling_row(
      "AveragePool", "Mean of each window, over its elements inside the map unless `count_include_pad`.",
      pooling_equation(2, "+="), lower_average_pool);
  average.traits.blocks = OpTraits::Blocks::Channelwise;
  average.traits.of_bytes = "IntegerPool";
  average.attributes.push_back({"count_include_pad", int64_t{0}});
  table.add(std::move(average));

  OpRow lp = pooling_row("LpPool", "The p-norm of each window.",
                         pooling_equation(2, "+=", "pow(abs(", "), p)"), lower_lp_pool);
  lp.attributes.push_back({"p", int64_t{2}, false, "", from_to(1, 1024)});
  table.add(std::move(lp));

  const std::pair<const char*, Reduction> whole[] = {{"GlobalAveragePool", Reduction::Sum},
                                                     {"GlobalMaxPool", Reduction::Max}};
  for (const auto& [name, reduction] : whole) {
    OpRow row = reduction == Reduction::Sum
                    ? global_row(name, "Mean of each map.", "O[n,c,0,0] += I[n,c,y,x]")
                    : global_row(name, "Largest element of each map.", "O[n,c,0,0] max= I[n,c,y,x]");
    row.onnx = {{name, 1}};
    if (reduction == Reduction::Sum) row.traits.of_bytes = "IntegerGlobalPool";
    row.types = {{reduction == Reduction::Sum ? kFloats : kNumbers}};
    const Reduction how = reduction;
    row.lower = [how](LowerContext& context) { lower_global(context, how); };
    table.add(std::move(row));
  }

  OpRow norm = global_row("GlobalLpPool", "The p-norm of each map.", "O[n,c,0,0] += pow(abs(I[n,c,y,x]), p)");
  norm.onnx = {{"GlobalLpPool", 2}};
  norm.attributes = {{"p", int64_t{2}, false, "", from_to(1, 1024)}};
  norm.lower = lower_global_norm;
  table.add(std::move(norm));
}

}  // namespace tc
