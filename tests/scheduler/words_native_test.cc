// A row times a matrix whose constant is stored in words, three numbers of 21 bits in two, compiled and run.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/error.h"
#include "scheduler/algebra/algorithms.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

constexpr double kEnough = 20 * kWordsError;  // the least tolerance that allows words

// A core that runs in order, whose second cache is so small that no matrix here fits.
Target in_order() {
  Target target = parse_target("rv64gcv_zvl256b");
  target.l2_bytes = 8192;
  return target;
}

Kernel row_times_matrix(int64_t features, int64_t channels) {
  return parse_kernel(
      text("kernel \"row times matrix\"\n  input I f32[", channels, "]\n  constant K f32[", channels, ", ",
           features, "]\n  constant B f32[", features, "]\n  output O f32[", features, "]\n  local T f32[",
           features, "]\n  init[n:", features, "]: T[n] = 0\n  macc[n:", features, ", k:", channels,
           "]: T[n] += I[k] * K[k, n]\n  tail[j:", features, "]: O[j] = max(T[j] + B[j], 0)\n"));
}

// The default's lines for such a core, run by this machine.
TEST(WordsNative, ErrorsAreBelowTheBound) {
  for (const char* name : {"x86-64-v3", "native"}) {
    const Target target = parse_target(name);
    std::string why;
    if (!runs_here(target, &why)) continue;
    for (const auto& [features, channels] :
         {std::pair(1200, 400), std::pair(1000, 96), std::pair(97, 300), std::pair(144, 64)}) {
      const Kernel kernel = row_times_matrix(features, channels);
      Schedule schedule(kernel, target);
      const Schedule chosen = default_schedule(kernel, in_order(), 1, {}, kEnough);
      for (const std::string& line : chosen.trace()) schedule.apply(line);
      EXPECT_EQ(algorithm_of(schedule.trace()).text, "int21") << name << " " << features;
      auto run = [&](const ScheduledKernel& scheduled, Tensors& tensors) {
        run_compiled(scheduled, target, {}, tensors, 1);
      };
      EXPECT_EQ(difference(kernel, schedule, 7, {}, run, 2 * kWordsError), "") << name << " " << features;
    }
  }
}

TEST(WordsNative, NeedTheToleranceAndAMatrixFromAfar) {
  const Kernel kernel = row_times_matrix(1200, 400);
  const auto algorithm = [&](const Target& target, double tolerance, int threads = 1) {
    return algorithm_of(default_schedule(kernel, target, threads, {}, tolerance).trace()).text;
  };
  EXPECT_EQ(algorithm(in_order(), kEnough), "int21");
  EXPECT_EQ(algorithm(in_order(), 0.99 * kEnough), "");
  EXPECT_EQ(algorithm(in_order(), 0), "");
  Target large = in_order();
  large.l2_bytes = 4 * 1200 * 400;
  EXPECT_EQ(algorithm(large, kEnough), "");
  large.l2_bytes -= 1;
  EXPECT_EQ(algorithm(large, kEnough), "int21");
  EXPECT_EQ(algorithm(large, kEnough, 2), "");  // two cores' caches hold it
  EXPECT_EQ(algorithm(parse_target("x86-64-v3"), kEnough), "");
}

// Each of three numbers of a feature comes back from two words with half of the last of its bits as the
// largest error.
TEST(WordsNative, PackingHoldsThreeNumbersInTwoWords) {
  constexpr int kDepth = 7, kLanes = 4;
  const Kernel kernel = parse_kernel(
      "kernel words\n  constant K i32[7, 2, 4]\n  constant S f32[3, 4]\n  output O f32[4]\n"
      "  packing K[k, v, l] of [7, 12] at [k, 4*v + l] fill 0 words v scaled [v, l]\n  packing S scales of K\n"
      "  o[l:4]: O[l] = f32(K[0, 0, l]) * S[0, l]\n");
  EXPECT_EQ(str(parse_kernel(str(kernel))), str(kernel));
  EXPECT_EQ(recipe(kernel.packings[0], kernel), "i32 7 2 4 at i0 4*i1 + i2 fill 0 words 1 scaled 1 scaled 2");
  Tensor original(DType::F32, {kDepth, 3 * kLanes});
  for (int64_t i = 0; i < original.count(); ++i)
    original.data<float>()[i] =
        static_cast<float>(std::sin(static_cast<double>(37 * i + 1)) * (i % 5 == 0 ? 100 : 1));
  const Tensor words = pack(kernel.packings[0], kernel, original),
               scales = pack(kernel.packings[1], kernel, original);
  ASSERT_EQ(words.count(), kDepth * 2 * kLanes);
  ASSERT_EQ(scales.count(), 3 * kLanes);
  for (int k = 0; k < kDepth; ++k) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto word = [&](int number) {
        return static_cast<uint32_t>(words.data<int32_t>()[(2 * k + number) * kLanes + lane]);
      };
      const uint32_t numbers[] = {word(0), (word(0) << kFirstWordShift) + (word(1) << kSecondWordShift),
                                  word(1)};
      for (int v = 0; v < 3; ++v) {
        const double scale = scales.data<float>()[v * kLanes + lane];
        const double value = original.data<float>()[k * 3 * kLanes + v * kLanes + lane];
        EXPECT_LE(std::abs(static_cast<int32_t>(numbers[v]) * scale - value), 1.001 * scale * 1024)
            << k << " " << v << " " << lane;
      }
    }
  }
}

