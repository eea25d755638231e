// Products on a matrix unit, of numbers as sums of two: the rewrite against the plain statements, the
// default's schedules by the interpreter and compiled, refusals, and when the default chooses it.
#include <gtest/gtest.h>

#include <random>

#include "ir/error.h"
#include "scheduler/algorithms.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

// The weights' terms are rounded; all else is exact in the interpreter, which computes in double.
constexpr double kRoundedWeights = 2e-5;

// A machine with a matrix unit, or this one's idea of it.
Target unit_target() {
  Target target = parse_target("x86-64-v4");
  target.matrix = {DType::BF16, DType::F32, 16, 16, 16, 2, 8, 16};
  return target;
}

// A convolution or product with an epilogue, and lines that bring it into blocks.
struct Layer {
  int64_t batch = 1, channels = 64, features = 64, rows = 14, columns = 14;
  int64_t taps = 1, stride = 1, padding = 0;
  bool residual = false, blocked = true;

  int64_t outputs(int64_t size) const { return (size + 2 * padding - taps) / stride + 1; }

  Kernel kernel() const { return parse_kernel(blocked ? convolution() : product()); }

  std::string product() const {
    return text("kernel \"product\"\n  input I f32[", rows, ", ", channels, "]\n  constant K f32[", channels, ", ", features,
                "]\n  constant B f32[", features, "]\n", residual ? text("  input R f32[", rows, ", ", features, "]\n") : "",
                "  output O f32[", rows, ", ", features, "]\n  local T f32[", rows, ", ", features, "]\n  init[m:", rows,
                ", n:", features, "]: T[m, n] = 0\n  macc[m:", rows, ", n:", features, ", k:", channels,
                "]: T[m, n] += I[m, k] * K[k, n]\n  tail[i:", rows, ", j:", features, "]: O[i, j] = max(T[i, j] + B[j]",
                residual ? " + R[i, j]" : "", ", 0)\n");
  }

  std::string convolution() const {
    const int64_t height = outputs(rows), width = outputs(columns);
    std::string where;
    auto condition = [&](const std::string& text) { where += (where.empty() ? " where " : ", ") + text + " >= 0"; };
    auto place = [&](const char* out, const char* tap) {
      return text(stride, "*", out, taps > 1 ? text(" + ", tap) : "", padding > 0 ? text(" - ", padding) : "");
    };
    const std::string y = place("y", "r"), x = place("x", "s");
    if (padding > 0) {
      for (const auto& [at, size] : {std::pair(y, rows), std::pair(x, columns)}) {
        condition(at);
        condition(text(size - 1 + padding, " - ", at.substr(0, at.find(" -")).substr(0, at.find(" +")),
                       taps > 1 ? (at == y ? " - r" : " - s") : ""));
      }
    }
    const std::string n = batch > 1 ? "n" : "0", loop = batch > 1 ? text("n:", batch, ", ") : "";
    const std::string map = text(batch, ", ", features, ", ", height, ", ", width);
    const std::string over = text(loop, "f:", features, ", y:", height, ", x:", width), at = "[" + n + ", f, y, x]";
    return text("kernel \"convolution\"\n  input I f32[", batch, ", ", channels, ", ", rows, ", ", columns, "]\n",
                residual ? "  input R f32[" + map + "]\n" : "", "  constant K f32[", features, ", ", channels, ", ", taps, ", ",
                taps, "]\n  constant B f32[", features, "]\n  output O f32[", map, "]\n  local T f32[", map, "]\n  init[", over,
                "]: T", at, " = 0\n  macc[", over, ", c:", channels, taps > 1 ? text(", r:", taps, ", s:", taps) : "", "]", where,
                ": T", at, " += I[", n, ", c, ", y, ", ", x, "] * K[f, c, ", taps > 1 ? "r, s" : "0, 0", "]\n  tail[", over,
                "]: O", at, " = max(T", at, " + B[f]", residual ? " + R" + at : "", ", 0)\n");
  }

  std::vector<std::string> layouts() const {
    if (!blocked) return {};
    std::vector<std::string> lines = {"layout I 1 16", "layout O 1 16"};
    if (residual) lines.push_back("layout R 1 16");
    return lines;
  }
};

Schedule rewritten(const Layer& layer, const std::string& line) {
  Schedule schedule(layer.kernel(), unit_target());
  std::vector<std::string> lines = layer.layouts();
  lines.push_back("layout T 1 16");
  lines.push_back("algorithm macc bf16x3 " + line);
  if (auto refused = schedule.replay(lines)) fail(ErrorKind::Schedule, *refused);
  return schedule;
}

