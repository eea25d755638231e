// Compiled kernels for riscv64 under qemu, and what their inner loops consist of.
#include <gtest/gtest.h>

#include "tests/codegen_harness.h"
#include "codegen/llvm/kernel_code.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

ConvolutionSpec small_convolution() {
  ConvolutionSpec spec;
  spec.height = spec.width = 9;
  spec.padding = 1;
  spec.stride = 2;
  spec.columns = 4;  // 5 columns: a tail
  spec.vectors = 1;
  return spec;
}

TEST(CodegenRiscv, ConvolutionOnEveryTarget) {
  const ConvolutionSpec spec = small_convolution();
  for (const int bits : {0, 128, 256, 512}) {
    SCOPED_TRACE(bits);
    expect_like_interpreter(blocked_convolution(spec), riscv_target(bits), {}, convolution_inputs(spec),
                            2e-6);
  }
}

TEST(CodegenRiscv, TailsAndReductions) {
  for (const int bits : {0, 128, 256}) {
    SCOPED_TRACE(bits);
    const Target target = riscv_target(bits);
    expect_like_interpreter(gemm(7, 33, 5), target, {},
                            {{"A", seeded(DType::F32, {7, 5}, 1)},
                             {"B", seeded(DType::F32, {5, 33}, 2)},
                             {"bias", seeded(DType::F32, {33}, 3)}},
                            2e-6, 2);
    expect_like_interpreter(row_reduction(3, 37, Reduction::Sum), target, {},
                            {{"A", seeded(DType::F32, {3, 37}, 1)}}, 2e-6);
    expect_like_interpreter(row_reduction(3, 37, Reduction::Max), target, {},
                            {{"A", seeded(DType::F32, {3, 37}, 1)}}, 0);
    expect_like_interpreter(row_reduction(3, 37, Reduction::MaxNumber), target, {},
                            {{"A", rows_with_nan(3, 37)}}, 0);
    expect_like_interpreter(symbolic_add(Scope::Input), target, {{"p0", 77}},
                            {{"A", seeded(DType::F32, {77}, 1)}, {"B", seeded(DType::F32, {77}, 2)}}, 0);
  }
}

TEST(CodegenRiscv, FunctionsAndTypes) {
  std::vector<Result> results;
  for (const UnaryOp op : {UnaryOp::Exp, UnaryOp::Tanh, UnaryOp::Erf, UnaryOp::Sigmoid, UnaryOp::Sin,
                           UnaryOp::Floor, UnaryOp::Round, UnaryOp::Abs}) {
    results.push_back({DType::F32, [op](const auto& in) { return unary(op, in[0]); }});
  }
  for (const DType to : {DType::F16, DType::BF16, DType::I8, DType::U8, DType::I64, DType::Bool}) {
    results.push_back({to, [to](const auto& in) { return cast(to, in[0]); }});
  }
  results.push_back(
      {DType::F32, [](const auto& in) { return binary(BinaryOp::Max, in[0], cast(DType::F32, in[1])); }});
  for (const int bits : {0, 128}) {
    SCOPED_TRACE(bits);
    expect_like_interpreter(several(45, 16, {DType::F32, DType::F16}, results), riscv_target(bits), {},
                            {{"A", seeded(DType::F32, {45}, 1)}, {"B", seeded(DType::F16, {45}, 2)}}, 3e-7);
  }
}

// One vector of 32 channels by 7 columns at 256 bits: LMUL 4.
TEST(CodegenRiscv, InnerLoopIsOneLoadAndSevenMultiplyAdds) {
  ConvolutionSpec spec;
  spec.input_blocks = spec.output_blocks = 2;
  spec.height = spec.width = 16;
  spec.columns = 7;
  spec.vectors = 1;
  spec.block = 32;
  spec.unroll = 2;
  const std::string assembly = kernel_assembly(blocked_convolution(spec), riscv_target(256), "kernel");
  const std::string loop = hottest_loop(assembly, "vfm");
  EXPECT_EQ(count_lines(loop, "vfmacc.vf") + count_lines(loop, "vfmadd.vf"), 14) << loop;
  EXPECT_EQ(count_lines(loop, "vle32.v"), 2) << loop;
  EXPECT_EQ(count_lines(loop, "flw"), 14) << loop;
  EXPECT_EQ(count_lines(loop, "vsetvli"), 0) << loop;
  EXPECT_EQ(count_lines(loop, "vsetivli"), 0) << loop;
  EXPECT_EQ(count_lines(loop, "vmv"), 0) << loop;
  EXPECT_EQ(count_lines(loop, "(sp)"), 0) << loop;
  // Two pointers of two additions each, the counter and the jump; a mask, with which the last trip loads its
  // own operands again.
  EXPECT_LE(count_lines(loop, "\t"), 14 + 14 + 2 + 11) << loop;
}

}  // namespace
}  // namespace tc::testing
