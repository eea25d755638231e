// Convolutions of one to three spatial axes.
#include <algorithm>
#include <optional>
#include <utility>

#include "ir/ops/equation.h"
#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// Letters of the spatial axes, from the last: output, kernel, and the input's in the transposed form.
const char* const kOutput[] = {"z", "y", "x"};
const char* const kKernel[] = {"q", "r", "s"};

std::vector<Dim> spatial_of(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

// The size of the window, which is that of the weights and, where that is given, of attribute kernel_shape.
std::vector<int64_t> kernel_of(const InferContext& context, const Shape& weights) {
  const bool told = has_attribute(context.node(), "kernel_shape") &&
                    !ints_attribute(context.node(), "kernel_shape").empty();
  const std::vector<int64_t> given =
      told ? ints_attribute(context.node(), "kernel_shape") : std::vector<int64_t>();
  const std::string message =
      text("attribute kernel_shape is not the size in the weights of shape ", str(weights));
  if (told && given.size() + 2 != weights.size()) context.error(message);
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < weights.size(); ++i) {
    if (told) need_equal(context, Dim(given[i - 2]), weights[i], message);
    kernel.push_back(need_number(context, weights[i], "the kernel's size"));
  }
  return kernel;
}

std::vector<int64_t> kernel_in(const Shape& weights) {
  return constant_shape({weights.begin() + 2, weights.end()});
}

// The types that may be convolved: floats, and i32, which convolutions of quantised numbers use.
bool is_convolved(DType dtype) { return is_float(dtype) || dtype == DType::I32; }

void check_ranks(InferContext& context, int input, int weights) {
  const int rank = context.rank(input);
  if (rank < 3 || rank > 5) {
    context.error("the input has rank ", rank, "; [batch, channels, 1 to 3 spatial axes] is needed");
  }
  if (context.rank(weights) != rank) {
    context.error("the input has shape ", str(context.shape(input)), " but the weights have shape ",
                  str(context.shape(weights)), ": their ranks differ");
  }
}

// A group `g` has F output and C input channels; a group of one channel leaves its letter out.
std::string convolution_equation(size_t axes) {
  const WindowSubscripts window = window_subscripts(axes);
  return "O[n,g*F+f" + window.output + "] += I[n,g*C+c" + window.input + "] * K[g*F+f,c" + window.kernel +
         "]";
}

// The bias is input `bias`, one number per output channel, added while storing.
void store_with_bias(LowerContext& context, int accumulator, int bias) {
  const Shape& shape = *context.output_value(0).shape;
  auto space = context.space("o", shape);
  ExprPtr sum = context.read_buffer(accumulator, space.position);
  ExprPtr added = context.read(bias, std::vector<Affine>{space.position[1]});
  context.assign("tail", space.iterators, context.output(0), space.position,
                 binary(BinaryOp::Add, sum, added));
}

int accumulator_for(LowerContext& context, bool separate) {
  if (!separate) return context.output(0);
  const Value& out = context.output_value(0);
  return context.local("sum", LowerContext::compute_type(out.dtype), *out.shape);
}

void infer_convolution_of(InferContext& context, DType result) {
  check_ranks(context, 0, 1);
  const Shape& input = context.shape(0);
  const Shape& weights = context.shape(1);
  const int64_t groups = int_attribute(context.node(), "group");
  if (weights[0].is_constant() && weights[0].constant() % groups != 0) {
    context.error(weights[0].str(), " output channels do not divide into ", groups, " groups");
  }
  need_equal(
      context, weights[1] * Dim(groups), input[1],
      text("the input of shape ", str(input), " has ", input[1].str(), " channels but the weights of shape ",
           str(weights), " with group ", groups, " take ", (weights[1] * Dim(groups)).str()));
  const std::vector<int64_t> kernel = kernel_of(context, weights);
  if (groups > 1) {
    for (const Dim& channels : {weights[0], weights[1]})
      need_number(context, channels, "the number of channels of a group");
  }
  need_shape(context, 2, {weights[0]}, "the bias");
  const Window window = window_of(context.node(), spatial_of(input), kernel, false);
  Shape shape = {input[0], weights[0]};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  context.set_output(0, result, shape);
}

void infer_convolution(InferContext& context) { infer_convolution_of(context, context.dtype(0)); }

