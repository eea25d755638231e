// Compiled kernels for aarch64 under qemu, with and without instructions for products of small numbers, and
// what their inner loops consist of.
#include <gtest/gtest.h>

#include <sstream>

#include "ir/error.h"
#include "codegen/llvm/kernel_code.h"
#include "ir/target/tables.h"
#include "scheduler/scheduler.h"
#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

Target target(const std::string& features = "") { return parse_target("aarch64" + features); }

int spills(const std::string& assembly) { return count_lines(assembly, "[sp"); }

ConvolutionSpec small_convolution(int64_t block, int64_t vectors, int64_t columns) {
  ConvolutionSpec spec;
  spec.output_blocks = 4;
  spec.height = spec.width = 9;
  spec.padding = 1;
  spec.stride = 2;
  spec.columns = columns;  // of 5: a tail
  spec.vectors = vectors;
  spec.block = block;
  return spec;
}

TEST(CodegenAarch64, ConvolutionsInSeveralTiles) {
  for (const auto& [block, vectors, columns] : {std::tuple(4, 4, 4), {4, 2, 3}, {16, 1, 4}}) {
    SCOPED_TRACE(text(block, " channels, ", vectors, " x ", columns));
    const ConvolutionSpec spec = small_convolution(block, vectors, columns);
    expect_like_interpreter(blocked_convolution(spec), target(), {}, convolution_inputs(spec), 2e-6);
  }
}

TEST(CodegenAarch64, TailsAndReductions) {
  for (const char* features : {"", "+dotprod", "+i8mm"}) {
    SCOPED_TRACE(features);
    expect_like_interpreter(gemm(7, 33, 5), target(features), {},
                            {{"A", seeded(DType::F32, {7, 5}, 1)},
                             {"B", seeded(DType::F32, {5, 33}, 2)},
                             {"bias", seeded(DType::F32, {33}, 3)}},
                            2e-6, 2);
  }
  for (const Reduction reduction : {Reduction::Sum, Reduction::Max}) {
    expect_like_interpreter(row_reduction(3, 37, reduction), target(), {},
                            {{"A", seeded(DType::F32, {3, 37}, 1)}}, reduction == Reduction::Sum ? 2e-6 : 0);
  }
  expect_like_interpreter(row_reduction(3, 37, Reduction::MaxNumber), target(), {},
                          {{"A", rows_with_nan(3, 37)}}, 0);
  expect_like_interpreter(softmax(3, 37), target(), {}, {{"A", seeded(DType::F32, {3, 37}, 1)}}, 1e-6);
  expect_like_interpreter(symbolic_add(Scope::Input), target(), {{"p0", 77}},
                          {{"A", seeded(DType::F32, {77}, 1)}, {"B", seeded(DType::F32, {77}, 2)}}, 0);
  expect_like_interpreter(transposed(13, 11, 4, 4, DType::F32, false), target(), {},
                          {{"A", seeded(DType::F32, {11, 13}, 1)}}, 0);
}

// Cores in order, whose code passes put in order, and such out of order.
TEST(CodegenAarch64, EveryCore) {
  for (const CoreRow* core : targets::cores_of(Arch::AArch64)) {
    SCOPED_TRACE(core->name);
    const Target machine = parse_target(core->name);
    for (const auto& [block, vectors, columns] : {std::tuple(4, 4, 4), {4, 2, 3}, {16, 1, 4}}) {
      const ConvolutionSpec spec = small_convolution(block, vectors, columns);
      expect_like_interpreter(blocked_convolution(spec), machine, {}, convolution_inputs(spec), 2e-6);
    }
    expect_like_interpreter(gemm(7, 33, 5), machine, {},
                            {{"A", seeded(DType::F32, {7, 5}, 1)},
                             {"B", seeded(DType::F32, {5, 33}, 2)},
                             {"bias", seeded(DType::F32, {33}, 3)}},
                            2e-6, 2);
    for (const Reduction reduction : {Reduction::Sum, Reduction::Max, Reduction::MaxNumber}) {
      const Tensors rows = {
          {"A", reduction == Reduction::MaxNumber ? rows_with_nan(3, 37) : seeded(DType::F32, {3, 37}, 1)}};
      expect_like_interpreter(row_reduction(3, 37, reduction), machine, {}, rows,
                              reduction == Reduction::Sum ? 2e-6 : 0);
    }
    expect_like_interpreter(softmax(3, 37), machine, {}, {{"A", seeded(DType::F32, {3, 37}, 1)}}, 1e-6);
  }
}

