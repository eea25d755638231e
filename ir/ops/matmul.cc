// Matrix products.
#include <algorithm>

#include "ir/ops/equation.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

// The operands' matrix shapes: a vector is a row on the left and a column on the right.
struct Product {
  Shape batch;                     // broadcast
  Dim m, n, k;
  bool left_vector, right_vector;
};

Product product_of(const Shape& a, const Shape& b) {
  Product product;
  product.left_vector = a.size() == 1;
  product.right_vector = b.size() == 1;
  product.m = product.left_vector ? Dim(1) : a[a.size() - 2];
  product.n = product.right_vector ? Dim(1) : b[b.size() - 1];
  product.k = a.back();
  return product;
}

Shape batch_of(const Shape& shape) {
  return shape.size() <= 2 ? Shape() : Shape(shape.begin(), shape.end() - 2);
}

// 32 or 64 bits, as the format has them.
bool is_multiplied(DType dtype) {
  return is_float(dtype) || (is_integer(dtype) && size_of(dtype) >= 4);
}

constexpr const char* kMultiplied = "a float type or an integer type of 32 or 64 bits";

void infer_matmul(InferContext& context) {
  const Shape& a = context.shape(0);
  const Shape& b = context.shape(1);
  if (a.empty() || b.empty()) context.error("operands of shapes ", str(a), " and ", str(b), "; a matrix product needs rank 1 or more");
  const Dim& other = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (a.back() != other) {
    context.error("`k` is ", a.back().str(), " in A of shape ", str(a), " but ", other.str(), " in B of shape ", str(b));
  }
  const Product product = product_of(a, b);
  Shape shape = context.broadcast({batch_of(a), batch_of(b)});
  if (!product.left_vector) shape.push_back(product.m);
  if (!product.right_vector) shape.push_back(product.n);
  require_one_type(context, is_multiplied, kMultiplied);
  context.set_output(0, context.dtype(0), shape);
}

void lower_matmul(LowerContext& context) {
  const Shape& a = context.shape(0);
  const Shape& b = context.shape(1);
  const Product product = product_of(a, b);
  const Shape& output = *context.output_value(0).shape;
  const size_t batches = output.size() - (product.left_vector ? 0 : 1) - (product.right_vector ? 0 : 1);
  auto batch = context.space("b", {output.begin(), output.begin() + static_cast<int64_t>(batches)});
  std::vector<Iterator> outer = batch.iterators, inner;
  auto iterate = [&](std::vector<Iterator>& list, const std::string& name, const Dim& extent) {
    if (extent == Dim(1)) return Affine(0);
    list.push_back({name, context.dim(extent)});
    return Affine::variable(name);
  };
  const Affine m = iterate(outer, "m", product.m), n = iterate(outer, "n", product.n);
  const Affine k = iterate(inner, "k", product.k);
  std::vector<Affine> left = context.broadcast_index(batch_of(a), batch.position);
  std::vector<Affine> right = context.broadcast_index(batch_of(b), batch.position);
  std::vector<Affine> out = batch.position;
  if (!product.left_vector) {
    left.push_back(m);
    out.push_back(m);
  }
  left.push_back(k);
  right.push_back(k);
  if (!product.right_vector) {
    right.push_back(n);
    out.push_back(n);
  }
  ExprPtr value = binary(BinaryOp::Mul, context.read_buffer(context.input(0), left),
                         context.read_buffer(context.input(1), right));
  context.reduce("macc", outer, inner, context.output(0), out, Reduction::Sum, value);
}

void infer_gemm(InferContext& context) {
  require_one_type(context, is_multiplied, kMultiplied);
  if (context.rank(0) != 2 || context.rank(1) != 2) {
    context.error("operands of shapes ", str(context.shape(0)), " and ", str(context.shape(1)), "; rank 2 is needed");
  }
  const bool ta = int_attribute(context.node(), "transA"), tb = int_attribute(context.node(), "transB");
  const Shape& a = context.shape(0);
  const Shape& b = context.shape(1);
  const Dim &k = a[ta ? 0 : 1], &other = b[tb ? 1 : 0];
  if (k != other) {
    context.error("`k` is ", k.str(), " in A of shape ", str(a), " but ", other.str(), " in B of shape ", str(b));
  }
  const Shape shape = {a[ta ? 1 : 0], b[tb ? 0 : 1]};
  if (context.has_input(2) && context.broadcast({shape, context.shape(2)}) != shape) {
    context.error("C of shape ", str(context.shape(2)), " does not broadcast to the product's shape ", str(shape));
  }
  context.set_output(0, context.dtype(0), shape);
}

void lower_gemm(LowerContext& context) {
  const Node& node = context.node();
  const bool ta = int_attribute(node, "transA"), tb = int_attribute(node, "transB");
  const Shape& output = *context.output_value(0).shape;
  const double alpha = float_attribute(node, "alpha"), beta = float_attribute(node, "beta");
  const bool bias = context.has_input(2) && beta != 0;
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int sum = bias || alpha != 1 ? context.local("sum", type, output) : context.output(0);
  EquationNames names;
  names.type = type;
  names.extents = {{"m", output[0]}, {"n", output[1]}, {"k", context.shape(0)[ta ? 0 : 1]}};
  names.buffers = {{"A", context.input(0)}, {"B", context.input(1)}, {"C", sum}};
  lower_equation(context, text("C[m,n] += A[", ta ? "k,m" : "m,k", "] * B[", tb ? "n,k" : "k,n", "]"), names, "macc");
  if (sum == context.output(0)) return;
  auto space = context.space("o", output);
  ExprPtr value = context.read_buffer(sum, space.position);
  if (alpha != 1) value = binary(BinaryOp::Mul, value, constant(type, alpha));
  if (bias) {
    ExprPtr c = context.read(2, context.broadcast_index(context.shape(2), space.position));
    if (beta != 1) c = binary(BinaryOp::Mul, c, constant(type, beta));
    value = binary(BinaryOp::Add, value, c);
  }
  context.assign("tail", space.iterators, context.output(0), space.position, value);
}

}  // namespace

void register_matmul_ops(OpTable& table) {
  OpRow matmul;
  matmul.name = "MatMul";
  matmul.category = "matrix product";
  matmul.doc = "Matrix product with broadcast batch axes; vectors as numpy takes them.";
  matmul.equation = "C[b,m,n] += A[b,m,k] * B[b,k,n]";
  matmul.onnx = {{"MatMul", 1}};
  matmul.aten = {"aten::matmul", "aten::mm", "aten::bmm"};
  matmul.minimum_inputs = matmul.maximum_inputs = 2;
  matmul.infer = infer_matmul;
  matmul.lower = lower_matmul;
  table.add(std::move(matmul));

  OpRow gemm;
  gemm.name = "Gemm";
  gemm.category = "matrix product";
  gemm.doc = "alpha * A * B + beta * C, with either operand transposed.";
  gemm.equation = "C[m,n] += A[m,k] * B[k,n]";
  gemm.onnx = {{"Gemm", 1, drop_attributes({"broadcast"})}, {"Gemm", 7}};
  gemm.aten = {"aten::addmm", "aten::linear"};
  gemm.minimum_inputs = 2;
  gemm.maximum_inputs = 3;
  gemm.attributes = {{"alpha", 1.0}, {"beta", 1.0}, {"transA", int64_t{0}}, {"transB", int64_t{0}}};
  gemm.infer = infer_gemm;
  gemm.lower = lower_gemm;
  table.add(std::move(gemm));
}

}  // namespace tc
