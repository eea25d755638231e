// SpacemiT's matrix instruction through the default schedule: its place in the hottest loop, and results in
// an emulator of it (tests/qemu/ime_emulator.c).
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/llvm/required_features.h"
#include "codegen/llvm/kernel_code.h"
#include "ir/error.h"
#include "scheduler/algebra/algorithms.h"
#include "scheduler/scheduler.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

using enum DType;

constexpr const char* kTarget = "rv64gcv_zvl256b+xsmtvdot";
const std::vector<std::string> kBlocks = {"layout I 1 16", "layout O 1 16"};

// A convolution of unsigned bytes by signed ones, as quantised networks have them.
struct Convolution {
  int64_t channels = 64, features = 64, rows = 8, columns = 8, taps = 1, stride = 1;

  std::string text_of() const {
    const int64_t border = taps / 2, height = (rows - 1) * stride + 1, width = (columns - 1) * stride + 1;
    const std::string y = text(stride, "*y + r - ", border), x = text(stride, "*x + s - ", border);
    const std::string inside =
        taps == 1 ? ""
                  : text(" where ", y, " >= 0, -", stride, "*y - r + ", height - 1 + border, " >= 0, ", x,
                         " >= 0, -", stride, "*x - s + ", width - 1 + border, " >= 0");
    return text("kernel \"convolution\"\n  input I u8[1, ", channels, ", ", height, ", ", width,
                "]\n  constant K i8[", features, ", ", channels, ", ", taps, ", ", taps,
                "]\n  constant B i32[1, ", features, ", 1, 1]\n  output O u8[1, ", features, ", ", rows, ", ",
                columns, "]\n  local S i32[1, ", features, ", ", rows, ", ", columns,
                "]\n  start[f:", features, ", y:", rows, ", x:", columns,
                "]: S[0, f, y, x] = 0\n  macc[f:", features, ", y:", rows, ", x:", columns, ", c:", channels,
                ", r:", taps, ", s:", taps, "]", inside, ": S[0, f, y, x] += i32(I[0, c, ", y, ", ", x,
                "]) * i32(K[f, c, r, s])\n  scale[f:", features, ", y:", rows, ", x:", columns,
                "]: O[0, f, y, x] = u8(min(max(shr(S[0, f, y, x] + B[0, f, 0, 0], 8), 0), 255))\n");
  }
};

Schedule scheduled(const Convolution& of, const Target& target) {
  return default_schedule(parse_kernel(of.text_of()), target, 1, kBlocks, 0);
}

TEST(MatrixInstruction, TheHottestLoopMultipliesAndLoads) {
  const Target target = parse_target(kTarget);
  for (const Convolution& each : {Convolution{.channels = 256}, Convolution{.taps = 3}}) {
    SCOPED_TRACE(text(each.taps, " taps"));
    const std::string loop = hottest_loop(kernel_assembly(scheduled(each, target).finish(), target, "kernel"),
                                          "\t.insn r 43, 1, 113");
    const int products = count_lines(loop, "\t.insn r 43, 1, 113");
    EXPECT_GE(products, 24) << loop;
    EXPECT_LE(count_lines(loop, "\tvle8.v"), products * 3 / 4) << loop;
    EXPECT_LE(count_lines(loop, "\tvset"), 1) << loop;
    for (const char* moved : {"vmv", "vs2r", "vs4r", "vl2re", "vslide", "vse8", "vse32"})
      EXPECT_EQ(count_lines(loop, text("\t", moved)), 0) << moved << "\n" << loop;
  }
}

TEST(MatrixInstruction, ConvolutionsAreExact) {
  const Target target = parse_target(kTarget);
  std::mt19937 random(5);
  std::vector<Convolution> all = {{}, {.taps = 3}, {.rows = 5, .columns = 7, .taps = 3, .stride = 2}};
  for (int i = 0; i < 4; ++i) {
    const auto among = [&](int64_t most) { return static_cast<int64_t>(random()) % most + 1; };
    all.push_back({16 * among(4), 16 * among(4), among(9), among(9), 2 * among(2) - 1, among(2)});
  }
  for (const Convolution& each : all) {
    SCOPED_TRACE(each.text_of());
    const auto run = [&](const ScheduledKernel& kernel, Tensors& tensors) {
      run_compiled(kernel, target, {}, tensors, 2);
    };
    const Schedule schedule = scheduled(each, target);
    EXPECT_EQ(difference(parse_kernel(each.text_of()), schedule, 7, {}, run, 0), "");
    if (each.channels < 32)
      continue;  // sums are so short that ordinary vectors may be predicted to be faster
    EXPECT_GT(count_lines(kernel_assembly(schedule.finish(), target, "kernel"), "\t.insn r 43, 1, 113"), 0);
  }
}

