// Products of digits on vectors, where there is no unit of tiles: the rewrite against the plain statements,
// when the default takes it, refusals, and what compiled leaves compute and consist of.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "codegen/llvm/emit/matrix_plan.h"
#include "codegen/llvm/kernel_code.h"
#include "ir/error.h"
#include "scheduler/algebra/algorithms.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

Target vector_target() { return parse_target("x86-64-v4+avx512vnni"); }

#define SKIP_WITHOUT_UNIT() \
  if (std::string why; !runs_here(vector_target(), &why)) GTEST_SKIP() << "nothing is run: " << why

// Of the interpreter, which computes in double.
constexpr double kError = 2e-6;

// Of one output, over a map of so many lines and columns in blocks of 16 channels.
Kernel pixel(int64_t features, int64_t channels, int64_t size) {
  return parse_kernel(
      text("kernel \"pixel\"\n  input I f32[1, ", channels, ", ", size, ", ", size, "]\n  constant K f32[",
           features, ", ", channels, ", ", size, ", ", size, "]\n  output O f32[1, ", features,
           ", 1, 1]\n  local T f32[1, ", features, ", 1, 1]\n  init[f:", features,
           ", y:1, x:1]: T[0, f, y, x] = 0\n  macc[f:", features, ", y:1, x:1, c:", channels, ", r:", size,
           ", s:", size, "]: T[0, f, y, x] += I[0, c, y + r, x + s] * K[f, c, r, s]\n  tail[f:", features,
           ", y:1, x:1]: O[0, f, y, x] = max(T[0, f, y, x], 0)\n"));
}
const std::vector<std::string> kBlocks = {"layout I 1 16", "layout O 1 16"};

// Caches so small that weights do not stay there.
Target streaming_target() {
  Target target = vector_target();
  target.l2_bytes = 16384;
  return target;
}

std::string algorithm(const Kernel& kernel, const Target& target, double tolerance = 1e-4) {
  return algorithm_of(default_schedule(kernel, target, 1, {}, tolerance).trace()).text;
}

TEST(VectorUnit, RewritesComputeTheSame) {
  std::mt19937 random(1);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 24; ++i) {
    const bool map = i % 3 == 0;
    const Kernel kernel =
        map ? pixel(pick(8, 90), pick(8, 40), pick(1, 3)) : biased_product(i % 3, pick(8, 90), pick(5, 90));
    Schedule schedule(kernel, vector_target());
    std::vector<std::string> lines = map ? kBlocks : std::vector<std::string>{};
    lines.push_back("layout T 1 16");
    lines.push_back(text("algorithm macc int8x6 ", 1 + i % 2, " ", 1 + i % 4, " ", 1 + i % 5, " 1 1"));
    ASSERT_EQ(schedule.replay(lines), std::nullopt) << lines.back() << str(kernel);
    verify(schedule.kernel());
    // Not the nine products of each two digits, but those that count.
    const Statement& sum = *schedule.kernel().find("macc");
    EXPECT_EQ(std::count(sum.constraints.begin(), sum.constraints.end(),
                         Affine(2) - Affine::variable("part") - Affine::variable("by")),
              1)
        << str(schedule.kernel());
    EXPECT_EQ(difference(kernel, schedule, 7, {}, {}, kError), "") << lines.back() << str(kernel);
  }
}

TEST(VectorUnit, IsChosenWhereWeightsOfOneRowStream) {
  const Target target = streaming_target();
  const Kernel kernel = biased_product(1, 512, 448);
  for (int threads : {1, 2}) {
    const Schedule schedule = default_schedule(kernel, target, threads, {}, 1e-4);
    EXPECT_EQ(algorithm_of(schedule.trace()).text, "int8x6");
    EXPECT_EQ(difference(kernel, schedule, 7, {}, {}, kError), "");
  }
  EXPECT_EQ(algorithm(kernel, target, 1e-5), "");
  EXPECT_EQ(algorithm(biased_product(1, 1200, 400), vector_target()), "int8x6");
  EXPECT_EQ(algorithm(biased_product(1, 400, 400), vector_target()), "");  // 640 KB stay in a cache of 1 MiB
  // 1.2 MB do, but not in the caches of two threads.
  const Kernel middle = biased_product(1, 1024, 304);
  for (int threads : {1, 2}) {
    const Schedule schedule = default_schedule(middle, vector_target(), threads, {}, 1e-4);
    EXPECT_EQ(algorithm_of(schedule.trace()).text, threads == 1 ? "int8x6" : "");
  }
  EXPECT_EQ(algorithm(biased_product(2, 512, 448), target), "");
  EXPECT_EQ(algorithm(biased_product(16, 512, 448), target), "");
  Target none = parse_target("znver5,-avx512vnni");
  none.l2_bytes = target.l2_bytes;
  EXPECT_EQ(algorithm(kernel, none), "");
}

