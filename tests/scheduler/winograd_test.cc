// Winograd's convolutions: the algebra, the rewrite against the plain statements in double, compiled
// code against its error bound, refusals, and when the default chooses it.
#include "scheduler/algebra/winograd.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "frontend/pipeline/plan_builder.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"
#include "tests/thorough.h"

namespace tc::testing {
namespace {

// A convolution with an epilogue, and lines that bring it into blocks.
struct Convolution {
  int64_t batch = 1, channels = 16, features = 16, rows = 8, columns = 8;
  int64_t top = 1, left = 1, bottom = 1, right = 1;  // padding
  bool residual = false, bias_first = false, direct = false;
  int64_t block = 8;
  int64_t taps = 3;  // in each direction

  Kernel kernel() const {
    const int64_t height = rows + top + bottom - taps + 1, width = columns + left + right - taps + 1;
    std::string where;
    auto condition = [&](const std::string& text) {
      where += (where.empty() ? " where " : ", ") + text + " >= 0";
    };
    if (top > 0) condition(text("y + r - ", top));
    if (bottom > 0) condition(text(rows - 1 + top, " - y - r"));
    if (left > 0) condition(text("x + s - ", left));
    if (right > 0) condition(text(columns - 1 + left, " - x - s"));
    const std::string n = batch > 1 ? "n" : "0", loop = batch > 1 ? text("n:", batch, ", ") : "";
    const std::string map = text(batch, ", ", features, ", ", height, ", ", width);
    const std::string outputs = text(loop, "f:", features, ", y:", height, ", x:", width);
    const std::string at = "[" + n + ", f, y, x]", result = direct ? "O" : "T";
    std::string all = text("kernel \"convolution\"\n  input I f32[", batch, ", ", channels, ", ", rows, ", ",
                           columns, "]\n", residual ? "  input R f32[" + map + "]\n" : "",
                           "  constant K f32[", features, ", ", channels, ", ", taps, ", ", taps,
                           "]\n  constant B f32[", features, "]\n  output O f32[", map, "]\n");
    if (!direct) all += "  local T f32[" + map + "]\n";
    all += text("  init[", outputs, "]: ", result, at, " = ", bias_first || direct ? "B[f]" : "0",
                "\n  macc[", outputs, ", c:", channels, ", r:", taps, ", s:", taps, "]", where, ": ", result,
                at, " += I[", n, ", c, r + y - ", top, ", s + x - ", left, "] * K[f, c, r, s]\n");
    if (!direct) {
      all += text("  tail[", outputs, "]: O", at, " = max(T", at, bias_first ? "" : " + B[f]",
                  residual ? " + R" + at : "", ", 0)\n");
    }
    return parse_kernel(all);
  }

