// The inverse of windows and of pooling: Col2Im and MaxUnpool.
#include <algorithm>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// --- Col2Im ----------------------------------------------------------------------------------------

// The windows of the image; the operand has one column for each.
Window image_window(const Node& node) {
  const std::vector<Dim> image = dims_attribute(node, "image_shape");
  const std::vector<int64_t> block = ints_attribute(node, "block_shape");
  if (image.empty() || image.size() != block.size() || image.size() > 12) {
    fail(ErrorKind::Shape, node.origin.str(), ": image_shape and block_shape have ", image.size(), " and ",
         block.size(), " numbers; one per axis of the image is needed");
  }
  fixed(node, image, "image_shape");
  return window_of(node, image, block, false);
}

int64_t product_of(const Node& node, const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (size > (int64_t{1} << 40) / product)
      fail(ErrorKind::Shape, node.origin.str(),
           ": a block or image of more than 2^40 elements is not possible");
    product *= size;
  }
  return product;
}

void infer_col2im(InferContext& context) {
  const Node& node = context.node();
  const Shape& columns = context.shape(0);
  const Window window = image_window(node);
  if (columns.size() != 3)
    context.error("the input has shape ", str(columns), "; [N, C * block, windows] is needed");
  const DType type = context.dtype(0);
  if (type == DType::Bool) context.error("the input has type bool; a number type is needed");
  const int64_t taps = product_of(node, window.kernel),
                windows = product_of(node, fixed(node, window.output, "image_shape"));
  const std::string unfit = text("the input has shape ", str(columns), "; blocks of ", taps, " elements and ",
                                 windows, " windows fit the image");
  need_equal(context, columns[2], Dim(windows), unfit);
  need_number(context, columns[1], "the number of elements of all blocks");
  if (columns[1].constant() % taps != 0) context.error(unfit);
  Shape shape = {columns[0], Dim(columns[1].constant() / taps)};
  const std::vector<Dim> image = dims_attribute(node, "image_shape");
  shape.insert(shape.end(), image.begin(), image.end());
  context.set_output(0, type, shape);
}

void lower_col2im(LowerContext& context) {
  const Window window = image_window(context.node());
  const Shape& out = *context.output_value(0).shape;
  const DType type = LowerContext::compute_type(context.dtype(0));
  const size_t axes = window.kernel.size();
  Shape taps_shape, loops_shape = {out[0], out[1]};
  for (int64_t size : window.kernel) loops_shape.push_back(Dim(size));
  loops_shape.insert(loops_shape.end(), window.output.begin(), window.output.end());
  auto loops = context.space("k", loops_shape);
  Statement add;
  add.name = "add";
  add.iterators = loops.iterators;
  Affine tap = loops.position[1], column = 0;
  add.write.index = {{loops.position[0], nullptr}, {loops.position[1], nullptr}};
  for (size_t i = 0; i < axes; ++i) {
    const Affine at_tap = loops.position[2 + i], at_window = loops.position[2 + axes + i];
    tap = tap * window.kernel[i] + at_tap;
    column = column * window.output[i].constant() + at_window;
    const Affine at = at_window * window.strides[i] + at_tap * window.dilations[i] - Affine(window.before[i]);
    add.write.index.push_back({at, nullptr});
    for (const Affine& inside : {at, context.dim(out[2 + i]) - at - Affine(1)}) {
      if (!inside.is_constant() || inside.constant() < 0) add.constraints.push_back(inside);
    }
  }
  const bool stored = context.kernel().buffers[context.output(0)].dtype == type;
  add.write.buffer = stored ? context.output(0) : context.local("sum", type, out);
  add.reduction = Reduction::Sum;
  add.value = context.read(0, std::vector<Affine>{loops.position[0], tap, column});
  auto space = context.space("i", out);
  const int target = add.write.buffer;
  context.assign("zero", space.iterators, target, space.position, identity(Reduction::Sum, type));
  context.add(std::move(add));
  if (!stored)
    context.assign("store", space.iterators, context.output(0), space.position,
                   context.read_buffer(target, space.position));
}

// --- MaxUnpool -------------------------------------------------------------------------------------

// The shape of the map before it was pooled; the indices refer to it.
Shape unpooled(const Node& node, const Shape& pooled) {
  const std::vector<int64_t> kernel = ints_attribute(node, "kernel_shape");
  if (pooled.size() < 3 || kernel.size() + 2 != pooled.size()) {
    fail(ErrorKind::Shape, node.origin.str(), ": kernel_shape has ", kernel.size(),
         " numbers for an input of shape ", str(pooled));
  }
  const std::vector<int64_t> strides = per_axis(node, "strides", kernel.size(), 1),
                             pads = per_axis(node, "pads", 2 * kernel.size(), 0);
  constexpr int64_t kLargest = int64_t{1} << 31;
  Shape shape = {pooled[0], pooled[1]};
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t before = pads[i], after = pads[kernel.size() + i];
    const bool fits = kernel[i] >= 1 && kernel[i] <= kLargest && strides[i] >= 1 && strides[i] <= kLargest &&
                      before >= 0 && after >= 0 && before <= kLargest && after <= kLargest;
    if (!fits) {
      fail(ErrorKind::Shape, node.origin.str(), ": axis ", i, " has kernel ", kernel[i], ", stride ",
           strides[i], " and padding ", before, " and ", after,
           "; the first two must be positive, and none negative or over 2^31");
    }
    shape.push_back((pooled[2 + i] - Dim(1)) * Dim(strides[i]) + Dim(kernel[i] - before - after));
  }
  return shape;
}