// The inner loop of a tile whose sums leave registers free: on a core in order each product's operands are
// loaded well before it, out of order where LLVM's instruction selection leaves them.
TEST(CodegenAarch64, InOrderLoadsComeAhead) {
  const auto waits = [](const char* name) {
    const ConvolutionSpec spec = small_convolution(4, 2, 3);
    std::istringstream loop(
        hottest_loop(kernel_assembly(blocked_convolution(spec), parse_target(name), "kernel"), "fmla"));
    int count = 0;
    std::string loaded;
    for (std::string line; std::getline(loop, line);) {
      // A register that the line before has loaded.
      if (!loaded.empty() && line.find("fmla") != std::string::npos && line.find(loaded) != std::string::npos)
        ++count;
      loaded.clear();
      if (line.find("\tldr\tq") == 0 || line.find("\tldr\ts") == 0)
        loaded = ", v" + line.substr(6, line.find(',') - 6) + ".";
    }
    return count;
  };
  for (const char* name : {"cortex-a53", "cortex-a55"}) EXPECT_EQ(waits(name), 0) << name;
}

TEST(CodegenAarch64, FunctionsAndTypes) {
  std::vector<Result> results;
  for (const UnaryOp op : {UnaryOp::Exp, UnaryOp::Log, UnaryOp::Tanh, UnaryOp::Erf, UnaryOp::Sigmoid,
                           UnaryOp::Sin, UnaryOp::Floor, UnaryOp::Round, UnaryOp::Abs, UnaryOp::Sqrt}) {
    results.push_back({DType::F32, [op](const auto& in) { return unary(op, in[0]); }});
  }
  for (const DType to :
       {DType::F16, DType::BF16, DType::I8, DType::U8, DType::I64, DType::F64, DType::Bool}) {
    results.push_back({to, [to](const auto& in) { return cast(to, in[0]); }});
  }
  results.push_back(
      {DType::F32, [](const auto& in) { return binary(BinaryOp::Max, in[0], cast(DType::F32, in[1])); }});
  Tensors inputs = {{"A", seeded(DType::F32, {45}, 1)}, {"B", seeded(DType::F16, {45}, 2)}};
  for (const int64_t width : {4, 16}) {
    SCOPED_TRACE(width);
    expect_like_interpreter(several(45, width, {DType::F32, DType::F16}, results), target(), {}, inputs,
                            3e-7);
  }
}

TEST(CodegenAarch64, InnerLoopsAreMultiplyAddsAndDoNotSpill) {
  for (const auto& [vectors, columns] : {std::pair(4, 6), {3, 8}, {2, 12}, {1, 14}}) {
    SCOPED_TRACE(text(vectors, " x ", columns));
    ConvolutionSpec spec;
    spec.input_blocks = 4;
    spec.output_blocks = 12;
    spec.height = spec.width = 2 * columns + 2;
    spec.block = 4;
    spec.vectors = vectors;
    spec.columns = columns;
    spec.unroll = 1;
    const std::string loop =
        hottest_loop(kernel_assembly(blocked_convolution(spec), target(), "kernel"), "fmla");
    EXPECT_GE(count_lines(loop, "fmla"), vectors * columns) << loop;
    EXPECT_EQ(count_lines(loop, "fmul") + count_lines(loop, "fadd"), 0) << loop;
    EXPECT_EQ(spills(loop), 0) << loop;
  }
}