// No machine of ours has AVX-VNNI: what it would run is interpreted, and its assembly is read.
TEST(VectorUnit, AvxVnniHasVectorsOfEightSums) {
  const Target target = parse_target("x86-64-v3+avxvnni");
  for (const auto& [rows, tolerance, name, instruction] :
       {std::tuple(1, 1e-4, "int8x6", "vpdpbusd"), {96, 1e-2, "int16", "vpdpwssd"}}) {
    const Kernel kernel = biased_product(rows, 512, 448);
    const Schedule schedule = default_schedule(kernel, target, 1, {}, tolerance);
    EXPECT_EQ(algorithm_of(schedule.trace()).text, name)
        << str(default_report(Schedule(kernel, target), 1, tolerance));
    EXPECT_EQ(difference(kernel, schedule, 7, {}, {}, tolerance), "");
    const std::string loop = hottest_loop(kernel_assembly(schedule.finish(), target, "kernel"), instruction);
    EXPECT_GT(count_lines(loop, instruction), 3) << loop;
    EXPECT_LE(count_lines(loop, "(%rsp)"), rows == 1 ? 0 : 8)
        << loop;  // products of 16-bit numbers spill a little
    EXPECT_EQ(count_lines(loop, "%zmm"), 0) << loop;
  }
}

// Whoever measures gets it where weights stay near, too, but not of several rows.
TEST(VectorUnit, TracesOfOneRow) {
  auto traces = [](int64_t rows) {
    return algorithm_traces(Schedule(biased_product(rows, 96, 64), vector_target()), 1, 1e-4);
  };
  ASSERT_EQ(traces(1).size(), 1u);
  EXPECT_EQ(algorithm_of(traces(1)[0]).text, "int8x6");
  EXPECT_EQ(traces(2).size(), 0u);
}

// As few features in vain as possible: panels of 75, 63 and 7 blocks.
TEST(VectorUnit, BlocksAtATimeDivideThePanel) {
  auto line = [](int64_t features) {
    const Schedule schedule =
        default_schedule(biased_product(1, features, 1024), streaming_target(), 1, {}, 1e-4);
    for (const std::string& each : schedule.trace()) {
      if (each.rfind("algorithm", 0) == 0) return each;
    }
    return std::string();
  };
  EXPECT_EQ(line(1200), "algorithm macc int8x6 1 15 5 1 1");
  EXPECT_EQ(line(1000), "algorithm macc int8x6 1 9 7 1 1");
  EXPECT_EQ(line(4096), "algorithm macc int8x6 1 64 4 1 1");
}