Schedule chosen(const Layer& layer, int threads = 1, double tolerance = 1e-3) {
  return default_schedule(layer.kernel(), unit_target(), threads, layer.layouts(), tolerance);
}

std::string algorithm(const Layer& layer, double tolerance = 1e-3) {
  return algorithm_of(chosen(layer, 1, tolerance).trace()).text;
}

Layer drawn(std::mt19937& random) {
  auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  Layer result;
  result.blocked = pick(0, 3) > 0;
  result.batch = pick(1, 3) == 1 ? 2 : 1;
  result.channels = pick(8, 40);
  result.features = pick(8, 40);
  result.rows = pick(4, 11);
  result.columns = pick(4, 11);
  result.taps = pick(0, 1) == 0 ? 1 : pick(2, 3);
  result.stride = pick(1, 2);
  result.padding = result.taps > 1 ? pick(0, 1) : 0;
  result.residual = pick(0, 1) == 1;
  return result;
}

TEST(TwoTerms, RewritesComputeTheSame) {
  std::mt19937 random(1);
  for (int i = 0; i < 24; ++i) {
    const Layer layer = drawn(random);
    const std::string line = text(1 + i % 5 * 2, " ", 1 + i % 2, " ", 1 + i % 3, " ", 1 + i % 2, " ", i % 4 == 0 ? 16 : 4 + i % 7);
    const Schedule schedule = rewritten(layer, line);
    verify(schedule.kernel());
    EXPECT_EQ(str(parse_kernel(str(schedule.kernel()))), str(schedule.kernel()));
    EXPECT_EQ(difference(layer.kernel(), schedule, 7, {}, {}, kRoundedWeights), "") << i << " " << line << str(layer.kernel());
  }
}

const std::vector<Layer>& layers() {
  static const std::vector<Layer> all = {
      {.channels = 64, .features = 64, .rows = 32, .blocked = false},
      {.channels = 75, .features = 120, .rows = 27, .residual = true, .blocked = false},
      {.channels = 64, .features = 64},
      {.channels = 48, .features = 40, .rows = 9, .columns = 11, .residual = true},
      {.channels = 64, .features = 64, .taps = 3, .padding = 1},
      {.channels = 40, .features = 72, .rows = 13, .columns = 9, .taps = 3, .padding = 1, .residual = true},
      {.channels = 64, .features = 64, .rows = 13, .columns = 32, .taps = 3, .stride = 2, .padding = 1},
      {.channels = 64, .features = 64, .rows = 22, .columns = 20, .stride = 2},
      {.batch = 2, .channels = 64, .features = 64, .rows = 7, .columns = 9, .taps = 3, .padding = 1},
  };
  return all;
}

TEST(TwoTerms, DefaultsComputeTheSame) {
  int chose = 0;
  for (size_t i = 0; i < layers().size(); ++i) {
    for (int threads : {1, 2}) {
      const Schedule schedule = chosen(layers()[i], threads);
      chose += algorithm_of(schedule.trace()).text == "bf16x3";
      EXPECT_EQ(difference(layers()[i].kernel(), schedule, 7, {}, {}, kRoundedWeights), "") << i << str(layers()[i].kernel());
    }
  }
  EXPECT_GE(chose, 12);
}

TEST(TwoTerms, TheToleranceDecides) {
  const Layer large{.channels = 256, .features = 256, .rows = 128, .blocked = false};
  EXPECT_EQ(algorithm(large, 0), "");
  EXPECT_EQ(algorithm(large, 1e-4), "");
  EXPECT_EQ(algorithm(large, 1e-3), "bf16x3");
  EXPECT_EQ(algorithm({.channels = 256, .features = 256, .rows = 4, .blocked = false}), "");
  const TraceAlgorithm row = algorithm_of({"algorithm macc bf16x3 128 8 2 2 16"});
  EXPECT_EQ(row.text, "bf16x3");
  EXPECT_EQ(row.error, kTwoTermsError);
  EXPECT_EQ(row.tolerance, 2e-4);
}