void infer_max_unpool(InferContext& context) {
  const Shape& pooled = context.shape(0);
  Shape shape = unpooled(context.node(), pooled);
  const Shape& places = context.shape(1);
  const std::string unfit =
      text("X and I have shapes ", str(pooled), " and ", str(places), "; they must be the same");
  if (places.size() != pooled.size()) context.error(unfit);
  for (size_t i = 0; i < pooled.size(); ++i) need_equal(context, pooled[i], places[i], unfit);
  if (context.dtype(1) != DType::I64)
    context.error("I has type ", name_of(context.dtype(1)), "; i64 is needed");
  const Shape wanted = dims_attribute(context.node(), "output_shape");
  if (!wanted.empty()) {
    const std::string small = text("output_shape ", str(wanted), " does not hold ", str(shape));
    if (wanted.size() != shape.size()) context.error(small);
    for (size_t i = 0; i < shape.size(); ++i) context.require_at_most(shape[i], wanted[i], small);
    shape = wanted;
  }
  context.set_output(0, context.dtype(0), shape);
}

void lower_max_unpool(LowerContext& context) {
  const Shape before = unpooled(context.node(), context.shape(0));
  const DType type = LowerContext::compute_type(context.dtype(0));
  auto out = context.space("o", *context.output_value(0).shape);
  context.assign("zero", out.iterators, context.output(0), out.position,
                 is_float(type) ? constant(type, 0) : int_constant(type, 0));
  auto space = context.space("i", context.shape(0));
  Statement scatter;
  scatter.name = "scatter";
  scatter.iterators = space.iterators;
  scatter.write.buffer = context.output(0);
  scatter.write.index.resize(before.size());
  ExprPtr flat = context.read(1, space.position);
  const ExprPtr zero = int_constant(DType::I64, 0);
  for (size_t axis = before.size(); axis > 0; --axis) {
    const ExprPtr extent = index_value(context.dim(before[axis - 1]));
    const ExprPtr at = axis == 1 ? flat : binary(BinaryOp::Mod, flat, extent);
    const ExprPtr last = binary(BinaryOp::Sub, extent, int_constant(DType::I64, 1));
    scatter.write.index[axis - 1] = {Affine(0), binary(BinaryOp::Max, binary(BinaryOp::Min, at, last), zero)};
    flat = binary(BinaryOp::Div, flat, extent);
  }
  const DType stored = context.kernel().buffers[context.output(0)].dtype;
  scatter.value = context.read(0, space.position);
  if (scatter.value->dtype != stored) scatter.value = cast(stored, scatter.value);
  context.add(std::move(scatter));
}

}  // namespace

void register_unpooling_ops(OpTable& table) {
  OpRow columns;
  columns.name = "Col2Im";
  columns.category = "pooling";
  columns.doc = "The sum of windows, given as columns, at their places in an image.";
  columns.onnx = {{"Col2Im", 18, all_of({input_to_ints(2, "block_shape"), input_to_dims(1, "image_shape")})}};
  columns.maximum_inputs = 3;
  columns.attributes = {{"image_shape", std::vector<int64_t>(), true},
                        {"block_shape", std::vector<int64_t>(), true},
                        {"dilations", std::vector<int64_t>()},
                        {"pads", std::vector<int64_t>()},
                        {"strides", std::vector<int64_t>()}};
  columns.infer = infer_col2im;
  columns.lower = lower_col2im;
  table.add(std::move(columns));

  OpRow unpool;
  unpool.name = "MaxUnpool";
  unpool.category = "pooling";
  unpool.doc = "The elements at the places that a pooling took them from, 0 elsewhere.";
  unpool.onnx = {{"MaxUnpool", 9, input_to_dims(2, "output_shape")}};
  unpool.minimum_inputs = 2;
  unpool.maximum_inputs = 3;
  unpool.attributes = {{"kernel_shape", std::vector<int64_t>(), true},
                       {"output_shape", std::vector<int64_t>()},
                       {"pads", std::vector<int64_t>()},
                       {"strides", std::vector<int64_t>()}};
  unpool.infer = infer_max_unpool;
  unpool.lower = lower_max_unpool;
  table.add(std::move(unpool));
}

}  // namespace tc