void lower_convolution(LowerContext& context) {
  const Shape& input = context.shape(0);
  const Shape& weights = context.shape(1);
  const int64_t groups = int_attribute(context.node(), "group");
  const std::vector<int64_t> kernel = kernel_in(weights);
  const Window window = window_of(context.node(), spatial_of(input), kernel, false);
  const Dim filters = floor_div(weights[0], Dim(groups));

  EquationNames names;
  names.type = LowerContext::compute_type(context.output_value(0).dtype);
  bind_window(window, names);
  const int sum = accumulator_for(context, context.has_input(2));
  names.buffers = {{"I", context.input(0)}, {"K", context.input(1)}, {"O", sum}};
  names.extents["n"] = input[0];
  names.extents["c"] = weights[1];
  names.extents["f"] = filters;
  names.extents["g"] = Dim(groups);
  names.integers["F"] = groups > 1 ? filters.constant() : 0;
  names.integers["C"] = groups > 1 ? weights[1].constant() : 0;
  lower_equation(context, convolution_equation(kernel.size()), names, "macc");
  if (context.has_input(2)) store_with_bias(context, sum, 2);
}

// Sizes of a transposed convolution, where padding means what is cut from the full result.
Window transposed_window(const Node& node, const Shape& input, const std::vector<int64_t>& kernel) {
  const size_t rank = kernel.size();
  Window window;
  window.kernel = kernel;
  window.strides = per_axis(node, "strides", rank, 1);
  window.dilations = per_axis(node, "dilations", rank, 1);
  const std::vector<int64_t> extra = per_axis(node, "output_padding", rank, 0);
  const std::vector<int64_t> pads = per_axis(node, "pads", 2 * rank, 0);
  const std::string mode = string_attribute(node, "auto_pad");
  const bool sized = has_attribute(node, "output_shape") && !ints_attribute(node, "output_shape").empty();
  std::vector<int64_t> wanted;
  if (sized) {
    wanted = ints_attribute(node, "output_shape");
    if (wanted.size() > rank) wanted.erase(wanted.begin(), wanted.end() - static_cast<int64_t>(rank));
    if (wanted.size() < rank) {
      fail(ErrorKind::Shape, node.origin.str(), ": attribute output_shape has ", wanted.size(), " numbers; ",
           rank, " are needed");
    }
  }
  for (size_t i = 0; i < rank; ++i) {
    check_kernel_extent(node, kernel[i], i);
    const Dim full = Dim(window.strides[i]) * (input[2 + i] - Dim(1)) + Dim(extra[i]) +
                     Dim((kernel[i] - 1) * window.dilations[i] + 1);
    int64_t before = pads[i], after = pads[rank + i];
    Dim size = full - Dim(before + after);
    const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (sized || same) {
      size = sized ? Dim(wanted.at(i)) : input[2 + i] * Dim(window.strides[i]);
      const Dim total = full - size;
      if (!total.is_constant()) {
        throw NeedsNumbers(
            node, text("output_shape needs a fixed input size, which depends on '", input[2 + i].str(), "'"),
            {input[2 + i]});
      }
      // A negative total means that the result is larger than the full one: zeros are added on the sides that
      // would otherwise be cut.
      const int64_t cut = sized ? std::max<int64_t>(total.constant(), 0) : total.constant();
      const int64_t half = cut >> 1;  // rounded down, below zero too
      before = mode == "SAME_UPPER" ? half : cut - half;
      after = cut - before;
    } else if (mode == "VALID") {
      before = after = 0;
      size = full;
    }
    window.before.push_back(before);
    window.after.push_back(after);
    window.output.push_back(size);
  }
  return window;
}

void infer_transposed_of(InferContext& context, DType result) {
  check_ranks(context, 0, 1);
  const Shape& input = context.shape(0);
  const Shape& weights = context.shape(1);
  const int64_t groups = int_attribute(context.node(), "group");
  const std::string unfit = text("the input of shape ", str(input), " does not fit weights of shape ",
                                 str(weights), " with group ", groups);
  need_equal(context, weights[0], input[1], unfit);
  if (input[1].is_constant() && input[1].constant() % groups != 0) context.error(unfit);
  if (groups > 1) {
    for (const Dim& channels : {weights[0], weights[1]})
      need_number(context, channels, "the number of channels of a group");
  }
  need_shape(context, 2, {weights[1] * Dim(groups)}, "the bias");
  const Window window = transposed_window(context.node(), input, kernel_of(context, weights));
  Shape shape = {input[0], weights[1] * Dim(groups)};
  shape.insert(shape.end(), window.output.begin(), window.output.end());
  context.set_output(0, result, shape);
}

