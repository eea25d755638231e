// Products on a matrix unit, of numbers as sums of two or as digits: the rewrites against the plain
// statements, the default's schedules by the interpreter, refusals, and when the default chooses them.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/error.h"
#include "scheduler/algebra/algorithms.h"
#include "tests/scheduler_kernels.h"
#include "tests/terms.h"
#include "tests/thorough.h"

namespace tc::testing {
namespace {

// A convolution or product with an epilogue, and lines that bring it into blocks.
struct Layer {
  int64_t batch = 1, channels = 64, features = 64, rows = 14, columns = 14;
  int64_t taps = 1, stride = 1, padding = 0;
  bool residual = false, blocked = true;

  int64_t outputs(int64_t size) const { return (size + 2 * padding - taps) / stride + 1; }

  Kernel kernel() const { return parse_kernel(blocked ? convolution() : product()); }

  std::string product() const {
    return text("kernel \"product\"\n  input I f32[", rows, ", ", channels, "]\n  constant K f32[", channels,
                ", ", features, "]\n  constant B f32[", features, "]\n",
                residual ? text("  input R f32[", rows, ", ", features, "]\n") : "", "  output O f32[", rows,
                ", ", features, "]\n  local T f32[", rows, ", ", features, "]\n  init[m:", rows,
                ", n:", features, "]: T[m, n] = 0\n  macc[m:", rows, ", n:", features, ", k:", channels,
                "]: T[m, n] += I[m, k] * K[k, n]\n  tail[i:", rows, ", j:", features,
                "]: O[i, j] = max(T[i, j] + B[j]", residual ? " + R[i, j]" : "", ", 0)\n");
  }