  std::vector<std::string> layouts() const {
    std::vector<std::string> lines = {text("layout I 1 ", block), text("layout O 1 ", block)};
    if (residual) lines.push_back(text("layout R 1 ", block));
    return lines;
  }
};

// The transformed weights are rounded once; all else is exact to 1e-12 in the interpreter.
constexpr double kRoundedWeights = 1e-6;

// What the default chooses for it where errors may be large.
Schedule winograd(const Convolution& convolution, const Target& target, int threads = 1,
                  double tolerance = 1) {
  return default_schedule(convolution.kernel(), target, threads, convolution.layouts(), tolerance);
}

// The same whether or not it gains by the analytic cost model.
Schedule forced(const Convolution& convolution, const Target& target, int threads = 1) {
  Schedule schedule(convolution.kernel(), target);
  if (auto refused = schedule.replay(convolution.layouts())) fail(ErrorKind::Schedule, *refused);
  const auto traces = algorithm_traces(schedule, threads, 1);
  Schedule result(convolution.kernel(), target);
  if (auto refused = result.replay(traces.at(0))) fail(ErrorKind::Schedule, *refused);
  return result;
}

// The targets' own tables: what the default chooses by.
Target wide() { return parse_target("x86-64-v4"); }
Target narrow() { return parse_target("x86-64-v3"); }

// The rewrite alone, in blocks of so many tiles.
Schedule rewritten(const Convolution& convolution, const Target& target, int64_t outputs, int64_t rows,
                   int64_t columns) {
  Schedule schedule(convolution.kernel(), target);
  std::vector<std::string> lines = convolution.layouts();
  if (!convolution.direct) lines.push_back(text("layout T 1 ", convolution.block));
  lines.push_back(text("algorithm macc winograd ", outputs, " ", convolution.taps, " ", rows, " ", columns));
  if (auto refused = schedule.replay(lines)) fail(ErrorKind::Schedule, *refused);
  return schedule;
}

Convolution drawn(std::mt19937& random, int64_t taps = 3) {
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  Convolution result;
  result.batch = pick(1, 3) == 1 ? 2 : 1;
  result.channels = pick(8, 20);
  result.features = pick(8, 20);
  result.taps = taps;
  result.rows = pick(3, 15) + taps - 3;
  result.columns = pick(3, 15) + taps - 3;
  result.top = pick(0, 2);
  result.left = pick(0, 2);
  result.bottom = pick(0, 2);
  result.right = pick(0, 2);
  result.residual = pick(0, 1) == 1;
  result.bias_first = pick(0, 1) == 1;
  result.direct = pick(0, 3) == 0;
  if (result.direct) result.residual = false;
  return result;
}

TEST(Winograd, TheAlgebraIsThatOfAFilter) {
  const std::vector<double> filter = {0.3, -1.25, 0.7, 0.45, -0.8};
  for (const Winograd& algebra : winograd_rows()) {
    const int64_t outputs = algebra.outputs;
    EXPECT_EQ(find_winograd(outputs, algebra.taps), &algebra);
    EXPECT_EQ(algebra.points.size() + 1, static_cast<size_t>(algebra.products()));
    Kernel kernel;
    kernel.name = "filter";
    auto buffer = [&](const char* name, int64_t size, Scope scope) {
      kernel.buffers.push_back({name, DType::F64, {Affine(size)}, scope, ""});
      return static_cast<int>(kernel.buffers.size()) - 1;
    };
    const int input = buffer("D", algebra.products(), Scope::Input),
              output = buffer("Y", outputs, Scope::Output);
    const int product = buffer("P", algebra.products(), Scope::Local);
    auto loads = [&](int which) {
      std::vector<ExprPtr> result;
      for (int64_t k = 0; k < algebra.products(); ++k) result.push_back(load(DType::F64, which, {Affine(k)}));
      return result;
    };
    auto store = [&](int which, int64_t at, const ExprPtr& value) {
      Statement made;
      made.name = text("s", kernel.statements.size());
      made.write = {which, {{Affine(at), nullptr}}};
      made.value = value;
      kernel.statements.push_back(made);
    };
    for (int64_t k = 0; k < algebra.products(); ++k) {
      double factor = 0;
      const std::vector<double> row = algebra.filter_rows()[static_cast<size_t>(k)];
      EXPECT_EQ(row.size(), static_cast<size_t>(algebra.taps));
      for (size_t j = 0; j < row.size(); ++j) factor += row[j] * filter[j];
      store(product, k,
            binary(BinaryOp::Mul, constant(DType::F64, factor), algebra.input_row(k, loads(input))));
    }
    for (int64_t i = 0; i < outputs; ++i) store(output, i, algebra.output_row(i, loads(product)));
    verify(kernel);
    Tensors tensors;
    tensors["D"] = seeded(DType::F64, {algebra.products()}, 5);
    tensors["Y"] = Tensor(DType::F64, {outputs});
    interpret(kernel, {}, tensors);
    for (int64_t i = 0; i < outputs; ++i) {
      double expected = 0;
      for (int64_t k = 0; k < algebra.taps; ++k) {
        expected += filter[static_cast<size_t>(k)] * tensors["D"].as_double(i + k);
      }
      EXPECT_NEAR(tensors["Y"].as_double(i), expected, 1e-13) << outputs << ", " << algebra.taps << ": " << i;
    }
  }
  EXPECT_EQ(find_winograd(3, 3), nullptr);
  EXPECT_EQ(find_winograd(6, 5), nullptr);
}

TEST(Winograd, RewritesComputeTheSame) {
  std::mt19937 random(1);
  for (int i = 0; i < cases(16, 24); ++i) {
    const Convolution convolution = drawn(random, i < 16 ? 3 : 5);
    const int64_t outputs = i >= 16 ? 2 + i % 2 * 2 : i % 4 == 3 ? 6 : i % 2 == 0 ? 4 : 2;
    const int64_t columns = i % 3 == 0 ? 2 : 100;
    const Schedule schedule =
        rewritten(convolution, avx512_target(), outputs, i % 3 == 0 ? 1 : 1 + i % 4, columns);
    EXPECT_EQ(difference(convolution.kernel(), schedule, 7, {}, {}, kRoundedWeights), "")
        << i << str(convolution.kernel());
  }
}

TEST(Winograd, DefaultsComputeTheSame) {
  std::mt19937 random(2);
  for (int i = 0; i < 18; ++i) {
    Convolution convolution = drawn(random, i < 12 ? 3 : 5);
    const Target target = i % 2 == 0 ? wide() : narrow();
    convolution.block = target.block;
    const Schedule schedule = winograd(convolution, target);
    EXPECT_EQ(difference(convolution.kernel(), schedule, 7, {}, {}, kRoundedWeights), "")
        << i << str(convolution.kernel());
  }
}

TEST(Winograd, CompiledCodeKeepsItsErrorBound) {
  std::mt19937 random(3);
  for (int i = 0; i < 14; ++i) {
    Convolution convolution = drawn(random, i < 8 ? 3 : 5);
    convolution.rows += 12;
    convolution.columns += 12;
    std::string why;
    const Target target = i % 2 == 0 && runs_here(wide(), &why) ? wide() : narrow();
    convolution.block = target.block;
    const Schedule schedule = forced(convolution, target, 2);
    const TraceAlgorithm algorithm = algorithm_of(schedule.trace());
    EXPECT_NE(algorithm.text, "") << str(convolution.kernel());
    auto run = [&](const ScheduledKernel& kernel, Tensors& tensors) {
      run_compiled(kernel, target, {}, tensors, 2);
    };
    EXPECT_EQ(difference(convolution.kernel(), schedule, 7, {}, run, algorithm.error), "")
        << i << str(convolution.kernel());
  }
}

TEST(Winograd, CompiledCodeRunsUnderQemu) {
  Convolution convolution{
      .channels = 20, .features = 33, .rows = 19, .columns = 22, .residual = true, .block = 16};
  for (const char* name : {"rv64gcv", "rv64gcv_zvl256b"}) {
    const Target target = parse_target(name);
    for (const int64_t taps : {3, 5}) {
      convolution.taps = taps;
      const Schedule schedule = winograd(convolution, target);
      const TraceAlgorithm algorithm = algorithm_of(schedule.trace());
      EXPECT_NE(algorithm.text, "") << name << ", " << taps;
      auto run = [&](const ScheduledKernel& kernel, Tensors& tensors) {
        run_compiled(kernel, target, {}, tensors);
      };
      EXPECT_EQ(difference(convolution.kernel(), schedule, 7, {}, run, algorithm.error), "")
          << name << ", " << taps;
    }
  }
}

// Changes the constant of that number in the kernel's statements; false where there are fewer.
bool change_constant(Kernel& kernel, int which) {
  int seen = 0;
  for (Statement& statement : kernel.statements) {
    statement.value = rewrite(statement.value, [&](const ExprPtr& expr) -> ExprPtr {
      const bool number = expr->kind == Expr::Kind::Const && is_float(expr->dtype) && expr->number != 0;
      return number && seen++ == which ? constant(expr->dtype, expr->number * 1.001) : nullptr;
    });
  }
  return seen > which;
}

TEST(Winograd, AWrongConstantIsNoticed) {
  const int step = cases(5, 1);
  for (const Winograd& algebra : winograd_rows()) {
    const Convolution convolution{.taps = algebra.taps};
    const Schedule schedule = rewritten(convolution, wide(), algebra.outputs, 2, 100);
    int changed = 0;
    for (bool more = true; more; changed += more ? step : 0) {
      auto run = [&](const ScheduledKernel& kernel, Tensors& tensors) {
        ScheduledKernel wrong = kernel;
        more = change_constant(wrong.kernel, changed);
        interpret(wrong, {}, tensors);
      };
      const std::string found = difference(convolution.kernel(), schedule, 7, {}, run, kRoundedWeights);
      EXPECT_EQ(found.empty(), !more)
          << "constant " << changed << " of F(" << algebra.outputs << ", " << algebra.taps << ")";
    }
    EXPECT_EQ(changed > 0, algebra.products() > 4);  // those of F(2, 3) are all 1
    // One row of what the filter became.
    auto run = [&](const ScheduledKernel& kernel, Tensors& tensors) {
      const int64_t products = algebra.products();
      Tensor& filter = tensors.at("K");
      for (int64_t i = 0; i < filter.count(); ++i) {
        if (i / products % products == 1) filter.set(i, filter.as_double(i) * 1.001);
      }
      interpret(kernel, {}, tensors);
    };
    EXPECT_NE(difference(convolution.kernel(), schedule, 7, {}, run, kRoundedWeights), "");
  }
}

TEST(Winograd, FormsAreReadBack) {
  const Convolution convolution;
  const Schedule schedule = rewritten(convolution, wide(), 4, 1, 2);
  const Kernel& kernel = schedule.kernel();
  verify(kernel);
  EXPECT_EQ(str(parse_kernel(str(kernel))), str(kernel));
  // The default's trace, replayed line by line, is the default.
  const Schedule chosen = winograd({.rows = 24, .columns = 24, .block = 16}, wide());
  EXPECT_NE(algorithm_of(chosen.trace()).text, "");
  Schedule again(Convolution{.rows = 24, .columns = 24, .block = 16}.kernel(), wide());
  EXPECT_EQ(again.replay(chosen.trace()), std::nullopt);
  EXPECT_EQ(str(again.finish()), str(chosen.finish()));
}

// A tile's values are groups of registers where a block of channels is longer than one.
TEST(Winograd, TilesAreTransformedAlongColumnsAndThenRowsInOrder) {
  const auto by_passes = [](const char* target) {
    const auto trace = winograd({.rows = 24, .columns = 24, .block = 16}, parse_target(target)).trace();
    const auto has = [&](const char* line) {
      return std::find(trace.begin(), trace.end(), line) != trace.end();
    };
    EXPECT_NE(has("register_tile macc_rows_u"), has("register_tile in_x"));
    EXPECT_NE(has("register_tile macc_back_v"), has("register_tile out_x"));
    return has("register_tile macc_rows_u");
  };
  for (const char* target : {"rv64gcv", "rv64gcv_zvl256b"}) EXPECT_TRUE(by_passes(target)) << target;
  for (const char* target : {"rv64gcv_zvl512b", "x86-64-v3", "x86-64-v4", "aarch64"})
    EXPECT_FALSE(by_passes(target)) << target;
}

TEST(Winograd, TheToleranceDecides) {
  const Convolution large{.channels = 64, .features = 64, .rows = 28, .columns = 28, .block = 16};
  auto chosen = [&](const Convolution& convolution, double tolerance) {
    return algorithm_of(winograd(convolution, wide(), 1, tolerance).trace()).text;
  };
  EXPECT_EQ(chosen(large, 0), "");
  EXPECT_EQ(chosen(large, 1e-5), "");
  EXPECT_EQ(chosen(large, 3e-5), "winograd F(2, 3)");
  EXPECT_EQ(chosen(large, 1e-4), "winograd F(4, 3)");
  const Convolution window{.channels = 64, .features = 64, .rows = 28, .columns = 28, .block = 16, .taps = 5};
  EXPECT_EQ(chosen(window, 0), "");
  EXPECT_EQ(chosen(window, 5e-5), "");
  EXPECT_EQ(chosen(window, 1e-4), "winograd F(2, 5)");
  // In a small map, the direct convolution leaves out much that is padding.
  const Convolution small{.channels = 48,
                          .features = 128,
                          .rows = 7,
                          .columns = 7,
                          .top = 2,
                          .left = 2,
                          .bottom = 2,
                          .right = 2,
                          .block = 16,
                          .taps = 5};
  Convolution padded = small;  // the same outputs, of an input that has no padding
  padded.rows = padded.columns = 11;
  padded.top = padded.left = padded.bottom = padded.right = 0;
  EXPECT_EQ(chosen(small, 1e-4), "");
  EXPECT_EQ(chosen(padded, 1e-4), "winograd F(2, 5)");
  // Filters of four times the size that are read for a few tiles pay nowhere.
  EXPECT_EQ(chosen({.channels = 512, .features = 512, .rows = 7, .columns = 7, .block = 16}, 1e-4), "");
  const TraceAlgorithm row = algorithm_of({"layout I 1 16", "algorithm macc winograd 4 3 1 14"});
  EXPECT_EQ(row.text, "winograd F(4, 3)");
  EXPECT_EQ(row.error, 5e-6);
  EXPECT_EQ(row.tolerance, 1e-4);
  EXPECT_EQ(algorithm_of({"algorithm macc winograd 2 5 1 14"}).text, "winograd F(2, 5)");
  EXPECT_EQ(algorithm_of({"algorithm macc winograd 4 5 1 14"}).tolerance, 4e-4);
  EXPECT_EQ(algorithm_of({"algorithm macc winograd 6 5 1 14"}).text, "");
}

// The tiles of a block, by the trace.
int64_t tiles_of_a_block(const Schedule& schedule) {
  for (const std::string& line : schedule.trace()) {
    int64_t outputs = 0, taps = 0, rows = 0, columns = 0;
    if (std::sscanf(line.c_str(), "algorithm macc winograd %ld %ld %ld %ld", &outputs, &taps, &rows,
                    &columns) == 4) {
      return rows * columns;
    }
  }
  return 0;
}

// A filter that no cache holds is read once for each block: few blocks, which are larger than the second
// cache.
TEST(Winograd, LargeFiltersAreReadForManyTilesAtATime) {
  const Target target = parse_target("znver4");
  const auto bytes = [](const Convolution& convolution, int64_t tiles) {
    return 4 * 36 * convolution.channels * tiles;
  };
  const Convolution large{.channels = 1024, .features = 512, .rows = 32, .columns = 32, .block = 16};
  const int64_t many = tiles_of_a_block(winograd(large, target, 1, 1e-4));
  EXPECT_GE(many, 16);
  EXPECT_GT(bytes(large, many), target.l2_bytes);
  const Convolution usual{.channels = 256, .features = 256, .rows = 32, .columns = 32, .block = 16};
  const int64_t few = tiles_of_a_block(winograd(usual, target, 1, 1e-4));
  EXPECT_GE(few, 4);
  EXPECT_LT(bytes(usual, few), target.l2_bytes);
}

TEST(Winograd, ARecordedTraceNeedsItsTolerance) {
  Graph graph = parse_graph(R"(graph layer {
  input x f32[1, 64, 28, 28]
  constant w f32[64, 64, 3, 3] #0
  c f32[?] = Conv(x, w) {pads = [1, 1, 1, 1]}
  y f32[?] = Relu(c)
  output y
}
)");
  infer_shapes(graph);
  BuildOptions options;
  options.target = wide();
  options.tolerance = 1e-4;
  std::map<std::string, std::vector<std::string>> recorded;
  int algorithms = 0;
  for (const KernelReport& report : build_plan(graph, options).reports) {
    recorded[report.workload] = report.trace;
    algorithms += report.algorithm == "winograd F(4, 3)";
  }
  EXPECT_EQ(algorithms, 1);
  options.traces = [&](const std::string& workload) {
    return std::vector<std::vector<std::string>>{recorded.at(workload)};
  };
  EXPECT_EQ(build_plan(graph, options).notes, std::vector<std::string>{});
  options.tolerance = 0;
  const BuiltPlan exact = build_plan(graph, options);
  for (const KernelReport& report : exact.reports) EXPECT_EQ(report.algorithm, "");
  ASSERT_EQ(exact.notes.size(), 1u);
  EXPECT_NE(exact.notes[0].find("winograd F(4, 3) needs a tolerance of 0.0001, not 0"), std::string::npos)
      << exact.notes[0];
}

TEST(Winograd, WrongCombinationsAreRefused) {
  Kernel kernel = parse_kernel(R"(kernel "combined"
  constant K f32[2, 2]
  output O f32[2, 2]
  packing K[a, b] of [3, 2] combining 0 [[1, 0.5, 0.25], [0, 0, 1]] at [a, b] fill 0
  copy[i:2, j:2]: O[i, j] = K[i, j]
)");
  verify(kernel);
  Tensor original(DType::F32, {3, 2});
  for (int64_t i = 0; i < 6; ++i) original.set(i, static_cast<double>(i));
  const Tensor packed = pack(kernel.packings[0], kernel, original);
  for (int64_t j = 0; j < 2; ++j) {
    EXPECT_EQ(packed.as_double(j), 2 + 1.75 * static_cast<double>(j));
    EXPECT_EQ(packed.as_double(2 + j), 4 + static_cast<double>(j));
  }
  auto refused = [&](const std::string& part) {
    try {
      verify(kernel);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  kernel.packings[0].combinations[0].rows[1].pop_back();
  refused("the packing of 'K' combines 2 elements of 3");
  kernel.packings[0].combinations[0].rows.clear();
  refused("the packing of 'K' combines nothing");
  kernel.packings[0].combinations[0].dimension = 2;
  refused("the packing of 'K' combines dimension 2, which the original does not have as numbers");
}

}  // namespace
}  // namespace tc::testing
