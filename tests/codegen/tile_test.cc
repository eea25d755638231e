// Register tiles: what the compiled kernels compute is what the interpreter says.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "scheduler/scheduler.h"
#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

TEST(CodegenTile, BlockedConvolutionInterior) {
  ConvolutionSpec spec;
  expect_like_interpreter(blocked_convolution(spec), host_targets(), {}, convolution_inputs(spec), 2e-6);
}

TEST(CodegenTile, BlockedConvolutionWithPaddingAndTail) {
  ConvolutionSpec spec;
  spec.height = spec.width = 9;
  spec.padding = 1;
  spec.columns = 4;  // 9 columns: the last tile has one
  expect_like_interpreter(blocked_convolution(spec), host_targets(), {}, convolution_inputs(spec), 2e-6);
}

TEST(CodegenTile, BlockedConvolutionWithStride) {
  ConvolutionSpec spec;
  spec.height = 11;
  spec.width = 13;
  spec.padding = 1;
  spec.stride = 2;
  spec.columns = 3;
  expect_like_interpreter(blocked_convolution(spec), host_targets(), {}, convolution_inputs(spec), 2e-6, 2);
}

TEST(CodegenTile, ElementwiseWithTail) {
  for (const int64_t count : {1, 15, 16, 17, 64, 100}) {
    expect_like_interpreter(elementwise_relu(count, 16), host_targets(), {},
                            {{"A", seeded(DType::F32, {count}, 1)}, {"B", seeded(DType::F32, {count}, 2)}},
                            0);
  }
}

TEST(CodegenTile, LanesThatWriteApart) {
  for (const DType dtype : {DType::F32, DType::I32, DType::F64}) {
    for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{37, 41}, {16, 21}}) {
      if (dtype != DType::F32 && rows != 37) continue;
      for (const auto& [width, copies] : std::vector<std::pair<int64_t, int64_t>>{
               {16, 16}, {16, 5}, {16, 40}, {8, 8}, {8, 3}, {4, 4}, {2, 4}, {12, 12}}) {
        for (const bool apart : {true, false}) {
          SCOPED_TRACE(text(rows, "x", columns, " by ", width, "x", copies, apart ? " apart" : ""));
          expect_like_interpreter(transposed(rows, columns, width, copies, dtype, apart), host_targets(), {},
                                  {{"A", seeded(dtype, {columns, rows}, 1)}}, 0);
        }
      }
    }
  }
}

// Four copies of bytes side by side are stored interleaved; where rows have five, lane by lane.
TEST(CodegenTile, FoursOfBytesThatLanesWriteApart) {
  for (const int64_t rows : {3, 16, 37, 64}) {
    for (const int64_t columns : {4, 5}) {
      for (const int64_t width : {4, 8, 16, 32}) {
        for (const bool apart : {true, false}) {
          SCOPED_TRACE(text(rows, "x", columns, " by ", width, apart ? " apart" : ""));
          expect_like_interpreter(transposed(rows, columns, width, 4, DType::U8, apart), host_targets(), {},
                                  {{"A", seeded(DType::U8, {columns, rows}, 1)}}, 0);
        }
      }
    }
  }
}

// A depthwise product of as many channels as an instruction adds up products of bytes: each has a sum of its
// own.
TEST(CodegenTile, FourChannelsOfBytesAreNoSum) {
  const Kernel kernel = parse_kernel(R"(kernel "four channels"
  input I u8[16, 4]
  constant K i8[4]
  output O i32[4, 16]
  local T i32[4, 16]
  init[g:4, x:16]: T[g, x] = 0
  macc[g:4, x:16]: T[g, x] += i32(I[x, g]) * i32(K[g])
  tail[g:4, x:16]: O[g, x] = T[g, x]
)");
  for (const Target& target : host_targets()) {
    Schedule schedule(kernel, target);
    EXPECT_EQ(
        schedule.replay({"split macc_g 4 as macc_go macc_gi", "order macc_go macc_gi macc_x",
                         "compute_at init at macc_go", "compute_at tail at macc_go", "order init_g init_x",
                         "unroll init_g", "vectorize init_x", "order tail_g tail_x", "unroll tail_g",
                         "vectorize tail_x", "register_tile macc_go", "vectorize macc_x", "unroll macc_gi"}),
        std::nullopt);
    expect_like_interpreter(schedule.finish(), target, {},
                            {{"I", seeded(DType::U8, {16, 4}, 1)}, {"K", seeded(DType::I8, {4}, 2)}}, 0);
  }
}

TEST(CodegenTile, Gemm) {
  for (const auto& [m, n, k] :
       std::vector<std::tuple<int64_t, int64_t, int64_t>>{{12, 32, 40}, {7, 33, 5}, {13, 64, 17}}) {
    expect_like_interpreter(gemm(m, n, k), host_targets(), {},
                            {{"A", seeded(DType::F32, {m, k}, 1)},
                             {"B", seeded(DType::F32, {k, n}, 2)},
                             {"bias", seeded(DType::F32, {n}, 3)}},
                            2e-6, 3);
  }
}

TEST(CodegenTile, RowReductionOverLanes) {
  for (const int64_t columns : {5, 16, 100}) {
    expect_like_interpreter(row_reduction(4, columns, Reduction::Sum), host_targets(), {},
                            {{"A", seeded(DType::F32, {4, columns}, 1)}}, 2e-6);
    expect_like_interpreter(row_reduction(4, columns, Reduction::Max), host_targets(), {},
                            {{"A", seeded(DType::F32, {4, columns}, 1)}}, 0);
    for (const Target& target : host_targets()) {
      expect_like_interpreter(row_reduction(4, columns, Reduction::MaxNumber), target, {},
                              {{"A", rows_with_nan(4, columns)}}, 0);
    }
  }
}

}  // namespace
}  // namespace tc::testing
