// Products of shorter numbers for loose tolerances: whole numbers of 16 bits and bf16 on vectors, two digits
// and bf16 on tiles. The rewrites against the plain statements, when the default takes them, and what
// compiled leaves compute and consist of.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/error.h"
#include "codegen/llvm/kernel_code.h"
#include "scheduler/algebra/algorithms.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

Target vector_target() { return parse_target("x86-64-v4+avx512vnni,+avx512bf16"); }

#define SKIP_WITHOUT_UNIT() \
  if (std::string why; !runs_here(vector_target(), &why)) GTEST_SKIP() << "nothing is run: " << why

const std::vector<std::string> kBlocks = {"layout I 1 16", "layout O 1 16"};

struct Case {
  Kernel kernel;
  std::vector<std::string> layouts = {};
};

std::vector<Case> cases() {
  return {{biased_product(128, 312, 312)},
          {biased_product(100, 400, 257)},
          {biased_product(1, 333, 161)},
          {biased_product(3, 100, 96)},
          {biased_product(7, 16, 33)},
          {rectified_convolution(64, 64, 14, 1, 1), kBlocks},
          {rectified_convolution(72, 40, 13, 3, 1), kBlocks},
          {rectified_convolution(128, 32, 20, 3, 2), kBlocks},
          {rectified_convolution(16, 96, 7, 1, 1), kBlocks}};
}

// The kernel by this algorithm, whether it pays or not.
Schedule by(const char* name, const Case& each, const Target& target, double tolerance, int threads = 1) {
  Schedule start(each.kernel, target);
  EXPECT_EQ(start.replay(each.layouts), std::nullopt);
  const auto traces = algorithm_traces(start, threads, tolerance);
  EXPECT_EQ(traces.empty() ? "" : algorithm_of(traces[0]).text, name) << str(each.kernel);
  Schedule result(each.kernel, target);
  EXPECT_EQ(result.replay(traces.at(0)), std::nullopt);
  return result;
}

std::string algorithm(const Kernel& kernel, const Target& target, double tolerance,
                      const std::vector<std::string>& layouts = {}) {
  return algorithm_of(default_schedule(kernel, target, 1, layouts, tolerance).trace()).text;
}

// The interpreter computes in double, but divides as the code does.
TEST(LooseProducts, DefaultsComputeTheSame) {
  for (const Case& each : cases()) {
    if (each.kernel.buffers[0].shape[0] == Affine(128)) continue;  // too large to interpret
    EXPECT_EQ(difference(each.kernel, by("int16", each, vector_target(), 1e-2), 7, {}, {}, 2 * kWholeError),
              "");
    EXPECT_EQ(difference(each.kernel, by("bf16", each, vector_target(), 2e-1), 7, {}, {}, kOneTermError), "");
    if (each.kernel.buffers[0].shape[0] == Affine(3)) continue;  // too few rows for tiles
    EXPECT_EQ(difference(each.kernel, by("int8x3", each, parse_target("sapphirerapids"), 1e-2), 7, {}, {},
                         2 * kTwoDigitsError),
              "");
  }
}

// The product with its weights in a type of 16 bits, which it converts.
Kernel narrow_product(int64_t rows, int64_t features, int64_t channels, const std::string& type) {
  std::string kernel = str(biased_product(rows, features, channels));
  kernel.replace(kernel.find("K f32["), 6, "K " + type + "[");
  return parse_kernel(kernel.replace(kernel.find("K[k, n]"), 7, "f32(K[k, n])"));
}

TEST(LooseProducts, WeightsOf16BitsAreDividedToo) {
  for (const char* type : {"f16", "bf16"}) {
    for (const int64_t rows : {3, 7, 100}) {
      const Case each{narrow_product(rows, 96, 100, type)};
      EXPECT_EQ(difference(each.kernel, by("int16", each, vector_target(), 1e-2), 7, {}, {}, 2 * kWholeError),
                "");
      EXPECT_EQ(difference(each.kernel, by("bf16", each, vector_target(), 2e-1), 7, {}, {}, kOneTermError),
                "");
    }
    const Kernel product = narrow_product(128, 256, 256, type);
    EXPECT_EQ(algorithm(product, vector_target(), 1e-4), "");
    EXPECT_EQ(algorithm(product, vector_target(), 1e-2), "int16");
    // Three digits, or two terms of bf16, would be more bytes than the weights have.
    EXPECT_EQ(algorithm(product, parse_target("sapphirerapids"), 1e-4), "");
    EXPECT_EQ(algorithm(product, parse_target("sapphirerapids"), 1e-2), "int8x3");
  }
}