// A kernel of a few lines: a product of 20 rows, 32 channels and 16 features with some of them replaced.
std::string product_with(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::string all = R"(kernel "product"
  input I f32[20, 32]
  constant K f32[32, 16]
  output O f32[20, 16]
  local T f32[20, 16]
  init[m:20, n:16]: T[m, n] = 0
  macc[m:20, n:16, k:32]: T[m, n] += I[m, k] * K[k, n]
  tail[m:20, n:16]: O[m, n] = T[m, n]
)";
  for (const auto& [from, to] : changes) {
    const size_t at = all.find(from);
    if (at == std::string::npos) throw std::runtime_error("no '" + from + "' to replace");
    all.replace(at, from.size(), to);
  }
  return all;
}

std::string refusal(const std::string& kernel, const std::vector<std::string>& lines, const Target& target = unit_target()) {
  Schedule schedule(parse_kernel(kernel), target);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (auto refused = schedule.apply(lines[i])) {
      if (i + 1 < lines.size()) return "too early: " + *refused;
      return refused->substr(std::min(refused->size(), lines[i].size() + 2));
    }
  }
  return "accepted";
}

TEST(TwoTerms, RewritesAreRefusedByName) {
  const std::string line = "algorithm macc bf16x3 20 1 1 1 16";
  const std::string macc = "macc[m:20, n:16, k:32]: T[m, n] += I[m, k] * K[k, n]";
  auto with = [&](const std::vector<std::pair<std::string, std::string>>& changes, std::vector<std::string> before = {}) {
    before.push_back(line);
    return refusal(product_with(changes), before);
  };
  auto sum = [&](const std::string& text) { return std::pair(macc, text); };
  const std::pair<std::string, std::string> map = {"I f32[20, 32]", "I f32[4, 5, 32]"};
  EXPECT_EQ(with({}), "accepted");
  EXPECT_EQ(refusal(product_with({}), {line}, parse_target("x86-64-v3")), "target x86-64-v3 has no matrix unit");
  EXPECT_EQ(refusal(product_with({}), {"algorithm gone bf16x3 1 1 1 1 1"}), "no statement 'gone'");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 1 1 1 17"}), "an accumulator has 16 rows, fewer than 17");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 0 1 1 1 1"}), "the rows of a band must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 0 1 1 1"}), "the blocks of a panel must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 1 0 1 1"}), "the blocks at a time must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 1 1 0 1"}),
            "the accumulators at a time must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 1 1 1 0"}),
            "the rows of an accumulator must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm tail bf16x3 1 1 1 1 1"}), "statement tail is no sum of products in f32");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[20, 32]\n  parameter p = seq in [1, 9]"}}), "the kernel has symbolic sizes");
  EXPECT_EQ(with({{"constant K", "input K"}}), "statement macc does not multiply an input by a constant");
  EXPECT_EQ(with({{"O[m, n] = T[m, n]", "O[m, n] = T[m, n] + K[0, n]"}}), "constant K is read at 2 places, not at one");
  EXPECT_EQ(with({}, {"pack K : n k"}), "constant K is packed already");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[20, 32]\n  input N i64[20]"},
                  sum("macc[m:20, n:16, k:32]: T[m, n] += I[{min(max(N[m], 0), 19)}, k] * K[k, n]")}),
            "statement macc has an index that depends on data");
  EXPECT_EQ(with({{"local T f32[20, 16]", "output T f32[20, 16]"}}), "the sums are in T, which is not private: stage it");
  EXPECT_EQ(with({}, {"layout T 1 8"}), "the features of T are not in blocks of 16");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:32]: T[m, n] += I[m, k] * K[m, n]")}), "iterator m counts groups: they are not supported");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:32]: T[m, n] += I[m, 0] * K[0, n]")}), "iterator k is in no operand of macc");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[4, 32]"}, {"T f32[20, 16]", "T f32[4, 5, 16]"}, {"init[m:20, n:16]: T[m, n]", "init[a:4, m:5, n:16]: T[a, m, n]"},
                  sum("macc[a:4, b:1, m:5, n:16, k:16]: T[a, m, n] += I[a, k] * K[k + m + b, n]"), {"T[m, n]\n", "T[0, 0, n]\n"}}),
            "iterator b of macc is summed over in one operand only");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[4, 32]"}, {"T f32[20, 16]", "T f32[2, 2, 16]"}, {"init[m:20, n:16]: T[m, n]", "init[a:2, b:2, n:16]: T[a, b, n]"},
                  sum("macc[a:2, b:2, n:16, k:30]: T[a, b, n] += I[0, k] * K[k + a + b, n]"), {"T[m, n]\n", "T[0, 0, n]\n"}}),
            "features are counted by a and by b");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:16]: T[m, n] += I[m, k + n] * K[k, 0]")}), "iterator n is not along the constant's features");
  EXPECT_EQ(with({{"T f32[20, 16]", "T f32[1, 16]"}, {"init[m:20, n:16]: T[m, n]", "init[n:16]: T[0, n]"},
                  sum("macc[n:16, k:32]: T[0, n] += I[0, k] * K[k, n]"), {"T[m, n]\n", "T[0, n]\n"}}),
            "statement macc has no rows");
  EXPECT_EQ(with({sum("macc[m:10, n:16, k:32]: T[2*m, n] += I[m, k] * K[k, n]")}), "statement macc writes at 2*m");
  EXPECT_EQ(with({{"K f32[32, 16]", "K f32[32, 40]"}, {"T f32[20, 16]", "T f32[20, 2, 16]"}, {"init[m:20, n:16]: T[m, n]", "init[m:20, f:2, n:16]: T[m, f, n]"},
                  sum("macc[m:20, f:2, n:16, k:32]: T[m, f, n] += I[m, k] * K[k, 20*f + n]"), {"T[m, n]\n", "T[m, 0, n]\n"}}),
            "constant K is not indexed by blocks of 16 features");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[32, 20]"}, sum("macc[m:20, n:16, k:32]: T[m, n] += I[k, m] * K[k, n]")}),
            "what is summed over is not the innermost dimension of I");
  EXPECT_EQ(with({}, {"layout I 1 5"}), "blocks of 5 channels do not fill a depth of 32");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:16]: T[m, n] += I[m, k + 16] * K[k, n]")}, {"layout I 1 16"}), "channels of I are counted by 1");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[52, 32]"}, sum("macc[m:20, n:16, k:32]: T[m, n] += I[m + k, k] * K[k, n]")}),
            "channels of I are in several dimensions");
  EXPECT_EQ(with({{"K f32[32, 16]", "K f32[64, 16]"}, sum("macc[m:20, n:16, a:2, k:16]: T[m, n] += I[m, 16*a + k] * K[32*a + k, n]")}, {"layout I 1 16"}),
            "constant K is not indexed by all channels");
  EXPECT_EQ(with({{"k:32]", "k:32] where m - k >= 0"}}), "statement macc has the condition -k + m >= 0");
  EXPECT_EQ(with({{"T[m, n] = 0", "T[m, n] = 1"}}), "statement init before macc does not only set T to 0");
  EXPECT_EQ(with({{"tail[m:20, n:16]: O[m, n] = T[m, n]", "tail[m:19, n:16]: O[m, n] = T[m, n]"}}),
            "statement tail after macc is not elementwise over T");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:32]: T[m, n] += I[19 - m, k] * K[k, n]")}), "the input is read backwards along m");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[20, 20, 32]"}, sum("macc[m:20, n:16, k:32]: T[m, n] += I[m, m, k] * K[k, n]")}),
            "iterator m is in several dimensions of I");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[2, 2, 2, 2, 32]"}, {"T f32[20, 16]", "T f32[2, 2, 2, 2, 16]"},
                  {"init[m:20, n:16]: T[m, n]", "init[a:2, b:2, c:2, d:2, n:16]: T[a, b, c, d, n]"},
                  sum("macc[a:2, b:2, c:2, d:2, s:1, n:16, k:32]: T[a, b, c, d, n] += I[a + s, b, c, d, k] * K[k + s, n]"),
                  {"tail[m:20, n:16]: O[m, n] = T[m, n]",
                   "tail[a:2, b:2, c:2, d:2, n:16]: O[4*a + 2*b + c + d, n] = T[a, b, c, d, n]"}}),
            "rows are counted by more than three iterators");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[320]"}, sum("macc[m:20, n:16, k:16]: T[m, n] += I[16*m + k] * K[k, n]")}, {"layout I 0 16"}),
            "iterator m does not count channels only");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f64[20, 32]"}, sum("macc[m:20, n:16, k:32]: T[m, n] += f32(I[m, k]) * K[k, n]")}),
            "statement macc is no sum of products in f32");
}

