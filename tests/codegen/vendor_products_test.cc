// Products by instructions of RISC-V that LLVM does not know, which rows of the table of narrow products
// encode. The rows here are invented, or encode an instruction of the vector extension, which qemu executes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "ir/error.h"
#include "codegen/llvm/kernel_code.h"
#include "ir/target/narrow_product.h"
#include "scheduler/scheduler.h"
#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

using enum DType;

// The sum of 32 bits of each lane plus the products of four bytes.
constexpr NarrowProduct kFourBytes = {.name = "vx.dot4",
                                      .intrinsic = "",
                                      .feature = "v",
                                      .a = I8,
                                      .b = I8,
                                      .sum = I32,
                                      .rows = 1,
                                      .columns = 16,
                                      .depth = 4,
                                      .pack = 4,
                                      .cycles = 1,
                                      .depth_multiples = {4},
                                      .encoding = {0x0b, 0, 0x2a, 32}};
// Four rows times four columns of eight bytes each.
constexpr NarrowProduct kMatrices = {.name = "vx.mm",
                                     .intrinsic = "",
                                     .feature = "v",
                                     .a = I8,
                                     .b = I8,
                                     .sum = I32,
                                     .rows = 4,
                                     .columns = 4,
                                     .depth = 8,
                                     .pack = 8,
                                     .cycles = 1,
                                     .depth_multiples = {1},
                                     .encoding = {0x2b, 3, 0x71, 8}};
// `vwmacc.vv`.
constexpr NarrowProduct kWidening = {.name = "vwmacc",
                                     .intrinsic = "",
                                     .feature = "v",
                                     .a = I16,
                                     .b = I16,
                                     .sum = I32,
                                     .rows = 1,
                                     .columns = 8,
                                     .depth = 1,
                                     .pack = 1,
                                     .cycles = 1,
                                     .depth_multiples = {4},
                                     .encoding = {0x57, 2, 0x7b, 16}};

// A target whose matrix unit has this instruction, as ir/target/instructions.cc makes it of a row.
Target with_unit(const NarrowProduct& row, int columns) {
  Target target = parse_target("rv64gcv_zvl256b");
  MatrixUnit& unit = target.matrix;
  unit.rows = row.rows;
  unit.columns = columns;
  unit.registers = 32;
  unit.vectors = true;
  unit.parts = columns / row.columns;
  for (const int multiple : row.depth_multiples) {
    if (multiple > 0)
      unit.formats.push_back(
          {row.a, row.kept, multiple * row.depth / row.pack, row.pack, multiple * row.cycles, &row});
  }
  return target;
}

// How many instructions of the row the object file has, at any even address.
int encoded(const Bytes& object, const NarrowProduct& row) {
  const auto [opcode, function3, function7, bits] = row.encoding;
  const auto wanted = static_cast<uint32_t>(function7 << 25 | function3 << 12 | opcode);
  int count = 0;
  for (size_t at = 0; at + sizeof(uint32_t) <= object.size(); at += 2) {
    uint32_t word = 0;
    std::memcpy(&word, &object[at], sizeof(word));
    count += (word & 0xfe00707fU) == wanted;
  }
  return count;
}

std::string configuration(const NarrowProduct& row, const std::string& group) {
  return text(", e", row.encoding.element_bits, ", ", group, ", ta, ma\n");
}

TEST(VendorProducts, AnEncodedInstructionComputes) {
  for (const int columns : {8, 16}) {
    const Target target = with_unit(kWidening, columns);
    for (const Products& p :
         {Products{.rows = 1}, Products{.rows = 1, .tiles = 3, .blocks = 1, .steps = 1}}) {
      SCOPED_TRACE(text(columns, " columns, ", p.tiles, " x ", p.blocks));
      const ScheduledKernel scheduled = products(p, target.matrix, target.matrix.formats[0]);
      const Tensors inputs =
          drawn_inputs(scheduled.kernel, [](const Buffer&, std::mt19937& random) -> int64_t {
            return static_cast<int64_t>(random() % 2000) - 1000;
          });
      expect_like_interpreter(scheduled, target, {}, inputs, 0);
      EXPECT_GT(encoded(kernel_object(scheduled, target, "kernel"), kWidening), 0);
    }
  }
}

TEST(VendorProducts, EveryShapeIsEmitted) {
  for (const auto& [row, columns, group] : {std::tuple(&kFourBytes, 16, "m2"),
                                            {&kMatrices, 4, "m1"},
                                            {&kMatrices, 8, "m1"},
                                            {&kWidening, 16, "mf2"}}) {
    SCOPED_TRACE(text(row->name, ", ", columns, " columns"));
    const Target target = with_unit(*row, columns);
    const MatrixUnit::Format& format = target.matrix.formats[0];
    const Products p{.rows = row->rows, .tiles = 2, .blocks = 2, .steps = 8};
    const ScheduledKernel scheduled = products(p, target.matrix, format);
    const std::string loop = hottest_loop(kernel_assembly(scheduled, target, "kernel"), ".insn");
    const int64_t each = p.tiles * p.blocks * target.matrix.parts * format.groups * row->pack / row->depth;
    EXPECT_EQ(count_lines(loop, text("\t.insn r ", row->encoding.opcode)), each) << loop;
    EXPECT_NE(loop.find(configuration(*row, group)), std::string::npos) << loop;
    EXPECT_EQ(encoded(kernel_object(scheduled, target, "kernel"), *row) % each, 0);
    EXPECT_GE(encoded(kernel_object(scheduled, target, "kernel"), *row), each);
  }
}

// Register tiles use a row of lanes.
TEST(VendorProducts, LanesOfShortNumbersCompute) {
  NarrowProduct row = kWidening;
  row.columns = 0;
  Target target = parse_target("rv64gcv_zvl256b");
  target.lane_products = {&row};
  const Kernel kernel = parse_kernel(
      "kernel \"product\"\n  input A u8[24, 40]\n  input B i8[40, 32]\n  output C i32[24, 32]\n"
      "  init[m:24, n:32]: C[m, n] = 0\n"
      "  macc[m:24, n:32, k:40]: C[m, n] += i32(A[m, k]) * i32(B[k, n])\n");
  const ScheduledKernel scheduled = default_schedule(kernel, target, 1).finish();
  const Tensors inputs = drawn_inputs(scheduled.kernel, [](const Buffer& buffer, std::mt19937& random) {
    return static_cast<int64_t>(random() % 256) - (buffer.dtype == I8 ? 128 : 0);
  });
  expect_like_interpreter(scheduled, target, {}, inputs, 0);
  EXPECT_GT(encoded(kernel_object(scheduled, target, "kernel"), row), 0);
}

}  // namespace
}  // namespace tc::testing