TEST(LooseProducts, TheToleranceDecides) {
  const Kernel product = biased_product(128, 256, 256);
  const Target tiles = parse_target("sapphirerapids");
  EXPECT_EQ(algorithm(product, vector_target(), 1e-4), "");
  EXPECT_EQ(algorithm(product, vector_target(), 5e-3), "");
  EXPECT_EQ(algorithm(product, vector_target(), 1e-2), "int16");
  EXPECT_EQ(algorithm(product, vector_target(), 2e-1), "bf16");
  EXPECT_EQ(algorithm(product, parse_target("x86-64-v4+avx512vnni"), 2e-1), "int16");
  EXPECT_EQ(algorithm(product, parse_target("x86-64-v4+avx512bf16"), 2e-1), "bf16");
  EXPECT_EQ(algorithm(product, parse_target("x86-64-v4+avx512bf16"), 1e-2), "");
  EXPECT_EQ(algorithm(product, parse_target("x86-64-v4"), 2e-1), "");
  EXPECT_EQ(algorithm(product, tiles, 1e-4), "int8x6");
  EXPECT_EQ(algorithm(product, tiles, 5e-3), "int8x6");
  EXPECT_EQ(algorithm(product, tiles, 1e-2), "int8x3");
  EXPECT_EQ(algorithm(product, tiles, 2e-1), "bf16");
  for (const auto& [name, error] :
       {std::pair("int16", kWholeError), {"int8x3", kTwoDigitsError}, {"bf16", kOneTermError}}) {
    const TraceAlgorithm row = algorithm_of({text("algorithm macc ", name, " 1 1 1 1 1")});
    EXPECT_EQ(row.text, name);
    EXPECT_EQ(row.error, error);
    EXPECT_EQ(row.tolerance, 20 * error);
  }
}

// Five times fewer products in f32 are fewer than half as long ones.
TEST(LooseProducts, WinogradStays) {
  EXPECT_EQ(algorithm(rectified_convolution(64, 64, 56, 3, 1), vector_target(), 1e-2, kBlocks),
            "winograd F(6, 3)");
  EXPECT_EQ(algorithm(rectified_convolution(64, 64, 56, 3, 2), vector_target(), 1e-2, kBlocks), "int16");
}

TEST(LooseProducts, AreRefusedByName) {
  auto refused = [](const char* algorithm, const Target& target) {
    Schedule schedule(biased_product(4, 32, 32), target);
    const std::string line = text("algorithm macc ", algorithm, " 4 1 1 4 1");
    const std::string all = schedule.replay({"layout T 1 16", line}).value_or("accepted");
    return all.substr(all == "accepted" ? 0 : line.size() + 2);
  };
  EXPECT_EQ(refused("int16", vector_target()), "accepted");
  EXPECT_EQ(refused("bf16", vector_target()), "accepted");
  EXPECT_EQ(refused("int16", parse_target("sapphirerapids")),
            "the matrix unit of target sapphirerapids does not multiply i16");
  EXPECT_EQ(refused("bf16", parse_target("x86-64-v4+avx512vnni")),
            "the matrix unit of target x86-64-v4+avx512vnni does not multiply bf16");
  EXPECT_EQ(refused("int16", parse_target("x86-64-v4")), "target x86-64-v4 has no matrix unit");
}

TEST(LooseProducts, CompiledErrorsAreBelowTheBound) {
  SKIP_WITHOUT_UNIT();
  for (const Case& each : cases()) {
    for (int threads : {1, 2}) {
      auto run = [&](const ScheduledKernel& scheduled, Tensors& tensors) {
        run_compiled(scheduled, vector_target(), {}, tensors, threads);
      };
      EXPECT_EQ(difference(each.kernel, by("int16", each, vector_target(), 1e-2, threads), 7, {}, run,
                           2 * kWholeError),
                "");
      EXPECT_EQ(difference(each.kernel, by("bf16", each, vector_target(), 2e-1, threads), 7, {}, run,
                           kOneTermError),
                "");
    }
  }
}

const char* const kNumbers = R"(kernel numbers
  constant K i16[2, 1, 3, 2, 2]
  constant S f32[2]
  output O i16[2, 1, 3, 2, 2]
  packing K[d, t, g, f, e] of [2, 12] at [f, 6*d + 2*g + e] fill 0 terms t scaled [f]
  packing S scales of K
  copy[d:2, t:1, g:3, f:2, e:2]: O[d, t, g, f, e] = K[d, t, g, f, e]
)";