void infer_transposed(InferContext& context) { infer_transposed_of(context, context.dtype(0)); }

// The loops of a transposed convolution, which are built one dimension at a time.
struct TransposedLoops {
  std::vector<Iterator> outer, inner;
  std::vector<Affine> out, in, taps;  // subscripts of the result, the input and the weights
  std::vector<Affine> outer_constraints, inner_constraints;

  // The position along a dimension: an iterator, or 0 where there is one trip.
  static Affine iterate(LowerContext& context, std::vector<Iterator>& list, const std::string& name,
                        const Dim& extent) {
    if (extent == Dim(1)) return Affine(0);
    list.push_back({name, context.dim(extent)});
    return Affine::variable(name);
  }

  // Drops constraints that always hold.
  static std::vector<Affine> useful(std::vector<Affine> constraints) {
    constraints.erase(std::remove_if(constraints.begin(), constraints.end(),
                                     [](const Affine& constraint) {
                                       return constraint.is_constant() && constraint.constant() >= 0;
                                     }),
                      constraints.end());
    return constraints;
  }
};

// Dimension `i` of the map, without dilation: each output gathers the taps that have its residue modulo the
// stride.
void gather_taps(LowerContext& context, const Window& window, size_t i, TransposedLoops& loops) {
  const size_t place = 3 - window.kernel.size() + i;
  const std::string o = kOutput[place], k = kKernel[place];
  const int64_t stride = window.strides[i], kernel = window.kernel[i];
  const Affine out_size = context.dim(window.output[i]), in_size = context.dim(context.shape(0)[2 + i]);
  const int64_t rest = ((window.before[i] % stride) + stride) % stride;
  const int64_t shift = (window.before[i] - rest) / stride;
  const Dim rows = floor_div(window.output[i] + Dim(rest + stride - 1), Dim(stride));
  const Affine row = TransposedLoops::iterate(context, loops.outer, o, rows);
  const Affine residue = TransposedLoops::iterate(context, loops.outer, k, Dim(stride));
  const Affine t =
      TransposedLoops::iterate(context, loops.inner, "t" + k, Dim((kernel + stride - 1) / stride));
  const Affine y = row * stride + residue - Affine(rest), source = row + Affine(shift) - t,
               tap = t * stride + residue;
  if (rest != 0) loops.outer_constraints.push_back(y);
  if (rest != 0 || !window.output[i].is_constant() || window.output[i].constant() % stride != 0) {
    loops.outer_constraints.push_back(out_size - y - Affine(1));
  }
  if (kernel % stride != 0) loops.inner_constraints.push_back(Affine(kernel - 1) - tap);
  loops.inner_constraints.push_back(source);
  loops.inner_constraints.push_back(in_size - source - Affine(1));
  loops.out.push_back(y);
  loops.in.push_back(source);
  loops.taps.push_back(tap);
}

// The same with dilation: each input element is scattered to the outputs of its taps.
void scatter_taps(LowerContext& context, const Window& window, size_t i, TransposedLoops& loops) {
  const size_t place = 3 - window.kernel.size() + i;
  const Affine source =
      TransposedLoops::iterate(context, loops.inner, kOutput[place], context.shape(0)[2 + i]);
  const Affine tap = TransposedLoops::iterate(context, loops.inner, kKernel[place], Dim(window.kernel[i]));
  const Affine y = source * window.strides[i] + tap * window.dilations[i] - Affine(window.before[i]);
  loops.inner_constraints.push_back(y);
  loops.inner_constraints.push_back(context.dim(window.output[i]) - y - Affine(1));
  loops.out.push_back(y);
  loops.in.push_back(source);
  loops.taps.push_back(tap);
}

// A buffer of sums for a map of one axis, stored separately by residue as [n, filters, residues, rows], and
// how the result interleaves them.
struct Interleaving {
  int sum = -1;
  std::vector<Affine> out;          // subscripts of the result
  std::vector<Affine> constraints;  // of its elements
};