TEST(VectorUnit, IsRefusedByName) {
  const std::string all = R"(kernel "unit"
  input A i8[2, 32]
  input B i8[2, 4, 3, 16, 4]
  output O i32[2, 16]
  zero[i:2, j:16]: O[i, j] = 0
  dot[i:2, d:2, m:1, j:16, g:4, e:4]: O[i + m, j] += i32(A[i + m, 16*d + 4*g + e]) * i32(B[d, g, 1, j, e])
)";
  auto changed = [&](const std::string& from, const std::string& to, const std::string& line,
                     const Target& target = vector_target()) {
    std::string kernel = all;
    if (!from.empty()) kernel.replace(kernel.find(from), from.size(), to);
    Schedule schedule(parse_kernel(kernel), target);
    const std::string refused = schedule.apply(line).value_or("accepted");
    return refused.substr(refused == "accepted" ? 0 : line.size() + 2);
  };
  const std::string line = "tensorize dot_m dot_j dot_g dot_e";
  EXPECT_EQ(changed("", "", line), "accepted");  // groups are apart: each is a vector
  EXPECT_EQ(changed("", "", line, parse_target("x86-64-v4")), "target x86-64-v4 has no matrix unit");
  EXPECT_EQ(changed("m:1", "m:2", line), "loop dot_m has 2 trips, but the unit has 1 rows");
  EXPECT_EQ(changed("B[d, g, 1, j, e]", "B[d, e, 1, j, g]", line),
            "operand B of dot is not packed as [groups][columns][packed elements]");
  EXPECT_EQ(changed("16*d + 4*g + e", "16*d + 4*e + g", line),
            "operand A of dot does not have the depth of 4 x 4 next to each other");
  Schedule halves(biased_product(1, 32, 32), vector_target());
  EXPECT_EQ(
      halves.replay({"layout T 1 16", "algorithm macc bf16x3 1 1 1 1 1"}).value_or("accepted"),
      "algorithm macc bf16x3 1 1 1 1 1: the matrix unit of target x86-64-v4+avx512vnni does not multiply bf16");
  Schedule tall(biased_product(4, 32, 32), vector_target());
  EXPECT_EQ(tall.replay({"layout T 1 16", "algorithm macc int8x6 4 1 1 1 2"}).value_or("accepted"),
            "algorithm macc int8x6 4 1 1 1 2: an accumulator has 1 rows, fewer than 2");
}

// The kernel by products of digits, whether they pay or not.
Schedule by_digits(const Kernel& kernel, int threads = 1, const std::vector<std::string>& layouts = {}) {
  Schedule schedule(kernel, vector_target());
  EXPECT_EQ(schedule.replay(layouts), std::nullopt);
  const auto traces = algorithm_traces(schedule, threads, 1e-4);
  EXPECT_EQ(traces.empty() ? "" : algorithm_of(traces[0]).text, "int8x6");
  Schedule result(kernel, vector_target());
  EXPECT_EQ(result.replay(traces.at(0)), std::nullopt);
  return result;
}

// A search drops marks: what the unit's registers cannot do is refused, and the rest is compiled.
TEST(VectorUnit, CopiesAroundTheUnitAreUnrolled) {
  const Kernel kernel = biased_product(1, 333, 161);
  const std::vector<std::string> trace = by_digits(kernel).trace();
  int refused = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].rfind("unroll ", 0) != 0) continue;
    std::vector<std::string> less = trace;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
    Schedule schedule(kernel, vector_target());
    ASSERT_EQ(schedule.replay(less), std::nullopt) << trace[i];
    const auto why = schedule.check();
    if (why) {
      EXPECT_NE(why->find("unroll it"), std::string::npos) << *why;
      ++refused;
    } else {
      EXPECT_NO_THROW(kernel_assembly(schedule.finish(), vector_target(), "kernel")) << trace[i];
    }
  }
  EXPECT_GT(refused, 0);
}

// Depths and features that are no multiples of anything, one thread and two.
TEST(VectorUnit, CompiledErrorsAreBelowTheBound) {
  SKIP_WITHOUT_UNIT();
  for (const auto& [features, channels] : {std::pair(1200, 400), std::pair(1000, 1283), std::pair(333, 161),
                                           std::pair(257, 518), std::pair(5, 3), std::pair(17, 16)}) {
    const Kernel kernel = biased_product(1, features, channels);
    for (int threads : {1, 2}) {
      auto run = [&](const ScheduledKernel& scheduled, Tensors& tensors) {
        run_compiled(scheduled, vector_target(), {}, tensors, threads);
      };
      EXPECT_EQ(difference(kernel, by_digits(kernel, threads), 7, {}, run, 2 * kDigitsError), "") << features;
    }
  }
  const Kernel map = pixel(300, 72, 3);
  auto run = [&](const ScheduledKernel& scheduled, Tensors& tensors) {
    run_compiled(scheduled, vector_target(), {}, tensors);
  };
  EXPECT_EQ(difference(map, by_digits(map, 1, kBlocks), 7, {}, run, 2 * kDigitsError), "");
}

