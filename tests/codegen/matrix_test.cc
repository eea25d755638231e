// Products on the matrix unit: what the compiled leaves compute, and what their loops consist of.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "codegen/llvm/emit/matrix_plan.h"
#include "codegen/llvm/required_features.h"
#include "codegen/llvm/artefact/model_objects.h"
#include "codegen/llvm/artefact/link.h"
#include "codegen/llvm/kernel_code.h"
#include "ir/error.h"
#include "runtime/abi.h"
#include "runtime/machine.h"
#include "tests/codegen_harness.h"

namespace tc::testing {
namespace {

// Panels of a product of matrices: C[m, n] = sum over k of one or three products of bfloat16 terms.
struct Panels {
  int64_t rows = 16, columns = 16, groups = 16;  // of one instruction
  int64_t row_blocks = 2, column_blocks = 2;     // accumulators of the leaf
  int64_t steps = 4;                             // trips of the serial loop
  int64_t panels = 3;                            // runs of the leaf
  int products = 3;
  int64_t row_step = 1;  // rows of A from one row of C to the next
  int64_t parts = 1;     // leaves that continue the sum from memory
  int unroll = 1;
  bool depth_copies = false;  // the steps as copies, not as a loop
};

Target amx_target() { return parse_target("x86-64-v4+amx-bf16,+amx-tile,+avx512bf16"); }

bool has_unit(std::string* why) {
  if (!runs_here(amx_target(), why)) return false;
  if (runtime::enable_features("amx-tile")) return true;
  *why = "the system does not grant the use of AMX tile registers";
  return false;
}

#define SKIP_WITHOUT_UNIT() \
  if (std::string why; !has_unit(&why)) GTEST_SKIP() << "nothing is run, only assembly read: " << why

Kernel panels_kernel(const Panels& p) {
  const int64_t m = p.panels * p.row_blocks * p.rows, n = p.column_blocks * p.columns;
  const int64_t k = p.steps * p.groups * 2, a_rows = (m - 1) * p.row_step + 1;
  std::string buffers, value;
  const auto product = [&](int a, int b) {
    value += text(value.empty() ? "" : " + ", "f32(A", a, "[", p.row_step * p.rows * p.row_blocks,
                  "*panel + ", p.row_step * p.rows, "*mo + ", p.row_step, "*mi, ", 2 * p.groups,
                  "*s + 2*g + e]) * f32(B", b, "[no, s, g, ni, e])");
  };
  for (int i = 0; i < (p.products == 1 ? 1 : 2); ++i) {
    buffers += text("  input A", i, " bf16[", a_rows, ", ", k, "]\n  input B", i, " bf16[", p.column_blocks,
                    ", ", p.steps, ", ", p.groups, ", ", p.columns, ", 2]\n");
  }
  product(0, 0);
  if (p.products == 3) product(0, 1), product(1, 0);
  return parse_kernel(text("kernel \"panels\"\n", buffers, "  output C f32[", m, ", ", n, "]\n  init[m:", m,
                           ", n:", n, "]: C[m, n] = 0\n  macc[panel:", p.panels, ", mo:", p.row_blocks,
                           ", mi:", p.rows, ", no:", p.column_blocks, ", ni:", p.columns, ", s:", p.steps,
                           ", g:", p.groups, ", e:2]: C[", p.rows * p.row_blocks, "*panel + ", p.rows,
                           "*mo + mi, ", p.columns, "*no + ni] += ", value, "\n"));
}

ScheduledKernel panels(const Panels& p) {
  ScheduledKernel scheduled;
  scheduled.kernel = panels_kernel(p);
  TileStatement init, macc;
  init.statement = 0;
  init.loops = {unrolled("r", p.rows * p.row_blocks), unrolled("c", p.column_blocks), lanes("l", p.columns)};
  init.iterators = {{"m", v("panel") * (p.rows * p.row_blocks) + v("r")}, {"n", v("c") * p.columns + v("l")}};
  macc.statement = 1;
  const int64_t steps = p.steps / p.parts;
  macc.loops = {unrolled("mo", p.row_blocks), unrolled("no", p.column_blocks), matrix("mi", p.rows),
                matrix("ni", p.columns),      matrix("g", p.groups),           matrix("e", 2)};
  if (p.depth_copies) {
    macc.loops.insert(macc.loops.begin(), unrolled("s", steps));
  } else {
    macc.loops.insert(macc.loops.begin(), serial("s", steps, p.unroll));
  }
  for (const char* name : {"panel", "mo", "mi", "no", "ni", "g", "e"}) macc.iterators[name] = v(name);
  macc.iterators["s"] = p.parts == 1 ? v("s") : v("part") * steps + v("s");
  scheduled.root =
      p.parts == 1
          ? for_loop("panel", p.panels, leaf({init, macc}), true)
          : for_loop("panel", p.panels, block({leaf({init}), for_loop("part", p.parts, leaf({macc}))}), true);
  return scheduled;
}

// Multiples of 1/16: sums of some thousand products are exact. Otherwise pairs of terms of float32.
Tensors inputs_of(const ScheduledKernel& scheduled, bool exact) {
  Tensors result;
  uint32_t seed = 1;
  for (const Buffer& buffer : scheduled.kernel.buffers) {
    if (buffer.scope != Scope::Input) continue;
    std::vector<int64_t> shape;
    for (const Affine& extent : buffer.shape) shape.push_back(extent.constant());
    Tensor tensor = seeded(DType::BF16, shape, seed++);
    for (int64_t i = 0; exact && i < tensor.count(); ++i)
      tensor.set(i, std::floor(tensor.as_double(i) * 16) / 16);
    result[buffer.name] = tensor;
  }
  return result;
}

void expect_right(const Panels& p) {
  const ScheduledKernel scheduled = panels(p);
  expect_like_interpreter(scheduled, amx_target(), {}, inputs_of(scheduled, true), 0, 2);
  expect_like_interpreter(scheduled, amx_target(), {}, inputs_of(scheduled, false), 1e-6);
}

TEST(CodegenMatrix, BlocksOfAccumulators) {
  SKIP_WITHOUT_UNIT();
  for (const int products : {1, 3}) {
    for (const auto& [rows, columns] :
         std::vector<std::pair<int, int>>{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 3}, {3, 1}, {1, 4}, {2, 3}}) {
      Panels p;
      p.products = products;
      p.row_blocks = rows;
      p.column_blocks = columns;
      SCOPED_TRACE(text(products, " products, ", rows, " x ", columns));
      expect_right(p);
    }
  }
}

TEST(CodegenMatrix, FewRowsColumnsAndGroups) {
  SKIP_WITHOUT_UNIT();
  for (const int64_t rows : {1, 7, 14}) {
    Panels p;
    p.rows = rows;
    expect_right(p);
  }
  Panels narrow;
  narrow.rows = 5;
  narrow.columns = 9;
  narrow.groups = 3;
  expect_right(narrow);
}

TEST(CodegenMatrix, TripsAndCopiesOfTheDepth) {
  SKIP_WITHOUT_UNIT();
  for (const int64_t steps : {1, 2, 9}) {
    for (const int unroll : {1, 2}) {
      Panels p;
      p.steps = steps;
      p.unroll = unroll;
      expect_right(p);
    }
  }
  Panels copies;
  copies.depth_copies = true;
  copies.steps = 2;
  expect_right(copies);
}

TEST(CodegenMatrix, SumsGoOnFromMemory) {
  SKIP_WITHOUT_UNIT();
  Panels p;
  p.parts = 2;
  expect_right(p);
  p.rows = 7;
  p.row_blocks = 1;
  p.parts = 4;
  expect_right(p);
}

// Products that do not exist in every run of the leaf, nor for every trip: their sums are not touched
// there, or stay zero.
TEST(CodegenMatrix, ConditionsOnOuterLoopsAndTrips) {
  SKIP_WITHOUT_UNIT();
  for (const int64_t parts : {1, 2}) {
    Panels p;
    p.parts = parts;
    ScheduledKernel scheduled = panels(p);
    const LoopNodePtr inside = scheduled.root->children[0];
    LoopNode& with_products = parts == 1 ? *inside : *inside->children[1]->children[0];
    with_products.statements.back().constraints = {Affine(1) - v("panel"), v("s") * 3 - v("panel") - 1};
    expect_like_interpreter(scheduled, amx_target(), {}, inputs_of(scheduled, true), 0, 2);
  }
}

TEST(CodegenMatrix, RowsOfAStridedConvolution) {
  SKIP_WITHOUT_UNIT();
  Panels p;
  p.row_step = 2;
  p.rows = 14;
  expect_right(p);
}

// Row panels of two heights in one kernel: the unit is told of each shape.
TEST(CodegenMatrix, TwoShapesInOneKernel) {
  SKIP_WITHOUT_UNIT();
  Panels p;
  ScheduledKernel scheduled = panels(p);
  const LoopNodePtr whole = scheduled.root->children[0];
  const auto half = [&](int64_t first) {
    LoopNodePtr part = leaf(whole->statements);
    TileStatement& macc = part->statements[1];
    macc.loops[3].extent = 8;
    macc.iterators["mi"] = v("mi") + first;
    TileStatement& init = part->statements[0];
    init.loops = {unrolled("b", p.row_blocks), unrolled("r", 8), unrolled("c", p.column_blocks),
                  lanes("l", p.columns)};
    init.iterators["m"] = v("panel") * (p.rows * p.row_blocks) + v("b") * p.rows + v("r") + first;
    return part;
  };
  LoopNodePtr last = std::make_shared<LoopNode>();
  last->kind = LoopNode::Kind::If;
  last->condition = loop_expr(LoopExpr::Kind::Lt, {loop_variable("panel"), loop_constant(2)});
  last->children = {whole};
  LoopNodePtr others = std::make_shared<LoopNode>(*last);
  others->condition = loop_expr(LoopExpr::Kind::Ge, {loop_variable("panel"), loop_constant(2)});
  others->children = {block({half(0), half(8)})};
  scheduled.root->children = {block({last, others})};
  const std::string assembly = kernel_assembly(scheduled, amx_target(), "kernel");
  EXPECT_EQ(count_lines(assembly, "ldtilecfg"), 2) << assembly;
  expect_like_interpreter(scheduled, amx_target(), {}, inputs_of(scheduled, true), 0, 2);
}

// Leaves of two blocks of rows and of one, as at an end: the registers' shapes are the same.
TEST(CodegenMatrix, OtherBlocksShareTheShapes) {
  Panels p;
  p.rows = 14;
  ScheduledKernel scheduled = panels(p);
  const LoopNodePtr whole = scheduled.root->children[0];
  std::vector<LoopNodePtr> parts;
  for (int64_t row = 0; row < p.row_blocks; ++row) {
    LoopNodePtr part = leaf(whole->statements);
    TileStatement& macc = part->statements[1];
    macc.loops.erase(macc.loops.begin() + 1);
    macc.iterators["mo"] = Affine(row);
    TileStatement& init = part->statements[0];
    init.loops[0].extent = p.rows;
    init.iterators["m"] = init.iterators["m"] + row * p.rows;
    parts.push_back(part);
  }
  LoopNodePtr first = std::make_shared<LoopNode>();
  first->kind = LoopNode::Kind::If;
  first->condition = loop_expr(LoopExpr::Kind::Lt, {loop_variable("panel"), loop_constant(2)});
  first->children = {whole};
  LoopNodePtr last = std::make_shared<LoopNode>(*first);
  last->condition = loop_expr(LoopExpr::Kind::Ge, {loop_variable("panel"), loop_constant(2)});
  last->children = {block(parts)};
  scheduled.root->children = {block({first, last})};
  const std::string assembly = kernel_assembly(scheduled, amx_target(), "kernel");
  EXPECT_EQ(count_lines(assembly, "ldtilecfg"), 1) << assembly;
  SKIP_WITHOUT_UNIT();
  expect_like_interpreter(scheduled, amx_target(), {}, inputs_of(scheduled, true), 0, 2);
}

struct Counts {
  int products, loads, all;
};

Counts counts_of(const Panels& p, std::string* loop) {
  const std::string assembly = kernel_assembly(panels(p), amx_target(), "kernel");
  *loop = hottest_loop(assembly, "tdpbf16ps");
  EXPECT_EQ(count_lines(assembly, "ldtilecfg"), 1) << assembly;
  EXPECT_EQ(count_lines(assembly, "tilerelease"), 1) << assembly;
  EXPECT_EQ(count_lines(assembly, "tilestored"), p.row_blocks * p.column_blocks) << assembly;
  EXPECT_EQ(count_lines(assembly, "tilezero"), p.row_blocks * p.column_blocks) << assembly;
  EXPECT_EQ(count_lines(assembly, "%zmm"), 0) << assembly;
  EXPECT_EQ(count_lines(*loop, "tilestored"), 0) << *loop;
  EXPECT_EQ(count_lines(*loop, "(%rsp)"), 0) << *loop;
  return {count_lines(*loop, "tdpbf16ps"), count_lines(*loop, "tileload"), count_lines(*loop, "\t")};
}

TEST(CodegenMatrix, LoopsHoldProductsAndOneLoadPerOperand) {
  Panels p;
  std::string loop;
  const Counts three = counts_of(p, &loop);
  EXPECT_EQ(three.products, 12) << loop;
  EXPECT_EQ(three.loads, 8) << loop;
  EXPECT_LE(three.all, 12 + 8 + 20) << loop;
  p.products = 1;
  const Counts one = counts_of(p, &loop);
  EXPECT_EQ(one.products, 4) << loop;
  EXPECT_EQ(one.loads, 4) << loop;
  p.products = 3;
  p.unroll = 2;
  EXPECT_EQ(counts_of(p, &loop).loads, 16) << loop;
  p.unroll = 1;
  p.row_blocks = 1;
  EXPECT_EQ(counts_of(p, &loop).loads, 6) << loop;
  p.column_blocks = 3;
  EXPECT_EQ(counts_of(p, &loop).loads, 8) << loop;
}

// The sums in scratch memory, and what is done with them in the same leaf.
ScheduledKernel with_tail() {
  ScheduledKernel scheduled;
  scheduled.kernel = parse_kernel(R"(kernel "tail"
  input A bf16[4, 16, 64]
  constant B bf16[2, 2, 16, 16, 2]
  input bias f32[32]
  output O f32[4, 16, 32]
  local T f32[16, 32]
  init[p:4, m:16, n:32]: T[m, n] = 0
  macc[p:4, m:16, no:2, ni:16, s:2, g:16, e:2]: T[m, 16*no + ni] += f32(A[p, m, 32*s + 2*g + e]) * f32(B[no, s, g, ni, e])
  tail[p:4, m:16, n:32]: O[p, m, n] = max(T[m, n] + bias[n], 0)
)");
  scheduled.kernel.buffers[4].scope = Scope::Stack;
  TileStatement init, macc, tail;
  init.statement = 0;
  init.loops = {serial("r", 16), unrolled("c", 2), lanes("l", 16)};
  init.iterators = {{"p", v("p")}, {"m", v("r")}, {"n", v("c") * 16 + v("l")}};
  macc.statement = 1;
  macc.loops = {serial("s", 2),   unrolled("no", 2), matrix("m", 16),
                matrix("ni", 16), matrix("g", 16),   matrix("e", 2)};
  for (const char* name : {"p", "m", "no", "ni", "s", "g", "e"}) macc.iterators[name] = v(name);
  tail = init;
  tail.statement = 2;
  scheduled.root = for_loop("p", 4, leaf({init, macc, tail}));
  return scheduled;
}

TEST(CodegenMatrix, TailReadsTheSums) {
  SKIP_WITHOUT_UNIT();
  const ScheduledKernel scheduled = with_tail();
  expect_like_interpreter(scheduled, amx_target(), {},
                          {{"A", seeded(DType::BF16, {4, 16, 64}, 1)},
                           {"B", seeded(DType::BF16, {2, 2, 16, 16, 2}, 2)},
                           {"bias", seeded(DType::F32, {32}, 3)}},
                          1e-6);
}

TEST(CodegenMatrix, NextTilesOfConstantsComeNear) {
  ScheduledKernel scheduled = with_tail();
  // As if another trip followed whose B lies behind this one, shared by two runs.
  scheduled.root->children[0]->prefetches = {{1, 1, 2 * 2 * 512, 2, Affine(0)}};
  const std::string loop = hottest_loop(kernel_assembly(scheduled, amx_target(), "kernel"), "tdpbf16ps");
  EXPECT_EQ(count_lines(loop, "tileload"), 3) << loop;
  // Half of the lines of two tiles of 16.
  EXPECT_EQ(count_lines(loop, "prefetcht1"), 16) << loop;
}

// What an artefact asks of a machine: the unit where a kernel uses it.
TEST(CodegenMatrix, ArtefactsNameTheUnit) {
  Plan plan;
  plan.model = "panels";
  plan.target = amx_target().name;
  Panels p;
  p.products = 1;
  plan.kernels = {panels(p)};
  const auto features_of = [&] {
    const std::string path = text(::testing::TempDir(), "/tiles.so");
    link_shared(model_objects(plan, amx_target(), TC_DESCRIPTOR_SYMBOL, 1), amx_target(), path);
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    TC_CHECK(library != nullptr, dlerror());
    const std::string features =
        text(" ", static_cast<const tc_descriptor*>(dlsym(library, TC_DESCRIPTOR_SYMBOL))->features, " ");
    dlclose(library);
    return features;
  };
  const std::string with = features_of();
  EXPECT_NE(with.find(" amx-bf16 "), std::string::npos) << with;
  EXPECT_NE(with.find(" amx-tile "), std::string::npos) << with;
  EXPECT_EQ(with.find("amx-int8"), std::string::npos) << with;
  plan.kernels.clear();
  EXPECT_EQ(features_of().find("amx"), std::string::npos);
  EXPECT_NE(target_features(amx_target()).find("amx-tile"), std::string::npos);
  EXPECT_EQ(target_features(parse_target("sapphirerapids,-amx-bf16,-amx-int8")).find("amx"),
            std::string::npos);
}

// float32 as two terms: A is split in the kernel, B before.
ScheduledKernel split_product() {
  ScheduledKernel scheduled;
  scheduled.kernel = parse_kernel(R"(kernel "split"
  input A f32[48, 128]
  input B0 bf16[2, 4, 16, 16, 2]
  input B1 bf16[2, 4, 16, 16, 2]
  output C f32[48, 32]
  local H bf16[16, 128]
  local L bf16[16, 128]
  hi[p:3, m:16, k:128]: H[m, k] = bf16(A[16*p + m, k])
  lo[p:3, m:16, k:128]: L[m, k] = bf16(A[16*p + m, k] - f32(bf16(A[16*p + m, k])))
  init[p:3, m:16, n:32]: C[16*p + m, n] = 0
  macc[p:3, m:16, no:2, n:16, s:4, g:16, e:2]: C[16*p + m, 16*no + n] += f32(H[m, 32*s + 2*g + e]) * f32(B0[no, s, g, n, e]) + f32(H[m, 32*s + 2*g + e]) * f32(B1[no, s, g, n, e]) + f32(L[m, 32*s + 2*g + e]) * f32(B0[no, s, g, n, e])
)");
  for (Buffer& buffer : scheduled.kernel.buffers) {
    if (buffer.scope == Scope::Local) buffer.scope = Scope::Stack;
  }
  std::vector<TileStatement> split(2);
  for (int i = 0; i < 2; ++i) {
    TileStatement& tile = split[static_cast<size_t>(i)];
    tile.statement = i;
    tile.loops = {lanes("l", 32)};
    tile.iterators = {{"p", v("p")}, {"m", v("m")}, {"k", v("c") * 32 + v("l")}};
  }
  TileStatement init, macc;
  init.statement = 2;
  init.loops = {unrolled("m", 16), unrolled("c", 2), lanes("l", 16)};
  init.iterators = {{"p", v("p")}, {"m", v("m")}, {"n", v("c") * 16 + v("l")}};
  macc.statement = 3;
  macc.loops = {serial("s", 4),  unrolled("no", 2), matrix("m", 16),
                matrix("n", 16), matrix("g", 16),   matrix("e", 2)};
  for (const char* name : {"p", "m", "no", "n", "s", "g", "e"}) macc.iterators[name] = v(name);
  scheduled.root = for_loop(
      "p", 3, block({for_loop("m", 16, for_loop("c", 4, leaf(std::move(split)))), leaf({init, macc})}), true);
  return scheduled;
}

TEST(CodegenMatrix, SplittingTakesFewInstructions) {
  const std::string assembly = kernel_assembly(split_product(), amx_target(), "kernel");
  const std::string loop = hottest_loop(assembly, "vcvtne2ps2bf16");
  EXPECT_EQ(count_lines(loop, "vcvtne2ps2bf16"), 2) << loop;
  // Of 32 values, too: two loads, an upper half, two words from halves, shifts and differences, two stores.
  EXPECT_LE(count_lines(loop, "mm"), 13) << loop;
  EXPECT_EQ(count_lines(loop, "(%rsp)"), 0) << loop;
}

TEST(CodegenMatrix, TwoTermsKeepFloat32) {
  SKIP_WITHOUT_UNIT();
  const ScheduledKernel scheduled = split_product();
  Tensors inputs{{"A", seeded(DType::F32, {48, 128}, 1)}};
  const Tensor b = seeded(DType::F32, {2, 4, 16, 16, 2}, 2);
  Tensor high(DType::BF16, b.shape), low(DType::BF16, b.shape);
  for (int64_t i = 0; i < b.count(); ++i) {
    high.set(i, b.as_double(i));
    low.set(i, b.as_double(i) - high.as_double(i));
  }
  inputs["B0"] = high;
  inputs["B1"] = low;
  expect_like_interpreter(scheduled, amx_target(), {}, inputs, 1e-6, 2);
  Tensors computed = inputs;
  computed["C"] = Tensor(DType::F32, {48, 32});
  run_compiled(scheduled, amx_target(), {}, computed);
  double largest = 0, worst = 0;
  for (int64_t m = 0; m < 48; ++m) {
    for (int64_t n = 0; n < 32; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < 128; ++k) {
        sum += inputs["A"].as_double(m * 128 + k) *
               b.as_double(((n / 16 * 64 + k / 2) * 16 + n % 16) * 2 + k % 2);
      }
      largest = std::max(largest, std::fabs(sum));
      worst = std::max(worst, std::fabs(sum - computed["C"].as_double(m * 32 + n)));
    }
  }
  EXPECT_LE(worst, 8e-6 * largest);
  EXPECT_GE(worst, 1e-7 * largest);  // it is not float32 itself
  // Numbers that are none, and those below the normal ones.
  inputs["A"].set(5, std::nan(""));
  inputs["A"].set(200, 1e-40);
  inputs["A"].set(300, INFINITY);
  expect_like_interpreter(scheduled, amx_target(), {}, inputs, 1e-6);
}

