// Kernels of every class alone, as the compiler schedules them untuned: one case each.
#include "ir/error.h"
#include "tests/bench/support.h"

namespace tc::bench {
namespace {

// The shapes of a convolution with bias and ReLU, square in every respect.
struct Convolution {
  int64_t inputs, outputs, size;  // channels; rows and columns of the input
  int64_t filter = 3, stride = 1, groups = 1;
};

std::string graph_of(const Convolution& c) {
  const int64_t pad = c.filter / 2;
  return text("graph convolution {\n  input x f32[1, ", c.inputs, ", ", c.size, ", ", c.size,
              "]\n  constant w f32[", c.outputs, ", ", c.inputs / c.groups, ", ", c.filter, ", ", c.filter,
              "] #0\n  constant b f32[", c.outputs, "] #0\n  c f32[?] = Conv(x, w, b) {group = ", c.groups,
              ", pads = [", pad, ", ", pad, ", ", pad, ", ", pad, "], strides = [", c.stride, ", ", c.stride,
              "]}\n  y f32[?] = Relu(c)\n  output y\n}\n");
}

std::string product(int64_t m, int64_t n, int64_t k) {
  return text("graph product {\n  input x f32[", m, ", ", k, "]\n  constant w f32[", k, ", ", n,
              "] #0\n  y f32[?] = MatMul(x, w)\n  output y\n}\n");
}

// A GRU step of that many units: the state times its three matrices, and the gates.
std::string gru_step(int64_t units) {
  return text("graph gru_step {\n  input x f32[2, 1, ", units, "]\n  constant w f32[1, ", 3 * units, ", ",
              units, "] #0\n  constant r f32[1, ", 3 * units, ", ", units, "] #0\n  constant b f32[1, ",
              6 * units, "] #0\n  y f32[?] = GRU(x, w, r, b) {hidden_size = ", units,
              ", linear_before_reset = 1}\n  output y\n}\n");
}

std::string row_program(const std::string& shape, const std::string& node, int64_t columns) {
  return text("graph rows {\n  input x f32", shape, "\n  constant scale f32[", columns,
              "] #0\n  constant shift f32[", columns, "] #0\n  y f32[?] = ", node, "\n  output y\n}\n");
}

const bool registered = [] {
  register_kernel("gemm/512x512x512", product(512, 512, 512));
  register_kernel("gemm/512x512x512/threads:2", product(512, 512, 512), 2);
  register_kernel("gemm/128x768x768", product(128, 768, 768));
  register_kernel("matrix_vector/1024x1024", product(1, 1024, 1024));
  register_kernel("matrix_vector/4096x4096", product(1, 4096, 4096));
  for (const Convolution& c : {Convolution{64, 64, 56}, {128, 128, 28}, {256, 256, 14}, {512, 512, 7}})
    register_kernel(text("conv3x3/", c.inputs, "x", c.size), graph_of(c));
  register_kernel("conv3x3/64x56/threads:2", graph_of({64, 64, 56}), 2);
  register_kernel("conv3x3s2/128x56", graph_of({128, 128, 56, 3, 2}));
  register_kernel("conv1x1/64-256x56", graph_of({64, 256, 56, 1}));
  register_kernel("conv1x1/256-64x56", graph_of({256, 64, 56, 1}));
  register_kernel("conv1x1/512x28", graph_of({512, 512, 28, 1}));
  register_kernel("conv1x1/1024-256x14", graph_of({1024, 256, 14, 1}));
  register_kernel("conv1x1/512-2048x7", graph_of({512, 2048, 7, 1}));
  register_kernel("first7x7s2/3-64x224", graph_of({3, 64, 224, 7, 2}));
  register_kernel("first11x11s4/3-96x224", graph_of({3, 96, 224, 11, 4}));
  register_kernel("depthwise3x3/32x112", graph_of({32, 32, 112, 3, 1, 32}));
  register_kernel("depthwise3x3/512x14", graph_of({512, 512, 14, 3, 1, 512}));
  register_kernel("depthwise3x3s2/128x56", graph_of({128, 128, 56, 3, 2, 128}));
  register_kernel("softmax/1536x128", row_program("[12, 128, 128]", "Softmax(x) {axis = -1}", 128));
  register_kernel(
      "layer_norm/128x768",
      row_program("[128, 768]", "LayerNormalization(x, scale, shift) {axis = -1, epsilon = 1e-5}", 768));
  register_kernel("gru_step/400", gru_step(400));
  register_kernel("transpose/256x28x28",
                  "graph transpose {\n  input x f32[1, 256, 28, 28]\n  y f32[?] = "
                  "Transpose(x) {perm = [0, 2, 3, 1]}\n  output y\n}\n");
  return true;
}();

}  // namespace
}  // namespace tc::bench
