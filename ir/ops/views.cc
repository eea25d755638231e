// Views: the operand's elements in row-major order under another shape, or as they are.
#include <algorithm>

#include "ir/ops/rows.h"

namespace tc {
namespace {

// Copies in row-major order between two shapes of equal size: axes are grouped where their products
// agree; a group that is not one axis on both sides goes through its flat index.
void lower_view(LowerContext& context) {
  const Shape& in = context.shape(0);
  const Shape& out = *context.output_value(0).shape;
  auto space = context.space("i", out);
  std::vector<Subscript> index;
  size_t a = 0, b = 0;
  while (a < in.size() || b < out.size()) {
    if (a < in.size() && in[a] == Dim(1)) {
      index.push_back({Affine(0), nullptr});
      ++a;
      continue;
    }
    if (b < out.size() && out[b] == Dim(1)) {
      ++b;
      continue;
    }
    if (a < in.size() && b < out.size() && in[a] == out[b]) {
      index.push_back({space.position[b++], nullptr});
      ++a;
      continue;
    }
    const size_t first_in = a, first_out = b;
    Dim inside = a < in.size() ? in[a++] : Dim(1), outside = b < out.size() ? out[b++] : Dim(1);
    while (inside != outside && (a < in.size() || b < out.size())) {
      const bool grow_in =
          b >= out.size() || (a < in.size() && inside.is_constant() && outside.is_constant() &&
                              inside.constant() < outside.constant());
      if (grow_in || (a < in.size() && !(inside.is_constant() && outside.is_constant()) &&
                      a - first_in <= b - first_out)) {
        inside = inside * in[a++];
      } else {
        outside = outside * out[b++];
      }
    }
    if (a - first_in == 1 && is_constant({out.begin() + static_cast<int64_t>(first_out) + 1,
                                          out.begin() + static_cast<int64_t>(b)})) {
      Affine merged = 0;
      for (size_t i = first_out; i < b; ++i)
        merged = merged * (out[i].is_constant() ? out[i].constant() : 1) + space.position[i];
      index.push_back({merged, nullptr});
      continue;
    }
    ExprPtr flat = int_constant(DType::I64, 0);
    for (size_t i = first_out; i < b; ++i) {
      flat = binary(BinaryOp::Add, binary(BinaryOp::Mul, flat, index_value(context.dim(out[i]))),
                    index_value(space.position[i]));
    }
    std::vector<Subscript> part(a - first_in);
    for (size_t i = a; i > first_in; --i) {
      ExprPtr extent = index_value(context.dim(in[i - 1]));
      const bool outermost = i - 1 == first_in;
      part[i - 1 - first_in] = {Affine(0), outermost ? flat : binary(BinaryOp::Mod, flat, extent)};
      flat = binary(BinaryOp::Div, flat, extent);
    }
    index.insert(index.end(), part.begin(), part.end());
  }
  context.assign("copy", space.iterators, context.output(0), space.position,
                 context.read(0, std::move(index)));
}

OpRow view(const std::string& name, const std::string& doc, std::function<Shape(InferContext&)> shape) {
  OpRow row;
  row.name = name;
  row.kind = OpRow::Kind::View;
  row.category = "view";
  row.doc = doc;
  row.onnx = {{name, 1}};
  row.infer = [shape](InferContext& context) {
    const Shape result = shape(context);
    // If the shapes differ in only one axis, the two sizes of that axis must be equal.
    const Shape& in = context.shape(0);
    std::vector<size_t> other;
    for (size_t i = 0; in.size() == result.size() && i < in.size(); ++i) {
      if (in[i] != result[i]) other.push_back(i);
    }
    const bool one = other.size() == 1 && !in[other[0]].is_constant();
    const Dim had = one ? in[other[0]] : element_count(in),
              has = one ? result[other[0]] : element_count(result);
    context.require_equal(
        had, has,
        text("a tensor of shape ", str(in), " cannot take shape ", str(result), ": they have ",
             element_count(in).str(), " and ", element_count(result).str(), " elements"));
    context.set_output(0, context.dtype(0), result);
    if (auto elements = context.elements(0); elements && result.size() <= 1)
      context.set_elements(0, *elements);
  };
  row.lower = lower_view;
  return row;
}

Shape reshaped(InferContext& context) {
  const Shape& in = context.shape(0);
  std::vector<Dim> shape = dims_attribute(context.node(), "shape");
  const bool zeros = int_attribute(context.node(), "allowzero") != 0;
  int unknown = -1;
  Dim known = 1;
  // Equal factors of both sides cancel first, so that symbols never need dividing.
  std::vector<Dim> left(in.begin(), in.end());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Dim(0) && !zeros) {
      if (i >= in.size()) context.error("the new shape ", str(shape), " copies axis ", i, " of ", str(in));
      shape[i] = in[i];
    }
    if (shape[i] == Dim(-1)) {
      if (unknown >= 0) context.error("the new shape ", str(shape), " has more than one -1");
      unknown = static_cast<int>(i);
      continue;
    }
    auto same = std::find(left.begin(), left.end(), shape[i]);
    if (same != left.end()) left.erase(same);
    else known = known * shape[i];
  }
  if (unknown >= 0) {
    const Dim total = element_count(left);
    if (known == Dim(0))
      context.error("the -1 in the new shape ", str(shape), " is ambiguous: another axis is 0");
    if (known.is_constant() && total.is_constant() && total.constant() % known.constant() != 0) {
      context.error("a tensor of shape ", str(in), " cannot take shape ", str(shape));
    }
    shape[unknown] = floor_div(total, known);
  }
  return shape;
}