TEST(CodegenMatrix, OrderOfProductsLoadsEachOperandOnce) {
  // Two rows and two columns of accumulators, terms 0 and 1 of each side: 0*0, 0*1 and 1*0.
  std::vector<std::vector<MatrixProduct>> groups(3);
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column) {
      groups[0].push_back({2 * row + column, row, column});
      groups[1].push_back({2 * row + column, row, 2 + column});
      groups[2].push_back({2 * row + column, 2 + row, column});
    }
  }
  const MatrixOrder order = order_products(groups, 4);
  EXPECT_EQ(order.products.size(), 12u);
  EXPECT_EQ(order.loads, 8);
  // Products that follow each other have different accumulators.
  for (size_t i = 1; i < order.products.size(); ++i) {
    EXPECT_NE(order.products[i].accumulator, order.products[i - 1].accumulator);
  }
  // One register per side: what changes is loaded again.
  EXPECT_EQ(order_products({groups[0]}, 2).loads, 5);
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
    return error.what();
  }
  return "no error";
}

TEST(CodegenMatrix, WhatTheUnitCannotDoIsABug) {
  const auto refused = [&](const ScheduledKernel& scheduled, const Target& target, const std::string& part) {
    const std::string error = error_of([&] { kernel_assembly(scheduled, target, "kernel"); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  Panels p;
  refused(panels(p), parse_target("x86-64-v4"),
          "which has no matrix unit, for statement 'macc' of kernel 'panels'");
  Panels many = p;
  many.row_blocks = 4;
  refused(panels(many), amx_target(), "for 8 accumulators of statement 'macc'");
  Panels tall = p;
  tall.rows = 17;
  refused(panels(tall), amx_target(), "for loop 'mi' of statement 'macc'");
  ScheduledKernel turned = panels(p);
  std::swap(turned.root->children[0]->statements[1].loops[3],
            turned.root->children[0]->statements[1].loops[4]);
  refused(
      turned, amx_target(),
      "the elements of a product of statement 'macc' of kernel 'panels' are not in the order of the matrix unit");
  ScheduledKernel inside = panels(p);
  std::swap(inside.root->children[0]->statements[1].loops[0],
            inside.root->children[0]->statements[1].loops[1]);
  refused(inside, amx_target(), "for loop 's' of statement 'macc'");
}

TEST(CodegenMatrix, TextNamesTheLoops) {
  const std::string loops = str(panels(Panels()));
  EXPECT_NE(
      loops.find(
          "for serial s:4, unroll mo:2, unroll no:2, matrix mi:16, matrix ni:16, matrix g:16, matrix e:2"),
      std::string::npos)
      << loops;
}

}  // namespace
}  // namespace tc::testing
