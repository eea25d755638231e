// Products of bytes by MVE, the vectors of the Cortex-M55: what the rewrite computes, and the instructions.
// tests/runtime/test_cortex_m_boot.py executes such code.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/llvm/kernel_code.h"
#include "ir/error.h"
#include "ir/loop.h"
#include "scheduler/scheduler.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"
#include "tests/terms.h"

namespace tc::testing {
namespace {

constexpr const char* kTarget = "cortex-m55";

// A convolution of unsigned bytes by signed ones, with a border where it has several taps.
std::string convolution(int64_t channels, int64_t features, int64_t rows, int64_t columns, int64_t taps) {
  const int64_t border = taps / 2;
  const std::string inside =
      taps == 1 ? ""
                : text(" where y + r - ", border, " >= 0, -y - r + ", rows - 1 + border, " >= 0, x + s - ",
                       border, " >= 0, -x - s + ", columns - 1 + border, " >= 0");
  const std::string channel = channels == 1 ? "0" : "c";
  const std::string at = text("y + r - ", border, ", x + s - ", border);
  return text("kernel \"convolution\"\n  input I u8[1, ", channels, ", ", rows, ", ", columns,
              "]\n  constant K i8[", features, ", ", channels, ", ", taps, ", ", taps,
              "]\n  constant B i32[1, ", features, ", 1, 1]\n  output O u8[1, ", features, ", ", rows, ", ",
              columns, "]\n  local S i32[1, ", features, ", ", rows, ", ", columns, "]\n  start[f:", features,
              ", y:", rows, ", x:", columns, "]: S[0, f, y, x] = 0\n  macc[f:", features, ", y:", rows,
              ", x:", columns, channels == 1 ? "" : text(", c:", channels), ", r:", taps, ", s:", taps, "]",
              inside, ": S[0, f, y, x] += i32(I[0, ", channel, ", ", at, "]) * i32(K[f, ", channel,
              ", r, s])\n  scale[f:", features, ", y:", rows, ", x:", columns,
              "]: O[0, f, y, x] = u8(min(max(shr(i32(shr(i64(S[0, f, y, x] + B[0, f, 0, 0]) * "
              "i64(1518500250:i32), 32)), 4), 0), 255))\n");
}

Schedule scheduled(const std::string& kernel, bool in_blocks = true) {
  std::vector<std::string> layouts = {"layout O 1 4"};
  if (in_blocks) layouts.push_back("layout I 1 4");
  return default_schedule(parse_kernel(kernel), parse_target(kTarget), 1, layouts, 0);
}

// The numbers of the input are stored less 128 and borders as -128; the constant's sums make up for it.
TEST(CortexMVectors, SumsAreThoseOfTheKernel) {
  for (const std::string& each :
       {convolution(16, 8, 6, 5, 3), convolution(24, 10, 4, 4, 3), convolution(64, 12, 3, 3, 1)}) {
    SCOPED_TRACE(each);
    const Schedule schedule = scheduled(each);
    EXPECT_NE(str(schedule.kernel()).find(" sums of K"), std::string::npos) << str(schedule.kernel());
    EXPECT_EQ(difference(parse_kernel(each), schedule, 3, {}, {}, 0), "");
  }
}

// Where the channels of several positions fit a vector, it takes neighbours: columns, or rows where the
// window has more of these. Weights beyond the window are zeros.
TEST(CortexMVectors, FewChannelsShareAVectorWithTheirNeighbours) {
  const auto check = [](const std::string& kernel, bool in_blocks, const std::string& packed) {
    SCOPED_TRACE(kernel);
    const Schedule schedule = scheduled(kernel, in_blocks);
    const std::string made = str(schedule.kernel());
    EXPECT_NE(made.find(packed), std::string::npos) << made;
    EXPECT_NE(made.find(" sums of K"), std::string::npos) << made;
    EXPECT_EQ(difference(parse_kernel(kernel), schedule, 3, {}, {}, 0), "");
  };
  // [features / 4 ..][depths][rows of the window][lane][neighbours][channels]
  check(convolution(3, 16, 8, 8, 3), true, "constant K i8[1, 4, 1, 1, 3, 4, 4, 4]");
  check(convolution(3, 16, 8, 8, 5), true, "constant K i8[1, 4, 1, 2, 5, 4, 4, 4]");
  check(convolution(1, 16, 12, 12, 7), false, "constant K i8[1, 4, 1, 1, 7, 4, 16, 1]");
  check(convolution(8, 16, 8, 8, 3), true, "constant K i8[1, 4, 1, 2, 3, 4, 2, 8]");
}

// Two vectors of the input for four of the constant, whose products are added up in eight registers, and an
// epilogue of vectors.
TEST(CortexMVectors, TheHottestLoopMultipliesBytes) {
  const Target target = parse_target(kTarget);
  const std::string code =
      kernel_assembly(scheduled(convolution(16, 16, 12, 12, 3)).finish(), target, "kernel");
  const std::string loop = hottest_loop(code, "\tvmlava.s8");
  EXPECT_EQ(count_lines(loop, "\tvmlav"), 2 * 36) << loop;
  EXPECT_LE(count_lines(loop, "\tvldr"), 36 + 2 * 9 + 10) << loop;
  EXPECT_EQ(count_lines(loop, "\tvmulh.s32"), 2) << loop;
  EXPECT_EQ(count_lines(loop, "\tvstrb.32"), 2) << loop;
  EXPECT_EQ(count_lines(code, "\tsmull"), 0) << code;
}

// A depthwise convolution of bytes with a border, of one channel per feature.
std::string depthwise(int64_t channels, int64_t rows, int64_t columns, int64_t taps, int64_t stride) {
  const int64_t border = taps / 2, high = (rows - 1) / stride + 1, wide = (columns - 1) / stride + 1;
  const std::string y = text(stride, "*y + r - ", border), x = text(stride, "*x + s - ", border);
  const std::string result = text("f:", channels, ", y:", high, ", x:", wide);
  return text("kernel \"depthwise\"\n  input I u8[1, ", channels, ", ", rows, ", ", columns,
              "]\n  constant K i8[", channels, ", 1, ", taps, ", ", taps, "]\n  constant B i32[1, ", channels,
              ", 1, 1]\n  output O u8[1, ", channels, ", ", high, ", ", wide, "]\n  local S i32[1, ",
              channels, ", ", high, ", ", wide, "]\n  start[", result, "]: S[0, f, y, x] = 0\n  macc[",
              result, ", r:", taps, ", s:", taps, "] where ", y, " >= 0, -", stride, "*y - r + ",
              rows - 1 + border, " >= 0, ", x, " >= 0, -", stride, "*x - s + ", columns - 1 + border,
              " >= 0: S[0, f, y, x] += i32(I[0, f, ", y, ", ", x, "]) * i32(K[f, 0, r, s])\n  scale[", result,
              "]: O[0, f, y, x] = u8(min(max(shr(i32(shr(i64(S[0, f, y, x] + B[0, f, 0, 0]) * "
              "i64(1518500250:i32), 32)), 4), 0), 255))\n");
}

bool has_widen_mark(const Schedule& schedule) {
  const std::vector<std::string>& trace = schedule.trace();
  return std::any_of(trace.begin(), trace.end(),
                     [](const std::string& line) { return line.rfind("widen ", 0) == 0; });
}

// A patch of a channel's map serves two results: one load gathers it, and the products with each of two
// vectors of weights are added up by one instruction.
TEST(CortexMVectors, WindowsOfAChannelAreGathered) {
  const Target target = parse_target(kTarget);
  for (const int64_t stride : {1, 2}) {
    const Schedule schedule = scheduled(depthwise(8, 16, 16, 3, stride));
    EXPECT_TRUE(has_widen_mark(schedule));
    EXPECT_EQ(difference(parse_kernel(depthwise(8, 16, 16, 3, stride)), schedule, 3, {}, {}, 0), "");
    const std::string code = kernel_assembly(schedule.finish(), target, "kernel");
    const std::string loop = hottest_loop(code, "\tvmlav.s8");
    EXPECT_EQ(count_lines(loop, "\tvmlav"), 4) << loop;
    EXPECT_EQ(count_lines(loop, "\tvldrb.u8"), 2) << loop;
    EXPECT_EQ(count_lines(loop, "\tvldrw"), 0) << loop;
    EXPECT_EQ(count_lines(loop, "\tvqshrunb"), 1) << loop;
    EXPECT_EQ(count_lines(loop, "\tvstrb.32"), 1) << loop;
    EXPECT_LE(std::count(loop.begin(), loop.end(), '\n'), 24) << loop;
  }
}

// Maps whose sides no tile divides, and windows of more bytes than a vector.
TEST(CortexMVectors, WindowsOfAnySizeAreGathered) {
  for (const std::string& each :
       {depthwise(8, 25, 5, 3, 1), depthwise(4, 12, 12, 3, 1), depthwise(6, 9, 7, 5, 1),
        depthwise(8, 26, 26, 3, 2), depthwise(4, 20, 40, 3, 1)}) {
    SCOPED_TRACE(each);
    const Schedule schedule = scheduled(each);
    EXPECT_TRUE(has_widen_mark(schedule));
    EXPECT_EQ(difference(parse_kernel(each), schedule, 3, {}, {}, 0), "");
    const std::string code = kernel_assembly(schedule.finish(), parse_target(kTarget), "kernel");
    EXPECT_NE(code.find("vmlav.s8"), std::string::npos);
  }
}

constexpr const char* kSums = R"(kernel sums
  constant K i8[2, 3]
  constant S i32[2]
  output O i8[2, 3]
  packing K[f, k] of [2, 3] at [f, k] fill 0 scaled [f]
  packing S sums of K
  copy[f:2, k:3]: O[f, k] = K[f, k]
)";

TEST(CortexMVectors, AConstantsSumsArePacked) {
  const Kernel kernel = parse_kernel(kSums);
  verify(kernel);
  EXPECT_EQ(str(kernel), kSums);
  Tensor original(DType::I8, {2, 3});
  for (int64_t i = 0; i < 6; ++i) original.set_int(i, i == 4 ? -128 : 10 * i);
  const Tensor sums = pack(kernel.packings[1], kernel, original);
  EXPECT_EQ(sums.as_int(0), 128 * 30);
  EXPECT_EQ(sums.as_int(1), 128 * (30 - 128 + 50));
  EXPECT_EQ(recipe(kernel.packings[1], kernel), "sums of i8 2 3 at i0 i1 fill 0 scaled 0");
  EXPECT_EQ(original_of(kernel, "S"), "K");
}

TEST(CortexMVectors, WrongSumsAreRefused) {
  const auto refused = [](const Changes& changes) {
    try {
      verify(parse_kernel(replaced(kSums, changes)));
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.substr(what.find(": ", what.find("kernel '")) + 2);
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused({}), "accepted");
  EXPECT_EQ(refused({{"K i8", "K i16"}, {"O i8", "O i16"}}),
            "the packing of 'S' adds up numbers of 'K', which are not i8");
  EXPECT_EQ(refused({{"S i32[2]", "S i32[3]"}}), "buffer 'S' does not hold as many numbers as 'K' has sums");
  EXPECT_EQ(refused({{"S i32", "S f32"}}), "buffer 'S' does not hold as many numbers as 'K' has sums");
  EXPECT_EQ(refused({{"  packing S sums of K\n", ""}}),
            "the packing of 'K' has scales, but neither terms nor words");
}

}  // namespace
}  // namespace tc::testing
