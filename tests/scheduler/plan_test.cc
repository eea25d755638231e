// Plans of reductions as plain data: their text for small kernels, and what each knob changes of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "scheduler/default/reduction.h"
#include "tests/golden_file.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

const NamedKernel& named_kernel(const std::string& name) {
  const auto& all = small_kernels();
  return *std::find_if(all.begin(), all.end(), [&](const NamedKernel& each) { return each.name == name; });
}

PreparedReduction prepared(const std::string& name, const char* target, int threads = 1) {
  const NamedKernel& named = named_kernel(name);
  Schedule start(parse_kernel(named.text), parse_target(target));
  EXPECT_EQ(start.replay(named.layout_lines), std::nullopt);
  return PreparedReduction(TraceBuilder(ScheduleAccess::state(start), threads));
}

TEST(Plans, AreAsBelow) {
  std::string all;
  for (const char* target : {"x86-64-v4", "rv64gcv"}) {
    for (const char* name : {"conv", "conv_group", "conv_groups", "pointwise", "depthwise", "gemm",
                             "gemm_transposed", "gemm_open", "gemv", "pool", "row_sum", "column_max"}) {
      const PreparedReduction reduction = prepared(name, target);
      all += text("== ", name, ", ", target, "\n", str(reduction.plan(reduction.cheapest(), {})));
    }
  }
  expect_golden("tests/golden/reduction_plans.txt", all);
}

TEST(Plans, AreTheSameForTheSameKernel) {
  const PreparedReduction one = prepared("conv", "x86-64-v4"), other = prepared("conv", "x86-64-v4");
  const PlannedReduction a = one.plan(one.cheapest(), {}), b = other.plan(other.cheapest(), {});
  EXPECT_EQ(a.iterators, b.iterators);
  EXPECT_EQ(a.loops, b.loops);
  EXPECT_EQ(a.result.state().trace, b.result.state().trace);
}

// A choice asked twice gives the same plan: planning leaves nothing behind.
TEST(Plans, DoNotDependOnEarlierOnes) {
  const PreparedReduction reduction = prepared("conv", "x86-64-v4");
  const LoopPlan first = reduction.plan(reduction.cheapest(), {}).loops;
  for (const ReductionChoice& choice : reduction.choices()) {
    try {
      reduction.plan(choice, {});
    } catch (const NotApplicable&) {
      // This choice's lines are refused.
    }
  }
  EXPECT_EQ(reduction.plan(reduction.cheapest(), {}).loops, first);
}

// Constants that the second cache does not hold are read once, for all rows of a map that fits into a tile.
TEST(Plans, OfMapsAsSmallAsATileTakeTheirRows) {
  const auto rows = [](int64_t channels, int64_t size, const char* target, int64_t knob) {
    Schedule start(rectified_convolution(channels, channels, size, 3, 1), parse_target(target));
    const PreparedReduction reduction(TraceBuilder(ScheduleAccess::state(start), 1));
    ReductionKnobs knobs;
    knobs.rows = knob;
    int64_t result = 1;
    for (const Division& each : reduction.plan(reduction.cheapest(), knobs).loops.splits) {
      if (each.outer == "macc_y_o") result = each.size;
    }
    return result;
  };
  EXPECT_EQ(rows(512, 2, "x86-64-v4", 0), 2);
  EXPECT_EQ(rows(512, 14, "x86-64-v4", 0), 1);
  EXPECT_EQ(rows(128, 2, "x86-64-v4", 0), 1);
  EXPECT_EQ(rows(512, 2, "rv64gcv", 0), 1);
  EXPECT_EQ(rows(512, 2, "x86-64-v4", 1), 1);
}

TEST(Plans, KnobsChangeTheirOwnFields) {
  const PreparedReduction reduction = prepared("conv", "x86-64-v4");
  const LoopPlan plain = reduction.plan(reduction.cheapest(), {}).loops;
  ReductionKnobs knobs;
  knobs.isolate = 1;
  LoopPlan changed = reduction.plan(reduction.cheapest(), knobs).loops;
  EXPECT_TRUE(changed.isolated.empty());
  EXPECT_FALSE(plain.isolated.empty());
  changed.isolated = plain.isolated;
  EXPECT_EQ(changed, plain);

  knobs = {};
  knobs.separate_epilogue = plain.epilogue == Epilogue::InTile ? 2 : 1;
  changed = reduction.plan(reduction.cheapest(), knobs).loops;
  EXPECT_NE(changed.epilogue, plain.epilogue);
  EXPECT_EQ(changed.order, plain.order);
  EXPECT_EQ(changed.unrolled, plain.unrolled);

  knobs = {};
  knobs.sum_block = 4;
  const PreparedReduction product = prepared("gemm", "x86-64-v4");
  const PlannedReduction divided = product.plan(product.cheapest(), knobs);
  ASSERT_EQ(divided.iterators->strips.size(),
            product.plan(product.cheapest(), {}).iterators->strips.size() + 1);
  EXPECT_EQ(divided.iterators->strips.back().size, 4);
}

TEST(Plans, RefuseKnobsThatTheKernelHasNoLoopsFor) {
  const PreparedReduction reduction = prepared("gemv", "x86-64-v4");
  ReductionKnobs knobs;
  knobs.sum_block = 1 << 20;
  try {
    reduction.plan(reduction.cheapest(), knobs);
    FAIL() << "accepted";
  } catch (const NotApplicable& refusal) {
    EXPECT_EQ(refusal.why, "no sum as long as two blocks");
  }
}

}  // namespace
}  // namespace tc::testing