Shape flattened(InferContext& context) {
  const Shape& in = context.shape(0);
  const int64_t rank = context.rank(0);
  int64_t axis = int_attribute(context.node(), "axis");
  if (axis < 0) axis += rank;
  return {element_count({in.begin(), in.begin() + axis}), element_count({in.begin() + axis, in.end()})};
}

Shape squeezed(InferContext& context) {
  const Shape& in = context.shape(0);
  std::vector<bool> drop(in.size(), false);
  const std::vector<int64_t> axes =
      has_attribute(context.node(), "axes") ? ints_attribute(context.node(), "axes") : std::vector<int64_t>();
  for (int64_t axis : axes) {
    axis = context.axis(axis, context.rank(0));
    context.require_equal(in[axis], Dim(1),
                          text("axis ", axis, " of shape ", str(in), " is not 1 and cannot be squeezed"));
    drop[axis] = true;
  }
  Shape result;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!drop[i] && !(axes.empty() && in[i] == Dim(1))) result.push_back(in[i]);
  }
  return result;
}

Shape unsqueezed(InferContext& context) {
  const Shape& in = context.shape(0);
  const std::vector<int64_t> axes = ints_attribute(context.node(), "axes");
  const int64_t rank = context.rank(0) + static_cast<int64_t>(axes.size());
  if (rank > 16) context.error("a tensor of rank ", rank, " is over the limit of 16");
  std::vector<bool> fresh(static_cast<size_t>(rank), false);
  for (int64_t axis : axes) {
    axis = context.axis(axis, rank);
    if (fresh[axis]) context.error("axis ", axis, " is given twice");
    fresh[axis] = true;
  }
  Shape result;
  auto next = in.begin();
  for (bool one : fresh) result.push_back(one ? Dim(1) : *next++);
  return result;
}

Shape same_shape(InferContext& context) { return context.shape(0); }

}  // namespace

void register_view_ops(OpTable& table) {
  OpRow reshape = view("Reshape", "The elements in row-major order under another shape.", reshaped);
  reshape.onnx = {{"Reshape", 1}, {"Reshape", 5, input_to_dims(1, "shape")}};
  reshape.maximum_inputs = 2;
  reshape.attributes = {{"shape", std::vector<int64_t>(), true}, {"allowzero", int64_t{0}}};
  table.add(std::move(reshape));

  OpRow flatten = view("Flatten", "A matrix: the axes before `axis`, and the others.", flattened);
  flatten.attributes = {{"axis", int64_t{1}, false, "", axis_of(0, 0, 1)}};
  table.add(std::move(flatten));

  OpRow squeeze = view("Squeeze", "Without axes of extent 1.", squeezed);
  squeeze.onnx = {{"Squeeze", 1, input_to_ints(1, "axes")}};
  squeeze.maximum_inputs = 2;
  squeeze.attributes = {{"axes", std::vector<int64_t>(), false, "", axis_of(0)}};
  table.add(std::move(squeeze));

  OpRow unsqueeze = view("Unsqueeze", "With new axes of extent 1.", unsqueezed);
  unsqueeze.onnx = {{"Unsqueeze", 1, input_to_ints(1, "axes")}};
  unsqueeze.maximum_inputs = 2;
  unsqueeze.attributes = {{"axes", std::vector<int64_t>(), true}};
  table.add(std::move(unsqueeze));

  table.add(view("Identity", "The operand.", same_shape));
}

}  // namespace tc