// Products of floats as digits, which are signed bytes.
TEST(MatrixInstruction, DigitsAreBelowTheBound) {
  const Target target = parse_target(kTarget);
  const auto run = [&](const ScheduledKernel& kernel, Tensors& tensors) {
    run_compiled(kernel, target, {}, tensors, 2);
  };
  for (const auto& [kernel, algorithm, tolerance, error] :
       {std::tuple(biased_product(64, 75, 130), "int8x3", 1e-2, 2 * kTwoDigitsError),
        {rectified_convolution(16, 32, 7, 3, 1), "int8x3", 1e-2, 2 * kTwoDigitsError},
        {biased_product(1, 1200, 400), "int8x6", 1e-4, 2 * kDigitsError}}) {
    const bool mapped = kernel.buffers[0].shape.size() == 4;
    const Schedule schedule =
        default_schedule(kernel, target, 1, mapped ? kBlocks : std::vector<std::string>(), tolerance);
    SCOPED_TRACE(str(kernel));
    EXPECT_EQ(algorithm_of(schedule.trace()).text, algorithm);
    EXPECT_GT(count_lines(kernel_assembly(schedule.finish(), target, "kernel"), "\t.insn r 43, 3, 113"), 0);
    EXPECT_EQ(difference(kernel, schedule, 7, {}, run, error), "");
  }
}

TEST(MatrixInstruction, Refusals) {
  const auto refused = [](const std::string& kernel, const std::vector<std::string>& layouts) {
    Schedule schedule(parse_kernel(kernel), parse_target(kTarget));
    EXPECT_EQ(schedule.replay(layouts), std::nullopt);
    return schedule.apply("algorithm macc uint8 8 1 1 2 4").value_or("");
  };
  const auto ends_with = [](const std::string& text, const std::string& end) {
    EXPECT_TRUE(text.ends_with(end)) << text;
  };
  std::string bytes = Convolution{}.text_of();
  const std::vector<std::string> blocks = {"layout I 1 16", "layout O 1 16", "layout S 1 16"},
                                 short_blocks = {"layout I 1 4", "layout O 1 16", "layout S 1 16"};
  EXPECT_EQ(refused(bytes, blocks), "");
  ends_with(refused(bytes, short_blocks), "blocks of 4 channels are no groups of 8");
  bytes.replace(bytes.find("K i8"), 4, "K u8");
  ends_with(refused(bytes, blocks), "statement macc multiplies u8 by u8, but the unit u8 by i8");
  ends_with(refused(str(rectified_convolution(16, 32, 7, 1, 1)), {}),
            "statement macc is no sum of products of bytes in i32");
}

// LLVM does not know the feature; artefacts need it all the same.
TEST(MatrixInstruction, TheFeatureIsNeeded) {
  const Target target = parse_target(kTarget);
  EXPECT_EQ(target.features.find("xsmtvdot"), std::string::npos);
  EXPECT_NE((" " + target_features(target) + " ").find(" xsmtvdot "), std::string::npos);
  EXPECT_EQ(target_features(parse_target("rv64gcv_zvl256b")).find("xsmtvdot"), std::string::npos);
  Target lanes = parse_target("rv64gcv_zvl256b");
  NarrowProduct row = *target.matrix.formats[0].instruction;
  lanes.lane_products.push_back(&row);
  EXPECT_NE((" " + target_features(lanes) + " ").find(" xsmtvdot "), std::string::npos);
  for (const char* name : {"rv64gcv+xsmtvdot", "rv64gcv_zvl512b+xsmtvdot"})
    EXPECT_EQ(parse_target(name).matrix.registers, 0) << name;
  EXPECT_EQ(parse_target("spacemit-x60+xsmtvdot").matrix.rows, 4);
}

}  // namespace
}  // namespace tc::testing