TEST(WordsNative, PackingsThatAreNoWordsAreTold) {
  const std::string sound =
      "kernel words\n  constant K i32[7, 2, 4]\n  constant S f32[3, 4]\n  output O f32[4]\n"
      "  packing K[k, v, l] of [7, 12] at [k, 4*v + l] fill 0 words v scaled [v, l]\n  packing S scales of K\n"
      "  o[l:4]: O[l] = f32(K[0, 0, l]) * S[0, l]\n";
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string changed = sound;
    changed.replace(changed.find(from), from.size(), to);
    try {
      verify(parse_kernel(changed));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused("words v", "words v"), "");
  const auto told = [](const std::string& counter) {
    return "kernel 'words': the packing of 'K' has no dimension '" + counter +
           "' of two words of i32 with scales, or of one without";
  };
  EXPECT_EQ(refused("words v", "words k"), told("k"));
  EXPECT_EQ(refused("words v", "words x"), told("x"));
  EXPECT_EQ(refused("[7, 2, 4]", "[7, 3, 4]"), told("v"));
  EXPECT_EQ(refused("scaled [v, l]", "scaled [l]"), told("v"));
  EXPECT_EQ(refused("K i32", "K i64"), told("v"));
  EXPECT_EQ(refused("words v scaled", "scaled"),
            "kernel 'words': the packing of 'K' has scales, but neither terms nor words");
  EXPECT_EQ(refused("S f32[3, 4]", "S f32[2, 4]"),
            "kernel 'words': buffer 'S' does not hold as many numbers as 'K' has scales");
}

// What is written there beside the sums would be multiplied by their scales, or sums that another kernel
// reads would not be.
TEST(WordsNative, SumsThatAreWrittenElsewhereAreRefused) {
  const auto refused = [](const std::string& buffers, const std::string& first, const std::string& last) {
    Schedule schedule(
        parse_kernel("kernel row\n  input I f32[5]\n  constant K f32[5, 24]\n  constant B f32[24]\n" +
                     buffers + "  init[n:24]: T[n] = " + first +
                     "\n  macc[n:24, k:5]: T[n] += I[k] * K[k, n]\n" + last),
        parse_target("rv64gcv"));
    for (const char* line : {"strip macc_n 8 as b l", "pack K : k b l"})
      EXPECT_EQ(schedule.apply(line), std::nullopt);
    return schedule.apply("algorithm macc int21 b").value_or("accepted");
  };
  const std::string local = "  output O f32[24]\n  local T f32[24]\n", copy = "  copy[j:24]: O[j] = T[j]\n";
  EXPECT_EQ(refused(local, "0", copy), "accepted");
  EXPECT_NE(refused("  output T f32[24]\n", "0", "")
                .find("what statement macc writes is not private to the kernel"),
            std::string::npos);
  EXPECT_NE(refused(local, "B[n]", copy)
                .find("statement init writes more than zeros to what statement macc adds up"),
            std::string::npos);
  EXPECT_NE(refused(local, "0", "  tail[j:24]: T[j] = max(T[j], 0)\n" + copy)
                .find("statement tail writes more than zeros to what"),
            std::string::npos);
}

// The scale of such weights is no normal number.
TEST(WordsNative, TinyWeightsKeepTheirSigns) {
  const Kernel kernel = parse_kernel(
      "kernel words\n  constant K i32[1, 2, 1]\n  constant S f32[3, 1]\n  output O f32[1]\n"
      "  packing K[k, v, l] of [1, 3] at [k, v + l] fill 0 words v scaled [v, l]\n  packing S scales of K\n  o[l:1]: O[l] = f32(K[0, 0, l]) * S[0, l]\n");
  for (const float value : {1e-33F, -1e-33F, 4.1e-36F, -1e-38F}) {
    Tensor original(DType::F32, {1, 3});
    for (int64_t i = 0; i < 3; ++i) original.data<float>()[i] = value;
    const Tensor words = pack(kernel.packings[0], kernel, original),
                 scales = pack(kernel.packings[1], kernel, original);
    for (int v : {0, 2}) {
      const double found = static_cast<double>(words.data<int32_t>()[v / 2]) * scales.data<float>()[v];
      EXPECT_LE(std::abs(found - value), std::abs(value) > 1e-35 ? 2e-3 * std::abs(value) : std::abs(value))
          << value;
    }
  }
}

}  // namespace
}  // namespace tc::testing
