// Default schedules against the plain interpreter, on every target.
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/error.h"
#include "tests/scheduler_kernels.h"

namespace tc {
namespace {

using testing::NamedKernel;

class DefaultSchedule : public ::testing::TestWithParam<NamedKernel> {};

TEST_P(DefaultSchedule, ComputesTheSame) {
  const NamedKernel& named = GetParam();
  const Kernel kernel = parse_kernel(named.text);
  verify(kernel);
  for (const char* target : {"x86-64-v4", "x86-64-v3", "znver4", "rv64gcv", "rv64gc"}) {
    for (int threads : {1, 2}) {
      for (bool blocked : {false, true}) {
        if (blocked && named.layout_lines.empty()) continue;
        SCOPED_TRACE(std::string(target) + (blocked ? " blocked" : ""));
        const auto lines = blocked ? named.layout_lines : std::vector<std::string>();
        const Schedule schedule = default_schedule(kernel, parse_target(target), threads, lines);
        EXPECT_EQ(schedule.check(), std::nullopt);
        for (uint32_t seed : {1u, 2u, 3u}) {
          EXPECT_EQ(testing::difference(kernel, schedule, seed, testing::parameter_values(kernel, seed)), "")
              << str(schedule.finish());
          if (kernel.parameters.empty()) break;
        }
        // The trace replays to the same schedule.
        Schedule again(kernel, parse_target(target));
        EXPECT_EQ(again.replay(schedule.trace()), std::nullopt);
        EXPECT_EQ(str(again.finish()), str(schedule.finish()));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DefaultSchedule, ::testing::ValuesIn(testing::small_kernels()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
// Queries times keys, whose rows are what lanes run over.
Kernel attention(int64_t keys, const std::string& rows) {
  std::string all =
      text("kernel \"attention\"\n", rows == "p" ? "  parameter p = rows in [1, 200]\n" : "",
           "  input Q f32[", rows, ", 3, 20]\n  input K f32[", keys, ", 3, 20]\n  output O f32[3, ", rows,
           ", ", keys, "]\n  local T f32[3, ", rows, ", ", keys, "]\n  init[h:3, m:", rows, ", n:", keys,
           "]: T[h, m, n] = 0\n  macc[h:3, m:", rows, ", n:", keys,
           ", k:20]: T[h, m, n] += Q[m, h, k] * K[n, h, k]\n  tail[h:3, m:", rows, ", n:", keys,
           "]: O[h, m, n] = T[h, m, n] * 0.5\n");
  return parse_kernel(all);
}

TEST(Default, WhatLanesReadApartIsPacked) {
  for (const char* target : {"x86-64-v4", "x86-64-v3", "rv64gcv"}) {
    for (const auto& [keys, rows] : {std::pair(64, "96"), std::pair(50, "96"), std::pair(64, "p")}) {
      const Kernel kernel = attention(keys, rows);
      for (int threads : {1, 2}) {
        const Schedule schedule = default_schedule(kernel, parse_target(target), threads);
        EXPECT_NE(schedule.kernel().find("pack_K"), nullptr) << target << keys << rows;
        const std::map<std::string, int64_t> sizes =
            rows[0] == 'p' ? std::map<std::string, int64_t>{{"p", 37}} : std::map<std::string, int64_t>{};
        EXPECT_EQ(testing::difference(kernel, schedule, 7, sizes), "") << target << keys << rows;
      }
    }
  }
  // Where vectors' length is known, the copy reads rows of keys as they lie.
  const Schedule wide = default_schedule(attention(64, "96"), parse_target("x86-64-v4"), 1);
  const auto& trace = wide.trace();
  EXPECT_NE(std::find(trace.begin(), trace.end(), "vectorize pack_K_k_i"), trace.end());
  // Read once, it is not worth a copy.
  EXPECT_EQ(default_schedule(attention(64, "4"), parse_target("x86-64-v4"), 1).kernel().find("pack_K"),
            nullptr);
}

// A product whose result is stored transposed: lanes run over the rows of its input.
Kernel transposed_product(int64_t rows, int64_t features, int64_t depth) {
  return parse_kernel(text("kernel \"transposed\"\n  input I f32[", rows, ", ", depth, "]\n  constant W f32[",
                           depth, ", ", features, "]\n  output O f32[", features, ", ", rows,
                           "]\n  local T f32[", rows, ", ", features, "]\n  init[m:", rows, ", n:", features,
                           "]: T[m, n] = 0\n  macc[m:", rows, ", n:", features, ", k:", depth,
                           "]: T[m, n] += I[m, k] * W[k, n]\n  tail[n:", features, ", m:", rows,
                           "]: O[n, m] = T[m, n] * 0.5\n"));
}

// What is priced as a copy has one: also where the last panel has fewer blocks (49 and 5 of them, in panels
// of two).
TEST(Default, RowsOfATransposedProductArePacked) {
  EXPECT_NE(default_schedule(transposed_product(784, 192, 768), parse_target("x86-64-v4"), 1)
                .kernel()
                .find("pack_I"),
            nullptr);
  const Kernel kernel = transposed_product(80, 96, 24);
  const Schedule schedule = default_schedule(kernel, parse_target("x86-64-v4"), 1);
  EXPECT_NE(schedule.kernel().find("pack_I"), nullptr);
  EXPECT_EQ(testing::difference(kernel, schedule, 7, {}), "");
}

// Three vectors of 64 blocks of channels: the panel is divided, though into more parts than its size asks
// for, and no choice packs the windows of the input.
TEST(Default, PanelsAreDividedByWhatDividesTheirChannels) {
  const Kernel kernel = parse_kernel(
      "kernel \"convolution\"\n  input X f32[1, 512, 32, 32]\n  constant W f32[512, 512, 3, 3]\n  output O f32[1, 512, 32, 32]\n"
      "  init[m:1, f:512, y:32, x:32]: O[m, f, y, x] = 0\n"
      "  macc[m:1, f:512, y:32, x:32, c:512, r:3, s:3] where y + r - 1 >= 0, 32 - y - r >= 0, x + s - 1 >= 0, 32 - x - s >= 0: "
      "O[m, f, y, x] += X[m, c, y + r - 1, x + s - 1] * W[f, c, r, s]\n");
  const Schedule schedule =
      default_schedule(kernel, parse_target("x86-64-v3"), 1, {"layout X 1 8", "layout O 1 8"});
  const auto& trace = schedule.trace();
  EXPECT_NE(std::find(trace.begin(), trace.end(), "strip macc_f_o 3 as f_ot f_on"), trace.end())
      << ::testing::PrintToString(trace);
  EXPECT_NE(std::find(trace.begin(), trace.end(), "strip macc_c_o 8 as c_op c_o"), trace.end())
      << ::testing::PrintToString(trace);
  for (const std::string& line : trace) EXPECT_NE(line.rfind("pack X", 0), 0u) << line;
}

// 312 features are 19 vectors and a half.
TEST(Default, HalvesOfVectorsComputeLessInVain) {
  const auto lanes = [](int64_t features, const char* target) {
    const Schedule schedule =
        default_schedule(transposed_product(128, features, 96), parse_target(target), 1);
    return std::find(schedule.trace().begin(), schedule.trace().end(), "layout T 1 8") !=
                   schedule.trace().end()
               ? 8
               : 16;
  };
  EXPECT_EQ(lanes(40, "znver4"), 8);
  EXPECT_EQ(lanes(40, "x86-64-v4"), 16);  // two units of whole vectors
  EXPECT_EQ(lanes(42, "znver4"), 16);     // the last vector has ten lanes
  EXPECT_EQ(lanes(1000, "znver4"), 16);   // one half in 63 vectors is not worth it
}

// 25 panels of three vectors: a thread of two would have 13 of them, so rows are divided as well.
TEST(Default, PanelsThatThreadsCannotShareEvenlyAreDividedByRowsToo) {
  const auto parallel_line = [](int64_t features) -> std::string {
    const Kernel kernel = parse_kernel(
        text("kernel \"product\"\n  input I f32[128, 312]\n  constant W f32[312, ", features,
             "]\n  output O f32[128, ", features, "]\n  init[m:128, n:", features,
             "]: O[m, n] = 0\n  macc[m:128, n:", features, ", k:312]: O[m, n] += I[m, k] * W[k, n]\n"));
    const Schedule schedule = default_schedule(kernel, parse_target("x86-64-v4"), 2);
    for (const std::string& line : schedule.trace()) {
      if (line.rfind("parallel ", 0) == 0) return line;
    }
    return "";
  };
  EXPECT_EQ(parallel_line(1200), "parallel macc_n_ot macc_m_o");
  EXPECT_EQ(parallel_line(1536), "parallel macc_n_ot");  // 32 panels
}

// A batch whose size is not known is mostly one: neither a tile's columns nor all that threads share.
TEST(Default, UnknownBatchesAreNeitherColumnsNorAllParts) {
  const Kernel kernel = parse_kernel(
      "kernel \"conv\"\n  parameter p0 = n in [1, 1000]\n  input I f32[p0, 64, 30, 30]\n  constant W f32[64, 64, 3, 3]\n"
      "  output O f32[p0, 64, 28, 28]\n  init[n:p0, f:64, y:28, x:28]: O[n, f, y, x] = 0\n"
      "  macc[n:p0, f:64, y:28, x:28, c:64, r:3, s:3]: O[n, f, y, x] += I[n, c, y + r, x + s] * W[f, c, r, s]\n");
  const Schedule schedule =
      default_schedule(kernel, parse_target("x86-64-v4"), 2, {"layout I 1 16", "layout O 1 16"});
  const auto& trace = schedule.trace();
  const auto has = [&](const std::string& begin) {
    return std::any_of(trace.begin(), trace.end(),
                       [&](const std::string& line) { return line.rfind(begin, 0) == 0; });
  };
  EXPECT_TRUE(has("split macc_x ")) << ::testing::PrintToString(trace);
  EXPECT_FALSE(has("split macc_n ")) << ::testing::PrintToString(trace);
  EXPECT_TRUE(has("parallel macc_n ")) << ::testing::PrintToString(trace);
}

// Two copies into blocks of channels: the lanes are the blocks', not left to the loops that both share.
TEST(Default, CopiesOfBlocksHaveLanes) {
  const Kernel kernel = parse_kernel(
      "kernel \"concat\"\n  input A f32[2, 32, 9, 9]\n  input B f32[2, 32, 9, 9]\n  output O f32[2, 64, 9, 9]\n"
      "  one[n:2, c:32, y:9, x:9]: O[n, c, y, x] = A[n, c, y, x]\n"
      "  two[n:2, c:32, y:9, x:9]: O[n, c + 32, y, x] = B[n, c, y, x]\n");
  const auto trace = default_schedule(kernel, parse_target("x86-64-v4"), 1,
                                      {"layout A 1 16", "layout B 1 16", "layout O 1 16"})
                         .trace();
  for (const char* line : {"vectorize one_c_i", "vectorize two_c_i"}) {
    EXPECT_NE(std::find(trace.begin(), trace.end(), line), trace.end()) << ::testing::PrintToString(trace);
  }
}

// A softmax over channels of images: with a batch, intermediate results are those of one image where they
// would be many.
TEST(Default, ManyIntermediateResultsAreOfOneImage) {
  const auto shares_images = [](int64_t images, int64_t size) {
    const std::string shape = text("[n:", images, ", y:", size, ", c:21]"),
                      result = text("[n:", images, ", c:21, y:", size, "]");
    const Kernel kernel = parse_kernel(
        text("kernel \"softmax\"\n  input I f32[", images, ", 21, ", size, "]\n  output O f32[", images,
             ", 21, ", size, "]\n  local M f32[", images, ", ", size, "]\n  local P f32[", images, ", 21, ",
             size, "]\n  local T f32[", images, ", ", size, "]\n  start[n:", images, ", y:", size,
             "]: M[n, y] = -inf\n  most", shape, ": M[n, y] max= I[n, c, y]\n  power", shape,
             ": P[n, c, y] = exp(I[n, c, y] - M[n, y])\n  zero[n:", images, ", y:", size,
             "]: T[n, y] = 0\n  total", shape, ": T[n, y] += P[n, c, y]\n  share", result,
             ": O[n, c, y] = P[n, c, y] / T[n, y]\n"));
    const auto trace = default_schedule(kernel, parse_target("x86-64-v4"), 1).trace();
    return std::any_of(trace.begin(), trace.end(), [](const std::string& line) {
      return line.rfind("fuse start_n most_n power_n zero_n total_n share_n ", 0) == 0;
    });
  };
  EXPECT_TRUE(shares_images(16, 1 << 20));
  EXPECT_FALSE(shares_images(16, 1 << 10));
}

TEST(Default, ManyIntermediateResultsOfUnknownSizeAreOfOneImage) {
  const Kernel kernel = parse_kernel(
      "kernel \"softmax\"\n  parameter p = p in [1, 2147483648]\n  input I f32[16, 21, p]\n  output O f32[16, 21, p]\n  local M f32[16, p]\n"
      "  local P f32[16, 21, p]\n  local T f32[16, p]\n  start[n:16, y:p]: M[n, y] = -inf\n"
      "  most[n:16, y:p, c:21]: M[n, y] max= I[n, c, y]\n  power[n:16, y:p, c:21]: P[n, c, y] = exp(I[n, c, y] - M[n, y])\n"
      "  zero[n:16, y:p]: T[n, y] = 0\n  total[n:16, y:p, c:21]: T[n, y] += P[n, c, y]\n"
      "  share[n:16, c:21, y:p]: O[n, c, y] = P[n, c, y] / T[n, y]\n");
  const auto trace = default_schedule(kernel, parse_target("x86-64-v4"), 1).trace();
  EXPECT_TRUE(std::any_of(trace.begin(), trace.end(), [](const std::string& line) {
    return line.rfind("fuse start_n most_n power_n zero_n total_n share_n ", 0) == 0;
  })) << ::testing::PrintToString(trace);
}

// 36 features are no whole blocks of 16: layouts have blocks of 8, where half a vector takes half of its
// time.
TEST(Default, WinogradWritesHalfBlocks) {
  const Kernel kernel = parse_kernel(
      "kernel \"conv\"\n  input I f32[1, 36, 56, 56]\n  constant K f32[36, 36, 3, 3]\n  output O f32[1, 36, 56, 56]\n"
      "  local T f32[1, 36, 56, 56]\n  init[f:36, y:56, x:56]: T[0, f, y, x] = 0\n"
      "  macc[f:36, y:56, x:56, c:36, r:3, s:3] where r + y - 1 >= 0, 56 - r - y >= 0, s + x - 1 >= 0, 56 - s - x >= 0: "
      "T[0, f, y, x] += I[0, c, r + y - 1, s + x - 1] * K[f, c, r, s]\n"
      "  tail[f:36, y:56, x:56]: O[0, f, y, x] = max(T[0, f, y, x], 0)\n");
  const auto trace =
      default_schedule(kernel, parse_target("znver4"), 1, {"layout I 1 8", "layout O 1 8"}, 1e-4).trace();
  EXPECT_TRUE(std::any_of(trace.begin(), trace.end(), [](const std::string& line) {
    return line.rfind("algorithm macc winograd 4 3 ", 0) == 0;
  })) << ::testing::PrintToString(trace);
}

// Two elements may have the same place, where the later one stays.
TEST(Default, LanesDoNotWriteWhereDataSays) {
  const Kernel kernel = parse_kernel(
      "kernel \"scatter\"\n  input A f32[40, 64]\n  input P i64[40, 64]\n  output O f32[40, 64]\n  local T f32[40, 64]\n"
      "  clear[i:40, j:64]: T[i, j] = 0\n  move[i:40, j:64]: T[i, {P[i, j]}] = A[i, j]\n"
      "  store[i:40, j:64]: O[i, j] = T[i, j] + 1\n");
  const auto trace = default_schedule(kernel, parse_target("x86-64-v4"), 1).trace();
  EXPECT_FALSE(trace.empty());
  for (const std::string& line : trace) EXPECT_NE(line.rfind("vectorize move_j", 0), 0u) << line;
}

// Two statements, one of which goes on from its own results: the threads share the trees.
TEST(Default, ThreadsShareTheTreesOfAForest) {
  const Kernel kernel = parse_kernel(
      "kernel \"forest\"\n  input X f32[300, 6]\n  constant feature i32[90]\n  constant child i32[90]\n  constant first i32[10]\n"
      "  output leaf i32[10, 300]\n  root[t:10, n:300]: leaf[t, n] = first[t]\n"
      "  step[t:10, n:300, level:3]: leaf[t, n] = child[{i64(leaf[t, n])}] + select(X[n, {i64(feature[{i64(leaf[t, n])}])}] <= 0, 0, 1)\n");
  const auto shared = default_schedule(kernel, parse_target("x86-64-v4"), 2).trace();
  EXPECT_NE(std::find(shared.begin(), shared.end(), "parallel row_t"), shared.end());
  // Statements without loops have nothing to share.
  const Kernel one = parse_kernel(
      "kernel \"one\"\n  input X f32[4]\n  output Y f32[1]\n  first[]: Y[0] = X[0]\n"
      "  step[]: Y[0] = Y[0] + X[1]\n");
  EXPECT_EQ(default_schedule(one, parse_target("x86-64-v4"), 2).check(), std::nullopt);
  const auto alone = default_schedule(kernel, parse_target("x86-64-v4"), 1).trace();
  EXPECT_EQ(std::find(alone.begin(), alone.end(), "fuse root_t step_t as row_t"), alone.end());
}

// 768 rows of a constant that lie pages apart, read by columns: lanes along the constant instead, which is
// packed.
TEST(Default, ConstantsThatCrossPagesGetTheLanes) {
  const Kernel kernel = parse_kernel(
      "kernel \"product\"\n  input I f32[128, 768]\n  constant W f32[768, 3072]\n  output O f32[128, 3072]\n"
      "  local T f32[128, 3072]\n  init[m:128, n:3072]: T[m, n] = 0\n"
      "  macc[m:128, n:3072, k:768]: T[m, n] += I[m, k] * W[k, n]\n"
      "  tail[m:128, n:3072]: O[m, n] = erf(T[m, n]) + T[m, n] * 0.5\n");
  for (const char* name : {"x86-64-v3", "x86-64-v4"}) {
    const std::vector<std::string> trace = default_schedule(kernel, parse_target(name), 1).trace();
    const bool lanes = std::any_of(trace.begin(), trace.end(),
                                   [](const std::string& line) { return line.rfind("pack W", 0) == 0; });
    EXPECT_TRUE(lanes) << name << ::testing::PrintToString(trace);
  }
}

TEST(Pack, OfInputsIsRefusedByName) {
  Schedule schedule(parse_kernel("kernel \"half\"\n  input I f32[8]\n  output O f32[8, 9]\n"
                                 "  fill[i:8, j:9] where j - i >= 0, 7 - j >= 0: O[i, j] = I[j]\n"
                                 "  rest[i:8, j:9] where j - 8 >= 0: O[i, j] = 0\n"),
                    parse_target("x86-64-v4"));
  EXPECT_EQ(schedule.apply("pack I : j"), std::nullopt);
  Schedule other(parse_kernel("kernel \"half\"\n  input I f32[8]\n  output O f32[8, 9]\n"
                              "  fill[i:8, j:9] where i - j >= 0: O[i, j] = I[j]\n"),
                 parse_target("x86-64-v4"));
  EXPECT_EQ(
      other.apply("pack I : j"),
      "pack I : j: what iterators besides those listed allow decides whether I is read inside its shape");
  EXPECT_EQ(other.apply("pack I : i"), "pack I : i: the index of I depends on j, which is not listed");
}

// A cache of which a part is filled: the copy reads no more of it than the statement does, as long as that
// statement runs at all.
TEST(Pack, OfAnInputReadsWhatItsReaderReads) {
  const auto refusal = [](const std::string& rows) {
    Schedule schedule(parse_kernel("kernel \"scores\"\n  parameter p0 = room in [1, 100]\n"
                                   "  parameter p1 = filled in [0, 100]\n  parameter p2 = rows in [" +
                                   rows +
                                   ", 100]\n  input K f32[p0, 8]\n  input Q f32[p2, 8]\n"
                                   "  output S f32[p2, p1]\n  init[m:p2, n:p1]: S[m, n] = 0\n"
                                   "  macc[m:p2, n:p1, k:8]: S[m, n] += Q[m, k] * K[n, k]\n"),
                      parse_target("x86-64-v4"));
    return schedule.apply("pack K : k n");
  };
  EXPECT_EQ(refusal("1"), std::nullopt);
  EXPECT_EQ(
      refusal("0"),
      "pack K : k n: what iterators besides those listed allow decides whether K is read inside its shape");
}

}  // namespace tc
