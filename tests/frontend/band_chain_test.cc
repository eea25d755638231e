// Kernels that compute some rows of their result, and chains of such kernels.
#include <gtest/gtest.h>

#include <set>

#include "frontend/pipeline/band_chain.h"
#include "frontend/pipeline/bands.h"
#include "frontend/pipeline/kernel_names.h"
#include "frontend/pipeline/memory_saving.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/group.h"
#include "ir/passes/pass.h"

namespace tc {
namespace {

Graph graph_of(const std::string& lines) {
  Graph graph = parse_graph("graph g {\n" + lines + "}\n");
  infer_shapes(graph);
  return graph;
}

// The kernels of the graph's groups, and the results of these.
struct Lowered {
  std::vector<KernelPart> kernels;
  std::vector<ValueId> results;

  explicit Lowered(const Graph& graph) {
    for (const Group& group : fuse_groups(graph)) {
      KernelPart part;
      part.kernel = lower_group(graph, group.nodes, group.outputs, &part.arguments);
      inline_locals(part.kernel);
      part.kernel.name = label_of(graph, group);
      rename_buffers(part.kernel);
      kernels.push_back(std::move(part));
      results.push_back(group.outputs[0]);
    }
  }
};

constexpr const char* kConvolution =
    "  input x f32[1, 2, 12, 8]\n  input w f32[4, 2, 3, 3]\n"
    "  y f32[?] = Conv(x, w) {pads = [1, 1, 1, 1], strides = [2, 1]}\n  output y\n";

constexpr const char* kPadded =
    "  input x f32[1, 2, 12, 8]\n  input w f32[4, 2, 3, 3]\n  y f32[?] = Conv(x, w) {pads = [1, 1, 1, 1]}\n"
    "  output y\n";

std::string rows_text(const std::optional<RowsOfBuffers>& rows, const std::string& buffer) {
  if (!rows) return "none";
  const auto found = rows->find(buffer);
  if (found == rows->end()) return "whole";
  return text(found->second.axis, ": ", found->second.begin, " to ", found->second.end);
}

TEST(BandKernel, ReadsTheRowsOfItsWindows) {
  const Kernel kernel = Lowered(graph_of(kConvolution)).kernels.at(0).kernel;
  const auto rows = rows_for(kernel, {2, 2, 4});
  EXPECT_EQ(rows_text(rows, "out0"), "2: 2 to 4");
  EXPECT_EQ(rows_text(rows, "in0"), "2: 3 to 8");
  EXPECT_EQ(rows_text(rows, "in1"), "whole");
  EXPECT_EQ(rows_text(rows_for(kernel, {2, 0, 2}), "in0"), "2: 0 to 4");  // a row of padding
  EXPECT_EQ(rows_text(rows_for(kernel, {2, 4, 6}), "in0"), "2: 7 to 12");
  EXPECT_FALSE(rows_for(kernel, {2, 4, 6})->at("in0").beyond);
  const Kernel even = Lowered(graph_of(kPadded)).kernels.at(0).kernel;
  EXPECT_FALSE(rows_for(even, {2, 4, 8})->at("in0").beyond);
  EXPECT_TRUE(rows_for(even, {2, 8, 12})->at("in0").beyond);
}

TEST(BandKernel, BandsWithoutPaddingAreEqual) {
  const Kernel kernel = Lowered(graph_of(kConvolution)).kernels.at(0).kernel;
  const auto key = [&](int64_t begin) {
    const Kernel band = band_kernel(kernel, *rows_for(kernel, {2, begin, begin + 2}),
                                    {{"in0", {9, rows_for(kernel, {2, begin, begin + 2})->at("in0").begin}}});
    verify(band);
    EXPECT_EQ(band.buffers.at(static_cast<size_t>(band.buffer_index("in0"))).shape.at(2), Affine(9));
    return workload_key(band);
  };
  EXPECT_EQ(key(1), key(2));
  EXPECT_EQ(key(1), key(4));  // the last row of padding is not read with these strides
  EXPECT_NE(key(0), key(1));
}

TEST(BandKernel, ThereIsNoneWhereRowsDependOnEachOther) {
  const Kernel sums = Lowered(graph_of("  input x f32[1, 2, 12, 8]\n"
                                       "  y f32[?] = Softmax(x) {axis = 2}\n  output y\n"))
                          .kernels.at(0)
                          .kernel;
  EXPECT_FALSE(rows_for(sums, {2, 0, 4}));
  EXPECT_TRUE(rows_for(sums, {1, 0, 1}));
  const Kernel turned = Lowered(graph_of("  input x f32[12, 12]\n  y f32[?] = Transpose(x) {perm = [1, 0]}\n"
                                         "  output y\n"))
                            .kernels.at(0)
                            .kernel;
  EXPECT_EQ(rows_text(rows_for(turned, {0, 3, 6}), "in0"), "1: 3 to 6");
}

constexpr const char* kChain =
    "  input x f32[1, 2, 16, 8]\n  input w f32[4, 2, 1, 1]\n  input v f32[4, 1, 3, 3]\n  input u f32[2, 4, 1, 1]\n"
    "  a f32[?] = Conv(x, w)\n  b f32[?] = Conv(a, v) {pads = [1, 1, 1, 1], group = 4}\n"
    "  c f32[?] = Conv(b, u)\n  d f32[?] = Add(c, x)\n  output d\n";

TEST(BandChain, KeepsRowsThatTheNextBandReads) {
  const Graph graph = graph_of(kChain);
  const Lowered lowered(graph);
  ASSERT_EQ(lowered.kernels.size(), 3u);
  const auto chain = BandChain::of(graph, lowered.kernels, lowered.results, 2, 4);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->buffers().at(lowered.results[0]).rows, 6);  // four rows and one beyond each end
  EXPECT_EQ(chain->buffers().at(lowered.results[1]).rows, 4);
  const std::vector<BandCall> steps = chain->steps(lowered.kernels);
  EXPECT_EQ(steps.size(), 3u * 4 + 3);
  EXPECT_EQ(chain->calls(), steps.size());
  // No row is computed twice.
  int64_t rows = 0, moved = 0, beyond = 0;
  std::set<std::string> keys;
  for (const BandCall& step : steps) {
    verify(step.part.kernel);
    const Statement& last = step.part.kernel.statements.back();
    int64_t count = 0;
    for (const Iterator& each : last.iterators) {
      if (step.part.kernel.statements.back().write.index[2].affine.coefficient(each.name) == 1)
        count = each.extent.constant();
    }
    if (last.name == "move") moved += count;
    else if (step.part.arguments.back() == lowered.results[0]) rows += count;
    keys.insert(workload_key(step.part.kernel));
    // Where windows reach beyond the last row, code may load what is behind it: the kernel's buffer has to
    // end where the memory does.
    const Statement* sums = step.part.kernel.find("macc");
    if (sums && sums->constraints.size() > 2) {
      EXPECT_EQ(step.first_rows.at("in0").row, 0);
      ++beyond;
    }
  }
  EXPECT_EQ(rows, 16);
  EXPECT_GE(beyond, 2);
  EXPECT_EQ(moved, 3 * 2);
  // The first band, those between and the last one of two kernels; of the third one the last band, which ends
  // where the memory does, and the others; and moves.
  EXPECT_LE(keys.size(), 3u + 3 + 2 + 2);
}

TEST(BandChain, ThereIsNoneWhereAKernelReadsAllRows) {
  const Graph graph = graph_of(
      "  input x f32[1, 2, 16, 8]\n  input w f32[2, 2, 1, 1]\n  a f32[?] = Conv(x, w)\n"
      "  b f32[?] = GlobalAveragePool(a)\n  c f32[?] = Conv(b, w)\n  output c\n");
  const Lowered lowered(graph);
  EXPECT_FALSE(BandChain::of(graph, lowered.kernels, lowered.results, 1, 2));
}

BuiltPlan built(const Graph& graph, int64_t limit) {
  BuildOptions options;
  options.target = parse_target("x86-64-v3");
  if (limit > 0) options.memory_limit = options.segment_limit = limit;
  return build_plan(graph, options);
}

TEST(Bands, AreTakenWhereMemoryIsShort) {
  const Graph graph = graph_of(kChain);
  const BuiltPlan usual = built(graph, 0);
  const int64_t all = memory_need(usual.plan, 1)->total();
  EXPECT_EQ(str(built(graph, all).plan), str(usual.plan));
  const BuiltPlan banded = built(graph, all / 2);
  EXPECT_LE(memory_need(banded.plan, 1)->total(), all / 2);
  ASSERT_EQ(banded.notes.size(), 1u);
  EXPECT_NE(banded.notes[0].find("runs kernels in bands of rows"), std::string::npos) << banded.notes[0];
  EXPECT_EQ(banded.reports.size(), banded.plan.steps.size());
}

TEST(Bands, ATensorMayBeLargerThanTheMemory) {
  const Graph graph = graph_of(
      "  input x f32[1, 1, 64, 8]\n  input w f32[32, 1, 1, 1]\n  input v f32[1, 32, 1, 1]\n"
      "  a f32[?] = Conv(x, w)\n  b f32[?] = Conv(a, v)\n  output b\n");
  const BuiltPlan banded = built(graph, 20000);
  EXPECT_LE(memory_need(banded.plan, 1)->total(), 20000);  // a takes 65536 bytes
  try {
    built(graph, 400);
    FAIL() << "a row of a takes 1024 bytes";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("most is in use in step 'Conv': 'rows of a' (1024 bytes)"), std::string::npos)
        << message;
    EXPECT_NE(message.find(", or give it at least "), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace tc