// With one axis, neighbouring results differ in their residue modulo the stride, and there are too few
// residues to fill a vector's lanes. Rows of one residue, however, are as long as the input and read
// neighbouring elements of it. So the loops are changed to write such rows into a buffer. Nothing where there
// are no residues.
std::optional<Interleaving> interleave(LowerContext& context, const Window& window, DType type,
                                       TransposedLoops& loops) {
  if (window.kernel.size() != 1 || window.strides[0] == 1 || loops.outer.size() < 2) return std::nullopt;
  const Iterator &row = loops.outer[loops.outer.size() - 2], &residue = loops.outer.back();
  if (row.name != kOutput[2] || residue.name != kKernel[2]) return std::nullopt;  // there is only one row
  const int64_t stride = window.strides[0], rest = ((window.before[0] % stride) + stride) % stride;
  const Shape& output = *context.output_value(0).shape;
  Interleaving result;
  result.sum = context.local(
      "sum", type,
      {output[0], output[1], Dim(stride), floor_div(output[2] + Dim(rest + stride - 1), Dim(stride))});
  result.out = std::exchange(
      loops.out, {loops.out[0], loops.out[1], Affine::variable(residue.name), Affine::variable(row.name)});
  result.constraints = std::exchange(loops.outer_constraints, {});
  return result;
}

// One iterator per residue of the stride (`r`) and one per tap of that residue (`t`): with
// y = y'*stride + r - (pad mod stride), the tap r + stride*t reads the input row y' + pad/stride - t.
void lower_transposed(LowerContext& context) {
  const Shape& input = context.shape(0);
  const Shape& weights = context.shape(1);
  const Shape& output = *context.output_value(0).shape;
  const int64_t groups = int_attribute(context.node(), "group");
  const Window window = transposed_window(context.node(), input, kernel_in(weights));
  const DType type = LowerContext::compute_type(context.output_value(0).dtype);
  const bool gather =
      std::all_of(window.dilations.begin(), window.dilations.end(), [](int64_t d) { return d == 1; });
  TransposedLoops loops;
  const Affine n = TransposedLoops::iterate(context, loops.outer, "n", input[0]);
  const Affine g = TransposedLoops::iterate(context, loops.outer, "g", Dim(groups));
  const Affine f = TransposedLoops::iterate(context, loops.outer, "f", weights[1]);
  const Affine c = TransposedLoops::iterate(context, loops.inner, "c", floor_div(input[1], Dim(groups)));
  const Affine channel = groups == 1 ? c : g * (constant_shape({floor_div(input[1], Dim(groups))})[0]) + c;
  loops.out = {n, groups == 1 ? f : g * constant_shape({weights[1]})[0] + f};
  loops.in = {n, channel};
  loops.taps = {channel, f};
  for (size_t i = 0; i < window.kernel.size(); ++i)
    (gather ? gather_taps : scatter_taps)(context, window, i, loops);
  loops.outer_constraints = TransposedLoops::useful(std::move(loops.outer_constraints));
  loops.inner_constraints = TransposedLoops::useful(std::move(loops.inner_constraints));
  const std::optional<Interleaving> interleaving =
      gather ? interleave(context, window, type, loops) : std::nullopt;
  const bool separate = context.has_input(2) || type != context.kernel().buffers[context.output(0)].dtype;
  const int sum = interleaving ? interleaving->sum
                  : separate   ? context.local("sum", type, output)
                               : context.output(0);
  if (gather) {
    context.assign("macc_init", loops.outer, sum, loops.out, constant(type, 0), loops.outer_constraints);
  } else {
    auto space = context.space("o", output);
    context.assign("macc_init", space.iterators, sum, space.position, constant(type, 0));
  }
  Statement statement;
  statement.name = "macc";
  statement.iterators = loops.outer;
  statement.iterators.insert(statement.iterators.end(), loops.inner.begin(), loops.inner.end());
  statement.constraints = loops.outer_constraints;
  statement.constraints.insert(statement.constraints.end(), loops.inner_constraints.begin(),
                               loops.inner_constraints.end());
  statement.write.buffer = sum;
  for (const Affine& affine : loops.out) statement.write.index.push_back({affine, nullptr});
  statement.reduction = Reduction::Sum;
  auto operand = [&](int input, const std::vector<Affine>& at) {
    ExprPtr value = context.read_buffer(context.input(input), at);
    return value->dtype == type ? value : cast(type, value);
  };
  statement.value = binary(BinaryOp::Mul, operand(0, loops.in), operand(1, loops.taps));
  context.add(std::move(statement));
  if (interleaving) {
    ExprPtr value = context.read_buffer(sum, loops.out);
    if (context.has_input(2))
      value = binary(BinaryOp::Add, value, context.read(2, std::vector<Affine>{loops.out[1]}));
    context.assign("tail", loops.outer, context.output(0), interleaving->out, value,
                   interleaving->constraints);
  } else if (context.has_input(2)) {
    store_with_bias(context, sum, 2);
  } else if (sum != context.output(0)) {
    auto space = context.space("o", output);
    context.assign("store", space.iterators, context.output(0), space.position,
                   context.read_buffer(sum, space.position));
  }
}

}  // namespace