  std::string convolution() const {
    const int64_t height = outputs(rows), width = outputs(columns);
    std::string where;
    auto condition = [&](const std::string& text) {
      where += (where.empty() ? " where " : ", ") + text + " >= 0";
    };
    auto place = [&](const char* out, const char* tap) {
      return text(stride, "*", out, taps > 1 ? text(" + ", tap) : "",
                  padding > 0 ? text(" - ", padding) : "");
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
    const std::string over = text(loop, "f:", features, ", y:", height, ", x:", width),
                      at = "[" + n + ", f, y, x]";
    return text("kernel \"convolution\"\n  input I f32[", batch, ", ", channels, ", ", rows, ", ", columns,
                "]\n", residual ? "  input R f32[" + map + "]\n" : "", "  constant K f32[", features, ", ",
                channels, ", ", taps, ", ", taps, "]\n  constant B f32[", features, "]\n  output O f32[", map,
                "]\n  local T f32[", map, "]\n  init[", over, "]: T", at, " = 0\n  macc[", over,
                ", c:", channels, taps > 1 ? text(", r:", taps, ", s:", taps) : "", "]", where, ": T", at,
                " += I[", n, ", c, ", y, ", ", x, "] * K[f, c, ", taps > 1 ? "r, s" : "0, 0", "]\n  tail[",
                over, "]: O", at, " = max(T", at, " + B[f]", residual ? " + R" + at : "", ", 0)\n");
  }

  std::vector<std::string> layouts() const {
    if (!blocked) return {};
    std::vector<std::string> lines = {"layout I 1 16", "layout O 1 16"};
    if (residual) lines.push_back("layout R 1 16");
    return lines;
  }
};

Schedule rewritten(const Layer& layer, const Division& division, const std::string& line) {
  Schedule schedule(layer.kernel(), unit_target());
  std::vector<std::string> lines = layer.layouts();
  lines.push_back("layout T 1 16");
  lines.push_back(text("algorithm macc ", division.name, " ", line));
  if (auto refused = schedule.replay(lines)) fail(ErrorKind::Schedule, *refused);
  return schedule;
}

Schedule chosen(const Layer& layer, const Target& target, int threads = 1, double tolerance = 1e-3) {
  return default_schedule(layer.kernel(), target, threads, layer.layouts(), tolerance);
}

std::string algorithm(const Layer& layer, double tolerance = 1e-3, const Target& target = unit_target()) {
  return algorithm_of(chosen(layer, target, 1, tolerance).trace()).text;
}

Layer drawn(std::mt19937& random) {
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
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

TEST(Terms, RewritesComputeTheSame) {
  std::mt19937 random(1);
  for (int i = 0; i < cases(12, 32); ++i) {
    const Layer layer = drawn(random);
    const Division& division = i % 2 == 0 ? kHalves : kDigits;
    const std::string line =
        text(1 + i % 5 * 2, " ", 1 + i % 2, " ", 1 + i % 3, " ", 1 + i % 2, " ", i % 4 == 0 ? 16 : 4 + i % 7);
    const Schedule schedule = rewritten(layer, division, line);
    verify(schedule.kernel());
    EXPECT_EQ(str(parse_kernel(str(schedule.kernel()))), str(schedule.kernel()));
    EXPECT_EQ(workload_key(parse_kernel(workload_key(schedule.kernel()))), workload_key(schedule.kernel()));
    EXPECT_EQ(difference(layer.kernel(), schedule, 7, {}, {}, division.error), "")
        << i << " " << division.name << " " << line << str(layer.kernel());
  }
}

// One row, with or without an iterator of its own; a convolution with one output.
std::vector<Kernel> one_row(int64_t channels, int64_t features) {
  const Layer row{.channels = channels, .features = features, .rows = 1, .blocked = false};
  const Kernel plain =
      parse_kernel(text("kernel \"row\"\n  input I f32[1, ", channels, "]\n  constant K f32[", channels, ", ",
                        features, "]\n  output O f32[1, ", features, "]\n  local T f32[1, ", features,
                        "]\n  init[n:", features, "]: T[0, n] = 0\n  macc[n:", features, ", k:", channels,
                        "]: T[0, n] += I[0, k] * K[k, n]\n  tail[j:", features, "]: O[0, j] = T[0, j]\n"));
  return {row.kernel(), plain};
}

TEST(Terms, DigitsOfOneRowAreRows) {
  const Layer pixel{.channels = 40, .features = 40, .rows = 3, .columns = 3, .taps = 3, .residual = true};
  std::vector<Kernel> kernels = one_row(70, 40);
  kernels.push_back(pixel.kernel());
  for (const Kernel& kernel : kernels) {
    for (const char* line : {"1 1 1 1 1", "1 2 1 1 1", "9 9 2 1 1"}) {
      Schedule schedule(kernel, unit_target());
      std::vector<std::string> lines =
          kernel.name == "convolution" ? pixel.layouts() : std::vector<std::string>{};
      lines.push_back("layout T 1 16");
      lines.push_back(text("algorithm macc int8x6 ", line));
      ASSERT_EQ(schedule.replay(lines), std::nullopt) << line;
      verify(schedule.kernel());
      const Statement& sum = *schedule.kernel().find("macc");
      const auto row = std::find_if(sum.iterators.begin(), sum.iterators.end(),
                                    [](const Iterator& each) { return each.name == "row"; });
      EXPECT_EQ(row->extent, Affine(3)) << str(schedule.kernel());
      EXPECT_EQ(difference(kernel, schedule, 7, {}, {}, kDigits.error), "") << line << str(kernel);
    }
  }
}

TEST(Terms, OneRowIsChosenWhereWeightsStream) {
  Target target = unit_target();
  target.l2_bytes = 16384;
  for (const Kernel& kernel : one_row(448, 512)) {
    for (int threads : {1, 2}) {
      const Schedule schedule = default_schedule(kernel, target, threads, {}, 1e-4);
      EXPECT_EQ(algorithm_of(schedule.trace()).text, "int8x6") << str(kernel);
      EXPECT_EQ(difference(kernel, schedule, 7, {}, {}, kDigits.error), "") << str(kernel);
    }
  }
  // Weights that stay near are read at the speed of the products in f32.
  for (const Kernel& kernel : one_row(128, 128)) {
    EXPECT_EQ(algorithm_of(default_schedule(kernel, unit_target(), 1, {}, 1e-4).trace()).text, "");
  }
}

// A convolution whose numbers of images and lines are parameters.
Kernel symbolic_convolution() {
  return parse_kernel(R"(kernel "convolution"
  parameter p = images in [1, 9]
  parameter q = lines in [3, 20]
  input I f32[p, q, 3, 40]
  constant K f32[24, 40, 3]
  output O f32[p, q - 2, 3, 24]
  local T f32[p, q - 2, 3, 24]
  init[b:p, y:q - 2, x:3, f:24]: T[b, y, x, f] = 0
  macc[b:p, y:q - 2, x:3, f:24, c:40, r:3]: T[b, y, x, f] += I[b, y + r, x, c] * K[f, c, r]
  tail[b:p, y:q - 2, x:3, f:24]: O[b, y, x, f] = max(T[b, y, x, f], 0)
)");
}

TEST(Terms, RowsMayBeSymbolic) {
  for (const Division& division : {kHalves, kDigits}) {
    for (const char* line : {"20 2 1 1 7", "33 1 2 2 16"}) {
      for (const Kernel& kernel : {symbolic_product(), symbolic_convolution()}) {
        Schedule schedule(kernel, unit_target());
        const bool product = kernel.name == "product";
        if (!thorough() && product != (line[0] == '2')) continue;
        const std::vector<std::string> lines = {text("layout T ", product ? 1 : 3, " 16"),
                                                text("algorithm macc ", division.name, " ", line)};
        ASSERT_EQ(schedule.replay(lines), std::nullopt) << line;
        verify(schedule.kernel());
        for (const auto& [p, q] : {std::pair(1, 3), std::pair(3, 8)}) {
          const std::map<std::string, int64_t> sizes =
              product ? std::map<std::string, int64_t>{{"p", p * q}}
                      : std::map<std::string, int64_t>{{"p", p}, {"q", q}};
          EXPECT_EQ(difference(kernel, schedule, 7, sizes, {}, division.error), "")
              << line << " " << p << " " << q;
        }
      }
    }
  }
}

TEST(Terms, DefaultsOfSymbolicRows) {
  for (const Division& division : {kHalves, kDigits}) {
    Target target = unit_target({division.format});
    target.multiply_adds = 0.05;
    for (int threads : {1, 2}) {
      const Kernel kernel = symbolic_product();
      const Schedule schedule = default_schedule(kernel, target, threads, {}, 1e-3);
      EXPECT_EQ(algorithm_of(schedule.trace()).text, division.name);
      for (int64_t p : {1, 16, 50, 129}) {
        EXPECT_EQ(difference(kernel, schedule, 7, {{"p", p}}, {}, division.error), "")
            << p << " " << threads << " " << division.name;
      }
    }
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

TEST(Terms, DefaultsComputeTheSame) {
  for (const Division& division : {kHalves, kDigits}) {
    Target target = unit_target({division.format});
    target.multiply_adds = 0.1;  // so that the unit pays for layers that the interpreter has time for
    int chose = 0;
    for (size_t i = 0; i < layers().size(); ++i) {
      for (int threads : {1, 2}) {
        if (!thorough() && threads != 1 + static_cast<int>(i % 2)) continue;
        const Schedule schedule = chosen(layers()[i], target, threads);
        chose += algorithm_of(schedule.trace()).text == division.name;
        EXPECT_EQ(difference(layers()[i].kernel(), schedule, 7, {}, {}, division.error), "")
            << i << " " << division.name << str(layers()[i].kernel());
      }
    }
    EXPECT_GE(chose, cases(6, 12)) << division.name;
  }
}

TEST(Terms, TheToleranceDecides) {
  const Layer large{.channels = 256, .features = 256, .rows = 128, .blocked = false};
  const Target halves = unit_target({kHalves.format});
  EXPECT_EQ(algorithm(large, 0), "");
  EXPECT_EQ(algorithm(large, 1e-5), "");
  EXPECT_EQ(algorithm(large, 1e-4), "int8x6");
  EXPECT_EQ(algorithm(large, 1e-3), "int8x6");
  EXPECT_EQ(algorithm(large, 1e-4, halves), "");
  EXPECT_EQ(algorithm(large, 1e-3, halves), "bf16x3");
  EXPECT_EQ(algorithm({.channels = 256, .features = 256, .rows = 4, .blocked = false}), "");
  // Fewer products where the tolerance allows their errors.
  EXPECT_EQ(algorithm(large, 1e-2), "int8x3");
  EXPECT_EQ(algorithm(large, 2e-1), "bf16");
  EXPECT_EQ(algorithm(large, 1e-2, halves), "bf16x3");
  const TraceAlgorithm row = algorithm_of({"algorithm macc bf16x3 128 8 2 2 16"});
  EXPECT_EQ(row.text, "bf16x3");
  EXPECT_EQ(row.error, kTwoTermsError);
  EXPECT_EQ(row.tolerance, 2e-4);
  const TraceAlgorithm digits = algorithm_of({"algorithm macc int8x6 128 8 1 1 16"});
  EXPECT_EQ(digits.text, "int8x6");
  EXPECT_EQ(digits.error, kDigitsError);
  EXPECT_EQ(digits.tolerance, 20 * kDigitsError);
}

// Sums by order run two accumulators at a time where the constant's part (16 features) exceeds the first
// cache and taps read the input again, or where there are few steps; one accumulator has at least 7 rows.
TEST(Terms, AccumulatorsAtATime) {
  Target target = unit_target({kDigits.format});
  target.l1_bytes = 48 << 10;
  target.multiply_adds = 0.1;
  auto line = [&](const Layer& layer) {
    const Schedule schedule = chosen(layer, target);
    for (const std::string& each : schedule.trace()) {
      if (each.rfind("algorithm", 0) == 0) return each;
    }
    return std::string();
  };
  const auto square = [](int64_t channels, int64_t size, int64_t taps, int64_t stride = 1) {
    return Layer{.channels = channels,
                 .features = 64,
                 .rows = size,
                 .columns = size,
                 .taps = taps,
                 .stride = stride,
                 .padding = taps / 2};
  };
  EXPECT_EQ(line(square(128, 28, 3)), "algorithm macc int8x6 28 4 1 2 14");  // 54 KiB of the constant
  EXPECT_EQ(line(square(64, 28, 3)), "algorithm macc int8x6 28 4 1 1 14");   // 27 KiB
  EXPECT_EQ(line(square(2048, 16, 1)), "algorithm macc int8x6 64 4 1 1 16");
  EXPECT_EQ(line(square(256, 16, 1)), "algorithm macc int8x6 256 4 1 1 16");
  EXPECT_EQ(line(square(128, 16, 1)), "algorithm macc int8x6 256 4 1 2 16");  // two steps
  EXPECT_EQ(line(square(512, 14, 3, 2)), "algorithm macc int8x6 7 4 1 1 7");
  EXPECT_EQ(line(square(512, 12, 3, 2)), "");  // 6 rows
}

// Whoever measures gets the algorithms that the default does not choose, too.
TEST(Terms, AllAlgorithmsWithinTheTolerance) {
  const Layer small{.channels = 64, .features = 16, .taps = 3, .padding = 1};
  auto algorithms = [&](double tolerance, const Target& target) {
    Schedule start(small.kernel(), target);
    EXPECT_EQ(start.replay(small.layouts()), std::nullopt);
    std::string result;
    for (const auto& trace : algorithm_traces(start, 1, tolerance)) {
      Schedule schedule(small.kernel(), target);
      EXPECT_EQ(schedule.replay(trace), std::nullopt);
      EXPECT_EQ(schedule.check(), std::nullopt);
      result += algorithm_of(trace).text + "; ";
    }
    return result;
  };
  EXPECT_EQ(algorithms(0, unit_target()), "");
  EXPECT_EQ(algorithms(1e-4, unit_target()), "int8x6; winograd F(4, 3); ");
  EXPECT_EQ(algorithms(1e-4, parse_target("x86-64-v4")), "winograd F(4, 3); ");
  EXPECT_EQ(algorithms(2.5e-5, unit_target()), "int8x6; winograd F(2, 3); ");
}

// What is not finite in the input makes all results of its band not finite; no digit tells what it was.
TEST(Terms, WhatIsNotFiniteSpreads) {
  const Layer layer{.channels = 40, .features = 24, .rows = 12, .blocked = false};
  const Schedule schedule = rewritten(layer, kDigits, "4 1 1 1 4");
  for (const double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    std::map<std::string, Tensor> tensors;
    for (const Buffer& buffer : schedule.kernel().buffers) {
      if (!is_argument(buffer)) continue;
      std::vector<int64_t> shape;
      for (const Affine& size : buffer.shape) shape.push_back(size.constant());
      Tensor& tensor = tensors[buffer.name] = Tensor(buffer.dtype, shape);
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, 1 + static_cast<double>(i % 3));
    }
    tensors.at("I").set(5 * 40 + 7, odd);  // in the second band of four rows
    interpret(schedule.kernel(), {}, tensors);
    const Tensor& result = tensors.at("O");
    for (int64_t i = 0; i < result.count(); ++i) {
      EXPECT_EQ(std::isfinite(result.as_double(i)), i / 24 / 4 != 1) << odd << " at " << i;
    }
  }
}

const char* const kDigitsOfFour = R"(kernel digits
  constant K i8[2, 3, 3]
  constant S f32[2]
  output O i8[2, 3, 3]
  packing K[f, d, k] of [2, 3] at [f, k] fill 0 terms d scaled [f]
  packing S scales of K
  copy[f:2, d:3, k:3]: O[f, d, k] = K[f, d, k]
)";

TEST(Terms, DigitsAreOfWholeNumbersInUnitsOfTheirScale) {
  const Kernel kernel = parse_kernel(kDigitsOfFour);
  verify(kernel);
  EXPECT_EQ(str(kernel), kDigitsOfFour);
  Tensor original(DType::F32, {2, 3});
  const double unit = 0.25;  // the first feature's largest is the largest number of units
  const std::vector<double> units = {largest_of_digits(3), -8323071, 0x123456, 0, 0, 0};
  for (int64_t i = 0; i < 6; ++i) original.set(i, unit * units[static_cast<size_t>(i)]);
  const Tensor scales = pack(kernel.packings[1], kernel, original),
               digits = pack(kernel.packings[0], kernel, original);
  EXPECT_EQ(scales.as_double(0), unit);
  EXPECT_EQ(scales.as_double(1), 0);
  for (int64_t i = 0; i < 6; ++i) {
    double sum = 0;
    for (int64_t digit = 0; digit < 3; ++digit)
      sum = 256 * sum + digits.as_double(i / 3 * 9 + digit * 3 + i % 3);
    EXPECT_EQ(sum, units[static_cast<size_t>(i)]) << i;
  }
  original.set(4, std::nan(""));
  EXPECT_TRUE(std::isnan(pack(kernel.packings[1], kernel, original).as_double(1)));
  original.set(4, HUGE_VAL);
  EXPECT_EQ(pack(kernel.packings[1], kernel, original).as_double(1), HUGE_VAL);
  EXPECT_EQ(recipe(kernel.packings[0], kernel), "i8 2 3 3 at i0 i2 fill 0 terms 1 scaled 0");
  EXPECT_EQ(recipe(kernel.packings[1], kernel), "scales of i8 2 3 3 at i0 i2 fill 0 terms 1 scaled 0");
  EXPECT_EQ(original_of(kernel, "S"), "K");
  EXPECT_EQ(original_of(kernel, "K"), "K");
}

TEST(Terms, WrongDigitsAreRefused) {
  auto refused = [](const Changes& changes) {
    try {
      verify(parse_kernel(replaced(kDigitsOfFour, changes)));
    } catch (const Error& error) {
      const std::string what = error.what();
      return what.substr(what.find(": ", what.find("kernel '")) + 2);
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused({}), "accepted");
  EXPECT_EQ(refused({{"K i8", "K i32"}, {"O i8", "O i32"}}),
            "the packing of 'K' divides i32 numbers into terms");
  EXPECT_EQ(refused({{" scaled [f]", ""}}), "the packing of 'K' makes digits without scales");
  EXPECT_EQ(refused({{"K i8", "K f32"}, {"O i8", "O f32"}}),
            "the packing of 'K' scales terms that are no digits");
  EXPECT_EQ(refused({{"scaled [f]", "scaled [d]"}}), "the packing of 'K' cannot have scales by 'd'");
  EXPECT_EQ(refused({{"scaled [f]", "scaled [f, f]"}}), "the packing of 'K' cannot have scales by 'f'");
  EXPECT_EQ(refused({{"terms d", "terms x"}}), "the packing of 'K' has no iterator 'x' for its terms");
  EXPECT_EQ(refused({{"at [f, k]", "at [f, k + d]"}}),
            "the packing of 'K' reads other elements for other terms");
  EXPECT_EQ(refused({{"scales of K", "scales of O"}}), "the packing of 'S' has no digits in 'O'");
  EXPECT_EQ(refused({{"S f32[2]", "S f32[3]"}}),
            "buffer 'S' does not hold as many numbers as 'K' has scales");
}

}  // namespace
}  // namespace tc::testing