// The larger of a feature's two sums of six numbers decides, or the largest number.
TEST(LooseProducts, MagnitudesOfWeightsAddUpToALimit) {
  const Kernel kernel = parse_kernel(kNumbers);
  verify(kernel);
  EXPECT_EQ(str(kernel), kNumbers);
  Tensor original(DType::F32, {2, 12});
  for (int64_t i = 0; i < 12; ++i) original.set(i, i < 6 ? -0.5 : 0.25);  // the first feature: six equal ones
  for (int64_t i = 12; i < 24; ++i) original.set(i, i == 15 ? 8 : 0.001);  // the second: one
  const Tensor scales = pack(kernel.packings[1], kernel, original),
               numbers = pack(kernel.packings[0], kernel, original);
  EXPECT_NEAR(scales.as_double(0), 3 / (kLargestSum - 3), 1e-9);
  EXPECT_NEAR(scales.as_double(1), 8.0 / 32767, 1e-9);
  double largest = 0;
  for (int64_t d = 0; d < 2; ++d) {
    for (int64_t f = 0; f < 2; ++f) {
      double sum = 0;
      for (int64_t g = 0; g < 3; ++g) {
        for (int64_t e = 0; e < 2; ++e) {
          const double number = numbers.as_double(((d * 3 + g) * 2 + f) * 2 + e);
          EXPECT_NEAR(number * scales.as_double(f), original.as_double(f * 12 + 6 * d + 2 * g + e),
                      0.51 * scales.as_double(f));
          sum += std::abs(number);
        }
      }
      EXPECT_LE(sum, kLargestSum);
      largest = std::max(largest, sum);
    }
  }
  EXPECT_GT(largest, kLargestSum - 6);
  EXPECT_LT(kLargestSum * kLargestFactor, 0x1p31);
  for (const double odd : {std::nan(""), HUGE_VAL}) {
    original.set(4, odd);
    EXPECT_FALSE(std::isfinite(pack(kernel.packings[1], kernel, original).as_double(0)));
    EXPECT_TRUE(std::isfinite(pack(kernel.packings[1], kernel, original).as_double(1)));
  }
}

TEST(LooseProducts, NumbersOf16BitsAreOneTerm) {
  std::string several = kNumbers;
  for (size_t at; (at = several.find("i16[2, 1,")) != std::string::npos;) several.replace(at, 9, "i16[2, 2,");
  several.replace(several.find("t:1"), 3, "t:2");
  try {
    verify(parse_kernel(several));
    ADD_FAILURE() << several;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the packing of 'K' makes several terms of i16"),
              std::string::npos)
        << error.what();
  }
}

// All numbers the largest, of one sign: whole numbers of 32 bits hold the sums.
TEST(LooseProducts, NoSumOverflows) {
  SKIP_WITHOUT_UNIT();
  const Kernel kernel = biased_product(14, 32, 96);
  const ScheduledKernel scheduled = by("int16", {kernel}, vector_target(), 1e-2).finish();
  for (const double sign : {1.0, -1.0}) {
    Tensors originals, tensors;
    for (const Buffer& buffer : kernel.buffers) {
      if (!is_argument(buffer)) continue;
      std::vector<int64_t> shape;
      for (const Affine& size : buffer.shape) shape.push_back(size.constant());
      Tensor& tensor = originals[buffer.name] = Tensor(DType::F32, shape);
      for (int64_t i = 0; i < tensor.count(); ++i)
        tensor.set(i, buffer.name == "I" ? 3 * sign : buffer.name == "K" ? 0.7 * sign : 0);
    }
    for (const Buffer& buffer : scheduled.kernel.buffers) {
      if (!is_argument(buffer)) continue;
      const Tensor& original = originals.at(original_of(scheduled.kernel, buffer.name));
      const Packing* packing = packing_of(scheduled.kernel, buffer.name);
      tensors[buffer.name] = packing == nullptr ? original : pack(*packing, scheduled.kernel, original);
    }
    run_compiled(scheduled, vector_target(), {}, tensors);
    const Tensor& result = tensors.at("O");
    for (int64_t i = 0; i < result.count(); ++i) EXPECT_NEAR(result.as_double(i), 96 * 2.1, 0.05);
  }
}