std::vector<AttributeRow> convolution_attributes() {
  std::vector<AttributeRow> rows = window_attributes(false);
  rows.push_back({"group", int64_t{1}, false, "", positive()});
  return rows;
}

void register_convolution_ops(OpTable& table) {
  OpRow conv;
  conv.name = "Conv";
  conv.category = "convolution";
  conv.doc = "Convolution of one to three spatial axes, with groups, strides, dilations and padding.";
  conv.equation = convolution_equation(2);
  conv.traits.contraction = OpTraits::Contraction::Convolution;
  conv.traits.of_bytes = "IntegerConv";
  conv.output_channels = [](const Node&) { return OutputChannels{}; };
  conv.onnx = {{"Conv", 1}};
  conv.minimum_inputs = 2;
  conv.maximum_inputs = 3;
  conv.attributes = convolution_attributes();
  conv.types = {{{"a float type", is_convolved}}};
  conv.infer = infer_convolution;
  conv.lower = lower_convolution;
  table.add(std::move(conv));

  OpRow integers;
  integers.name = "IntegerConv";
  integers.category = "quantisation";
  integers.doc =
      "Convolution of 8-bit integers, whose products are added up exactly, in 32 bits; the compiler makes it of quantised ones.";
  integers.equation = convolution_equation(2);
  integers.traits.contraction = OpTraits::Contraction::Convolution;
  integers.minimum_inputs = integers.maximum_inputs = 2;
  integers.attributes = convolution_attributes();
  integers.types = {{kBytes, {0}}, {kBytes, {1}}};
  integers.infer = [](InferContext& context) { infer_convolution_of(context, DType::I32); };
  integers.lower = lower_convolution;
  table.add(std::move(integers));

  OpRow transposed;
  transposed.name = "ConvTranspose";
  transposed.category = "convolution";
  transposed.doc = "Transposed convolution: the gradient of a convolution with respect to its input.";
  const WindowSubscripts window = window_subscripts(2);
  transposed.equation =
      "O[n,g*F+f" + window.input + "] += I[n,g*C+c" + window.output + "] * K[g*C+c,f" + window.kernel + "]";
  transposed.traits.contraction = OpTraits::Contraction::TransposedConvolution;
  transposed.output_channels = [](const Node& node) {
    return OutputChannels{1, int_attribute(node, "group")};
  };
  transposed.onnx = {{"ConvTranspose", 1}};
  transposed.minimum_inputs = 2;
  transposed.maximum_inputs = 3;
  transposed.attributes = convolution_attributes();
  transposed.types = {{{"a float type", is_convolved}}};
  transposed.attributes.push_back(
      {"output_padding", std::vector<int64_t>(), false, "", from_to(0, kFurthestPad)});
  transposed.attributes.push_back({"output_shape", std::vector<int64_t>(), false, "", positive()});
  transposed.infer = infer_transposed;
  transposed.lower = lower_transposed;
  transposed.traits.of_bytes = "IntegerConvTranspose";

  OpRow scattered;
  scattered.name = transposed.traits.of_bytes;
  scattered.category = "quantisation";
  scattered.doc =
      "Transposed convolution of 8-bit integers, whose products are added up exactly, in 32 bits; the compiler makes it of quantised ones.";
  scattered.equation = transposed.equation;
  scattered.traits.contraction = OpTraits::Contraction::TransposedConvolution;
  scattered.minimum_inputs = scattered.maximum_inputs = 2;
  scattered.attributes = transposed.attributes;
  scattered.types = {{kBytes, {0}}, {kBytes, {1}}};
  scattered.infer = [](InferContext& context) { infer_transposed_of(context, DType::I32); };
  scattered.lower = lower_transposed;
  table.add(std::move(scattered));
  table.add(std::move(transposed));
}

}  // namespace tc
