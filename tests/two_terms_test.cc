// Products on a matrix unit, of numbers as sums of two: the rewrite against the plain statements, the
// default's schedules by the interpreter and compiled, refusals, and when the default chooses it.
#include <gtest/gtest.h>

#include <random>

#include "frontend/plan_builder.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "scheduler/two_terms.h"
#include "tests/codegen_harness.h"
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

// Forced by a tolerance that allows everything; by cost still.
Schedule chosen(const Layer& layer, int threads = 1, double tolerance = 1e-4) {
  return default_schedule(layer.kernel(), unit_target(), threads, layer.layouts(), tolerance);
}

std::string algorithm(const Layer& layer, double tolerance = 1e-4) {
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
  EXPECT_EQ(algorithm(large, 9e-5), "");
  EXPECT_EQ(algorithm(large, 1e-4), "bf16x3");
  EXPECT_EQ(algorithm({.channels = 256, .features = 256, .rows = 4, .blocked = false}), "");
  const TraceAlgorithm row = algorithm_of({"algorithm macc bf16x3 128 8 2 2 16"});
  EXPECT_EQ(row.text, "bf16x3");
  EXPECT_EQ(row.error, kTwoTermsError);
  EXPECT_EQ(row.tolerance, 1e-4);
}

}  // namespace
}  // namespace tc::testing