// What is not finite in the input makes all results NaN or infinite, as the interpreter has it.
TEST(VectorUnit, WhatIsNotFiniteSpreads) {
  SKIP_WITHOUT_UNIT();
  const ScheduledKernel scheduled = by_digits(biased_product(1, 160, 400)).finish();
  for (const double odd : {1.0, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Tensors tensors = seeded_arguments(scheduled.kernel);
    tensors.at("I").set(7, odd);
    run_compiled(scheduled, vector_target(), {}, tensors);
    const Tensor& result = tensors.at("O");
    for (int64_t i = 0; i < result.count(); ++i)
      EXPECT_EQ(std::isfinite(result.as_double(i)), odd == 1.0) << odd << " at " << i;
  }
}

// --- leaves ------------------------------------------------------------------------------------

struct Rows {
  int64_t rows = 1, blocks = 4, steps = 6;  // accumulators of the leaf; trips of the serial loop
  int64_t parts = 1;                        // leaves that continue the sum from memory
};

// Sums of products of three digits each by order, for two panels.
ScheduledKernel rows_of(const Rows& p) {
  ScheduledKernel scheduled;
  const int64_t all = p.steps * p.parts;
  scheduled.kernel = parse_kernel(text(
      "kernel \"rows\"\n  input A i8[", p.rows, ", ", all, ", 3, 16]\n  input B i8[2, ", p.blocks, ", ", all,
      ", 4, 3, 16, 4]\n  output C i32[2, ", p.rows, ", 3, ", 16 * p.blocks, "]\n  init[panel:2, m:", p.rows,
      ", o:3, n:", 16 * p.blocks, "]: C[panel, m, o, n] = 0\n  macc[panel:2, m:", p.rows, ", no:", p.blocks,
      ", s:", all,
      ", a:3, b:3, mi:1, ni:16, g:4, e:4] where 2 - a - b >= 0: C[panel, m + mi, a + b, 16*no + ni] += i32(A[m + mi, s, a, 4*g + e]) * "
      "i32(B[panel, no, s, g, b, ni, e])\n"));
  TileStatement init, macc;
  init.statement = 0;
  init.loops = {unrolled("m", p.rows), unrolled("o", 3), unrolled("c", p.blocks), lanes("l", 16)};
  init.iterators = {{"panel", v("panel")}, {"m", v("m")}, {"o", v("o")}, {"n", v("c") * 16 + v("l")}};
  macc.statement = 1;
  macc.loops = {serial("s", p.steps),     unrolled("a", 3),      unrolled("b", 3),
                unrolled("no", p.blocks), unrolled("m", p.rows), matrix("mi", 1),
                matrix("ni", 16),         matrix("g", 4),        matrix("e", 4)};
  for (const char* name : {"panel", "m", "no", "a", "b", "mi", "ni", "g", "e"})
    macc.iterators[name] = v(name);
  macc.iterators["s"] = v("part") * p.steps + v("s");
  if (p.parts == 1) macc.iterators["s"] = v("s");
  macc.constraints = {Affine(2) - v("a") - v("b")};
  scheduled.root = for_loop(
      "panel", 2,
      p.parts == 1 ? leaf({init, macc}) : block({leaf({init}), for_loop("part", p.parts, leaf({macc}))}));
  return scheduled;
}

// Digits of all kinds, the least and the largest among them.
Tensors digits_for(const ScheduledKernel& scheduled, bool extreme) {
  return drawn_inputs(scheduled.kernel, [=](const Buffer&, std::mt19937& random) -> int64_t {
    const int64_t value = static_cast<int64_t>(random() % 256) - 128;
    return extreme ? (value < 0 ? -128 : 127) : value;
  });
}

TEST(VectorUnit, LeavesAreExact) {
  SKIP_WITHOUT_UNIT();
  for (const Rows& p : {Rows{}, Rows{.blocks = 1, .steps = 1}, Rows{.blocks = 7},
                        Rows{.rows = 2, .blocks = 2}, Rows{.parts = 3}}) {
    const ScheduledKernel scheduled = rows_of(p);
    for (const bool extreme : {false, true}) {
      SCOPED_TRACE(text(p.rows, " rows, ", p.blocks, " blocks, ", p.parts, " parts"));
      expect_like_interpreter(scheduled, vector_target(), {}, digits_for(scheduled, extreme), 0);
    }
  }
}

// Products that do not exist in every run of the leaf, nor for every trip: their sums are not touched there.
TEST(VectorUnit, ConditionsOnOuterLoopsAndTrips) {
  SKIP_WITHOUT_UNIT();
  for (const int64_t parts : {1, 2}) {
    ScheduledKernel scheduled = rows_of({.parts = parts});
    const LoopNodePtr inside = scheduled.root->children[0];
    LoopNode& with_products = parts == 1 ? *inside : *inside->children[1]->children[0];
    std::vector<Affine>& constraints = with_products.statements.back().constraints;
    constraints.insert(constraints.end(), {v("panel") * 3 - v("s") + 2, v("panel") * 2 + v("s") - 1});
    if (parts == 2) constraints.push_back(v("panel") + v("part") - 1);
    expect_like_interpreter(scheduled, vector_target(), {}, digits_for(scheduled, false), 0);
  }
}

TEST(VectorUnit, LoopsLoadEachVectorOnce) {
  for (const int64_t blocks : {4, 7}) {
    const std::string assembly = kernel_assembly(rows_of({.blocks = blocks}), vector_target(), "kernel");
    const std::string loop = hottest_loop(assembly, "vpdpbusd");
    EXPECT_EQ(count_lines(loop, "vpdpbusd"), 4 * (6 * blocks + 3))
        << loop;  // four groups; each input digit's own sum
    EXPECT_EQ(count_lines(loop, "vpxor"), 4 * 3 * blocks) << loop;
    EXPECT_EQ(count_lines(loop, "vpbroadcastd"), 4 * 3) << loop;
    EXPECT_EQ(count_lines(loop, "(%rsp)"), 0) << loop;
    EXPECT_LE(count_lines(loop, "\t"), 4 * (9 * blocks + 6) + 8) << loop;
    EXPECT_EQ(count_lines(assembly, "tile"), 0) << assembly;
  }
}

TEST(VectorUnit, WhatTheUnitCannotDoIsABug) {
  const auto refused = [&](const ScheduledKernel& scheduled, const Target& target) {
    try {
      kernel_assembly(scheduled, target, "kernel");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Internal);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused(rows_of({.blocks = 8}), vector_target()), "accepted");
  EXPECT_NE(refused(rows_of({.blocks = 9}), vector_target()).find("for 35 vectors of statement 'macc'"),
            std::string::npos);
  EXPECT_NE(refused(rows_of({}), parse_target("x86-64-v4")).find("which has no matrix unit"),
            std::string::npos);
  ScheduledKernel narrow = rows_of({});
  narrow.root->children[0]->statements[1].loops[6].extent = 8;
  EXPECT_NE(refused(narrow, vector_target()).find("for loop '%ni' of statement 'macc'"), std::string::npos);
}

TEST(VectorUnit, ProductsOfOneVectorFollowEachOther) {
  const std::vector<std::vector<MatrixProduct>> groups = {{{0, 0, 0}, {3, 0, 1}}, {{1, 1, 0}, {4, 1, 1}}};
  const MatrixOrder order = order_one_by_one(groups, false), other = order_one_by_one(groups, true);
  const std::vector<MatrixProduct> wanted = {{0, 0, 0}, {1, 1, 0}, {3, 0, 1}, {4, 1, 1}};
  EXPECT_EQ(order.products, wanted);
  EXPECT_EQ(order.loads, 4);
  EXPECT_EQ(order.loads_b, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(order.loads_a, (std::vector<bool>{true, true, false, false}));
  const std::vector<MatrixProduct> by_a = {{0, 0, 0}, {3, 0, 1}, {1, 1, 0}, {4, 1, 1}};
  EXPECT_EQ(other.products, by_a);
  EXPECT_EQ(other.loads_a, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(other.loads_b, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(std::pair(other.a_registers, other.b_registers), std::pair(1, 2));
}

}  // namespace
}  // namespace tc::testing