// The order of a rewritten product, with the unit's loops innermost.
TEST(TwoTerms, TensorizeIsRefusedByName) {
  const std::vector<std::string> rewritten = {"algorithm macc bf16x3 20 1 1 1 16",
                                              "order macc_band macc_panel macc_fp macc_fn macc_rt macc_cb macc_row macc_n macc_g macc_e"};
  auto after = [&](std::vector<std::string> lines) {
    lines.insert(lines.begin(), rewritten.begin(), rewritten.end());
    return refusal(product_with({}), lines);
  };
  EXPECT_EQ(after({"tensorize macc_row macc_n macc_g macc_e"}), "accepted");
  EXPECT_EQ(refusal(product_with({}), {"tensorize macc_m macc_n macc_k macc_k"}, parse_target("x86-64-v3")),
            "target x86-64-v3 has no matrix unit");
  EXPECT_EQ(after({"tensorize macc_cb macc_n macc_g macc_e"}), "loop macc_n is not directly inside loop macc_cb");
  EXPECT_EQ(after({"tensorize macc_n macc_g macc_e macc_row"}), "loop macc_e has 2 trips, but the unit has 16 groups");
  EXPECT_EQ(after({"tensorize macc_cb macc_row macc_n macc_g"}), "loop macc_g has 16 trips, but the unit has 2 members");
  EXPECT_EQ(after({"vectorize macc_e", "tensorize macc_row macc_n macc_g macc_e"}), "loop macc_e is vectorized already; marks come last");
  EXPECT_EQ(after({"tensorize macc_row macc_n macc_g macc_e", "unroll macc_row"}), "loop macc_row is tensorized already; marks come last");
  // A product as the unit takes it, with parts of it replaced.
  auto changed = [&](const std::vector<std::pair<std::string, std::string>>& changes) {
    std::string all = R"(kernel "unit"
  input A bf16[16, 32]
  input B bf16[16, 16, 2]
  input F f32[16, 32]
  input N i64[16]
  output O f32[16, 16]
  zero[i:16, j:16]: O[i, j] = 0
  dot[i:16, j:16, g:16, e:2]: O[i, j] += f32(A[i, 2*g + e]) * f32(B[g, j, e])
)";
    for (const auto& [from, to] : changes) all.replace(all.find(from), from.size(), to);
    return refusal(all, {"tensorize dot_i dot_j dot_g dot_e"});
  };
  EXPECT_EQ(changed({}), "accepted");
  EXPECT_EQ(changed({{"O[i, j] += f32(A[i, 2*g + e]) * f32(B[g, j, e])", "O[i, j] += f32(A[i, 2*g + e])"}}), "its value is no sum of products");
  EXPECT_EQ(changed({{"O[i, j] += f32(A[i, 2*g + e])", "O[i, j] = f32(A[i, 2*g + e])"}}), "statement dot is no sum");
  EXPECT_EQ(changed({{"e:2]", "e:2] where i - g >= 0"}}), "statement dot has the condition -g + i >= 0");
  EXPECT_EQ(changed({{"O[i, j] +=", "O[j, i] +="}}), "statement dot does not write rows of columns");
  EXPECT_EQ(changed({{"A[i, 2*g + e]", "A[i, g + 16*e]"}}), "operand A of dot does not have the depth of 16 x 2 next to each other");
  EXPECT_EQ(changed({{"A[i, 2*g + e]", "A[{min(max(N[i], 0), 15)}, 2*g + e]"}}), "buffer A is not read at fixed steps");
  EXPECT_EQ(changed({{"B[g, j, e]", "B[j, g, e]"}}), "operand B of dot is not packed as [groups][columns][members]");
  EXPECT_EQ(changed({{"f32(A[i, 2*g + e])", "F[i, 2*g + e]"}}), "an operand of dot is not read and cast to f32");
  EXPECT_EQ(changed({{"output O f32", "output O f64"}, {"O[i, j] += f32(A[i, 2*g + e]) * f32(B[g, j, e])", "O[i, j] += f64(A[i, 2*g + e]) * f64(B[g, j, e])"}}),
            "buffer O is f64, but the unit takes f32");
  EXPECT_EQ(refusal(R"(kernel "parts"
  input A bf16[32, 32]
  input B bf16[16, 16, 2]
  output O f32[32, 16]
  zero[i:32, j:16]: O[i, j] = 0
  dot[i:32, j:16, g:16, e:2]: O[i, j] += f32(A[i, 2*g + e]) * f32(B[g, j, e])
)", {"split dot_i 16 as o i", "tensorize i dot_j dot_g dot_e"}),
            "loop i counts a part of i only: strip it");
}

}  // namespace
}  // namespace tc::testing
