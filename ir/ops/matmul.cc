// Matrix products.
#include "ir/ops/equation.h"
#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

std::string gemm_equation(const Node& node) {
  const bool ta = int_attribute(node, "transA"), tb = int_attribute(node, "transB");
  return text("C[m,n] += A[", ta ? "k,m" : "m,k", "] * B[", tb ? "n,k" : "k,n", "]");
}

void infer_gemm(InferContext& context) {
  const Shape shape = infer_equation(context, gemm_equation(context.node()));
  if (!context.has_input(2)) return;
  const Shape& c = context.shape(2);
  const std::string unfit =
      text("C of shape ", str(c), " does not broadcast to the product's shape ", str(shape));
  if (c.size() > shape.size()) context.error(unfit);
  for (size_t i = 0; i < c.size(); ++i) {
    if (c[i] != Dim(1)) need_equal(context, c[i], shape[shape.size() - c.size() + i], unfit);
  }
}

// If the bias is scaled (beta), scaling only the weights would not scale the result.
std::optional<OutputChannels> gemm_channels(const Node& node) {
  if (float_attribute(node, "beta") != 1 && node.inputs.size() > 2) return std::nullopt;
  return OutputChannels{int_attribute(node, "transB") ? size_t{0} : size_t{1}, 1};
}

void lower_gemm(LowerContext& context) {
  const Node& node = context.node();
  const Shape& output = *context.output_value(0).shape;
  const double alpha = float_attribute(node, "alpha"), beta = float_attribute(node, "beta");
  const bool bias = context.has_input(2) && beta != 0;
  const DType type = LowerContext::compute_type(context.dtype(0));
  const int sum = bias || alpha != 1 ? context.local("sum", type, output) : context.output(0);
  lower_equation(context, gemm_equation(node), "macc", sum);
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
  matmul.equation = "C[...,m?,n?] += A[...,m?,k] * B[...,k,n?]";
  matmul.traits.contraction = OpTraits::Contraction::Product;
  matmul.traits.of_bytes = "IntegerMatMul";
  matmul.onnx = {{"MatMul", 1}};
  matmul.minimum_inputs = matmul.maximum_inputs = 2;
  matmul.types = {{kWideNumbers}};

  OpRow integers;
  integers.name = "IntegerMatMul";
  integers.category = "quantisation";
  integers.doc =
      "Matrix product of 8-bit integers, whose products are added up exactly, in 32 bits; the compiler makes it of quantised ones.";
  integers.equation = "C[...,m?,n?] += i32(A[...,m?,k]) * i32(B[...,k,n?])";
  integers.traits.contraction = OpTraits::Contraction::Product;
  integers.minimum_inputs = integers.maximum_inputs = 2;
  integers.types = {{kBytes, {0}}, {kBytes, {1}}};

  table.add(std::move(matmul));
  table.add(std::move(integers));

  OpRow gemm;
  gemm.name = "Gemm";
  gemm.category = "matrix product";
  gemm.doc = "alpha * A * B + beta * C, with either operand transposed.";
  gemm.equation = "C[m,n] += A[m,k] * B[k,n]";
  gemm.traits.contraction = OpTraits::Contraction::Product;
  gemm.traits.of_bytes = "IntegerMatMul";
  gemm.output_channels = gemm_channels;
  gemm.onnx = {{"Gemm", 1, drop_attributes({"broadcast"})}, {"Gemm", 7}};
  gemm.minimum_inputs = 2;
  gemm.maximum_inputs = 3;
  gemm.types = {{kWideNumbers}};
  gemm.attributes = {{"alpha", 1.0}, {"beta", 1.0}, {"transA", int64_t{0}}, {"transB", int64_t{0}}};
  gemm.infer = infer_gemm;
  gemm.lower = lower_gemm;
  table.add(std::move(gemm));
}

}  // namespace tc