TEST(CodegenAarch64, DefaultsOfProductsAndConvolutionsDoNotSpill) {
  for (
      const char* text :
      {"kernel \"product\"\n  input A f32[96, 128]\n  constant B f32[128, 96]\n  output C f32[96, 96]\n"
       "  init[m:96, n:96]: C[m, n] = 0\n  macc[m:96, n:96, k:128]: C[m, n] += A[m, k] * B[k, n]\n",
       "kernel \"convolution\"\n  input X f32[1, 64, 32, 32]\n  constant W f32[64, 64, 3, 3]\n  output O f32[1, 64, 30, 30]\n"
       "  init[f:64, y:30, x:30]: O[0, f, y, x] = 0\n  macc[f:64, y:30, x:30, c:64, r:3, s:3]: O[0, f, y, x] += "
       "X[0, c, y + r, x + s] * W[f, c, r, s]\n"}) {
    const Kernel kernel = parse_kernel(text);
    const std::vector<std::string> layouts = kernel.buffers[0].shape.size() == 4
                                                 ? std::vector<std::string>{"layout X 1 4", "layout O 1 4"}
                                                 : std::vector<std::string>{};
    const Schedule schedule = default_schedule(kernel, target(), 1, layouts);
    const std::string loop = hottest_loop(kernel_assembly(schedule.finish(), target(), "kernel"), "fmla");
    EXPECT_GE(count_lines(loop, "fmla"), 20) << loop;
    EXPECT_EQ(spills(loop), 0) << loop;
  }
}

// --- products of small numbers -----------------------------------------------------------------

Tensors small_numbers(const ScheduledKernel& scheduled, bool extreme) {
  return drawn_inputs(scheduled.kernel, [=](const Buffer&, std::mt19937& random) -> int64_t {
    const int64_t value = static_cast<int64_t>(random() % 256) - 128;
    return extreme ? (value < 0 ? -128 : 127) : value;
  });
}

// Every row of the tables: what it computes, and that it is there, without copies of registers or spills.
TEST(CodegenAarch64, EveryInstructionMultiplies) {
  for (const targets::ProductGroup& row : targets::aarch64_products()) {
    for (const NarrowProduct& instruction : row.instructions) {
      const Target machine = target(text("+", row.feature, ",+", instruction.feature));
      const MatrixUnit::Format& format = *machine.matrix.format(instruction.a);
      ASSERT_EQ(format.instruction->name, instruction.name);
      for (const Products& p :
           {Products{}, Products{.rows = 1}, Products{.tiles = 1, .blocks = 4, .next_to_each_other = false},
            Products{.rows = 1, .tiles = 3, .blocks = 1, .steps = 1}}) {
        if (p.rows > machine.matrix.rows) continue;
        SCOPED_TRACE(text(instruction.name, " ", p.rows, " rows, ", p.tiles, " x ", p.blocks));
        const ScheduledKernel scheduled = products(p, machine.matrix, format);
        for (const bool extreme : {false, true}) {
          expect_like_interpreter(scheduled, machine, {}, small_numbers(scheduled, extreme), 1e-6);
        }
      }
      const Products hot{
          .rows = machine.matrix.rows, .tiles = 4 / machine.matrix.parts, .blocks = 4, .steps = 8};
      const std::string loop = hottest_loop(
          kernel_assembly(products(hot, machine.matrix, format), machine, "kernel"), instruction.name);
      const int64_t each =
          hot.tiles * hot.blocks * machine.matrix.parts * format.groups * format.pack / instruction.depth;
      EXPECT_EQ(count_lines(loop, instruction.name), each) << loop;
      EXPECT_EQ(spills(loop) + count_lines(loop, "\tmov\tv"), 0) << loop;
    }
  }
}

TEST(CodegenAarch64, WhatTheUnitCannotDoIsABug) {
  const Target machine = target("+i8mm");
  const auto refused = [&](const Products& p) {
    try {
      kernel_assembly(products(p, machine.matrix, *machine.matrix.format(DType::I8)), machine, "kernel");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Internal);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused({.tiles = 4, .blocks = 3}), "accepted");  // 24 registers of sums, six or more of operands
  EXPECT_NE(refused({.tiles = 4, .blocks = 4}).find("for 38 vectors of statement 'macc'"), std::string::npos);
  EXPECT_NE(refused({.rows = 3}).find("for loop '%mi' of statement 'macc'"), std::string::npos);
}

}  // namespace
}  // namespace tc::testing
