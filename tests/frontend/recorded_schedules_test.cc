// A log is a stranger's: whatever its records lead to, the build goes on with the default, says why, and
// takes no longer than it may.
#include <gtest/gtest.h>

#include "frontend/pipeline/compile.h"
#include "ir/error.h"
#include "ir/graph.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"

namespace tc {
namespace {

using Traces = std::vector<std::vector<std::string>>;

Graph graph_of(const std::string& lines) {
  Graph graph = parse_graph("graph g {\n" + lines + "}\n");
  infer_shapes(graph);
  run_passes(graph, {});
  return graph;
}

CompiledModel compiled(const std::string& lines, const Traces& traces) {
  CompileOptions options;
  options.target = "x86-64-v4";
  options.threads = options.build_threads = 1;
  options.traces = [&](const std::string&) { return traces; };
  return compile_graph(graph_of(lines), options);
}

// What the model's explanation says of records that it did not use.
std::vector<std::string> notes_of(const std::string& lines, const Traces& traces) {
  const CompiledModel model = compiled(lines, traces);
  EXPECT_EQ(model.tuned_kernels, 0);
  return model.notes;
}

const std::string kGemm =
    "  input x f32[24, 40]\n  constant w f32[40, 48] #0\n  constant b f32[48] #0\n"
    "  y f32[?] = Gemm(x, w, b) {alpha = 0.5}\n  output y\n";

std::string refused(const std::string& kernel, const std::string& why) {
  return "a recorded schedule of kernel '" + kernel + "' is not used: " + why;
}

TEST(RecordedSchedules, ThatUnrollAndVectorizeOneLoopAreNotUsed) {
  for (const char* loop : {"tail_i0", "tail_i1", "macc_m", "macc_n"}) {
    for (const Traces& traces : {Traces{{"unroll " + std::string(loop), "vectorize " + std::string(loop)}},
                                 Traces{{"vectorize " + std::string(loop), "unroll " + std::string(loop)}},
                                 Traces{{"unroll " + std::string(loop), "parallel " + std::string(loop)}}}) {
      for (const std::string& note : compiled(kGemm, traces).notes) {
        EXPECT_EQ(note.find("internal error"), std::string::npos) << note;
      }
    }
  }
}

TEST(RecordedSchedules, ThatThrowAnythingAreNotUsed) {
  // A record whose text is not the trace language at all, and one that is far too long.
  const Traces traces = {
      {"\xff\xfe"}, {std::string(100000, 'x')}, {""}, std::vector<std::string>(5000, "unroll macc_k 2")};
  const std::vector<std::string> notes = notes_of(kGemm, traces);
  EXPECT_EQ(notes.size(), traces.size());
}

// Copies of copies: each line is legal, all together are more code than a compiler can take.
TEST(RecordedSchedules, WithMoreCodeThanAllowedAreNotUsed) {
  const std::string lines = "  input x f32[200, 200, 8]\n  y f32[?] = Exp(x)\n  output y\n";
  const std::vector<std::string> notes = notes_of(lines, {{"unroll e_i0", "unroll e_i1", "unroll e_i2"}});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0], refused("Exp", "its code would have about 6720000 operations; 40000 are allowed"));
}

// A chain of splits of one loop by 2: each is another dimension of every question after it.
std::vector<std::string> chain(int splits) {
  std::vector<std::string> trace;
  std::string loop = "macc_k";
  for (int i = 0; i < splits; ++i) {
    trace.push_back(text("split ", loop, " 2 as o", i, " n", i));
    loop = text("o", i);
  }
  return trace;
}

TEST(RecordedSchedules, WithTooManyLinesOrSplitsAreNotReplayed) {
  EXPECT_EQ(notes_of(kGemm, {chain(33), std::vector<std::string>(513, "unroll macc_k 2")}),
            (std::vector<std::string>{refused("Gemm", "it splits loops 33 times; 32 are allowed"),
                                      refused("Gemm", "it has 513 lines; 512 are allowed")}));
}

// Each would take its time if it were legal: after a dozen of the longest no more are tried.
TEST(RecordedSchedules, ShareABudgetOfTheBuild) {
  std::vector<std::string> trace = chain(32);
  trace.push_back("unroll nothing");
  const std::vector<std::string> notes = notes_of(kGemm, Traces(20, trace));
  ASSERT_EQ(notes.size(), 14u);
  EXPECT_EQ(notes[13],
            "no more recorded schedules are tried: 13 were refused, and replaying them takes long");
}

TEST(RecordedSchedules, AreNotTriedAnyMoreWhenManyWereRefused) {
  std::string lines = "  input x f32[64]\n";
  std::string last = "x";
  // Kernels of different sizes, so that each is a workload of its own.
  for (int i = 0; i < 12; ++i) {
    const std::string name = "v" + std::to_string(i), size = std::to_string(65 + i);
    lines += "  " + name + " f32[?] = Pad(" + last + ") {pads = [0, 1], mode = \"reflect\"}\n";
    last = name;
  }
  const std::vector<std::string> notes =
      notes_of(lines + "  output " + last + "\n", Traces(8, {"unroll nothing"}));
  ASSERT_EQ(notes.size(), 65u);
  EXPECT_EQ(notes[64],
            "no more recorded schedules are tried: 64 were refused, and replaying them takes long");
}

}  // namespace
}  // namespace tc