// What is not finite in the input makes all results of its band NaN; in bf16 NaNs stay.
TEST(LooseProducts, WhatIsNotFiniteSpreads) {
  SKIP_WITHOUT_UNIT();
  for (const char* name : {"int16", "bf16"}) {
    const ScheduledKernel scheduled =
        by(name, {biased_product(1, 160, 400)}, vector_target(), *name == 'i' ? 1e-2 : 2e-1).finish();
    for (const double odd : {1.0, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      if (std::isinf(odd) && *name == 'b') continue;
      Tensors tensors = seeded_arguments(scheduled.kernel);
      tensors.at("I").set(7, odd);
      run_compiled(scheduled, vector_target(), {}, tensors);
      const Tensor& result = tensors.at("O");
      for (int64_t i = 0; i < result.count(); ++i)
        EXPECT_EQ(std::isfinite(result.as_double(i)), odd == 1.0) << name << odd << " at " << i;
    }
  }
}

// --- leaves ------------------------------------------------------------------------------------

// Sums of so many rows and blocks of features, of 16 or 32 numbers at a time.
ScheduledKernel tile_of(DType dtype, int64_t rows, int64_t blocks, int64_t steps) {
  const int64_t groups = dtype == DType::BF16 ? 8 : 16, depth = 2 * groups;
  ScheduledKernel scheduled;
  scheduled.kernel = parse_kernel(
      text("kernel \"rows\"\n  input A ", name_of(dtype), "[", rows, ", ", steps, ", ", depth,
           "]\n  input B ", name_of(dtype), "[", blocks, ", ", steps, ", ", groups,
           ", 16, 2]\n  output C f32[", rows, ", ", 16 * blocks, "]\n  init[m:", rows, ", n:", 16 * blocks,
           "]: C[m, n] = 0\n  macc[m:", rows, ", no:", blocks, ", s:", steps, ", mi:1, ni:16, g:", groups,
           ", e:2]: C[m + mi, 16*no + ni] += f32(A[m + mi, s, 2*g + e]) * f32(B[no, s, g, ni, e])\n"));
  TileStatement init, macc;
  init.statement = 0;
  init.loops = {unrolled("m", rows), unrolled("c", blocks), lanes("l", 16)};
  init.iterators = {{"m", v("m")}, {"n", v("c") * 16 + v("l")}};
  macc.statement = 1;
  macc.loops = {serial("s", steps), unrolled("no", blocks), unrolled("m", rows), matrix("mi", 1),
                matrix("ni", 16),   matrix("g", groups),    matrix("e", 2)};
  for (const char* name : {"m", "no", "s", "mi", "ni", "g", "e"}) macc.iterators[name] = v(name);
  scheduled.root = leaf({init, macc});
  return scheduled;
}

Tensors numbers_for(const ScheduledKernel& scheduled) {
  return drawn_inputs(scheduled.kernel, [](const Buffer& buffer, std::mt19937& random) {
    const int64_t most = buffer.dtype == DType::BF16 ? 128 : buffer.name == "A" ? 16383 : 4000;
    return static_cast<int64_t>(random() % (2 * most)) - most;
  });
}

TEST(LooseProducts, LeavesAreLikeTheInterpreter) {
  SKIP_WITHOUT_UNIT();
  for (const DType dtype : {DType::I16, DType::BF16}) {
    for (const auto& [rows, blocks, steps] :
         {std::tuple(14, 2, 5), {1, 7, 3}, {1, 1, 1}, {9, 3, 4}, {5, 1, 2}}) {
      SCOPED_TRACE(text(name_of(dtype), " ", rows, " rows, ", blocks, " blocks"));
      const ScheduledKernel scheduled = tile_of(dtype, rows, blocks, steps);
      expect_like_interpreter(scheduled, vector_target(), {}, numbers_for(scheduled), 1e-6);
    }
  }
}

// Each group loads a block's vector and a row's pair of numbers once for all products.
TEST(LooseProducts, LoopsLoadEachOperandOnce) {
  for (const auto& [rows, blocks] : {std::pair(14, 2), {9, 3}, {6, 4}}) {
    for (const DType dtype : {DType::I16, DType::BF16}) {
      const char* product = dtype == DType::BF16 ? "vdpbf16ps" : "vpdpwssd";
      const int groups = dtype == DType::BF16 ? 8 : 16;
      const std::string loop =
          hottest_loop(kernel_assembly(tile_of(dtype, rows, blocks, 6), vector_target(), "kernel"), product);
      EXPECT_EQ(count_lines(loop, product), groups * rows * blocks) << loop;
      EXPECT_LE(count_lines(loop, "vpbroadcastd"), groups * rows) << loop;
      EXPECT_EQ(count_lines(loop, "vpmaddwd"), 0) << loop;
      EXPECT_EQ(count_lines(loop, "vcvtdq2ps"), dtype == DType::BF16 ? 0 : rows * blocks) << loop;
    }
  }
}

}  // namespace
}  // namespace tc::testing
