// Whole graphs as native code against float64: layouts, reorders, aliases, the memory plan, loops and
// branches of the plan, with one thread and two. The graphs are those of tests/golden/schedules and the
// networks below, whose many values share one arena.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>

#include "frontend/pipeline/plan_builder.h"
#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"
#include "tests/onnx_node_run.h"

namespace tc {
namespace {

namespace fs = std::filesystem;

struct NamedGraph {
  std::string name, text;
};

const NamedGraph kNetworks[] = {
    {"residual_blocks", R"(graph residual_blocks {
  input x f32[1, 3, 19, 17]
  constant w0 f32[24, 3, 3, 3] #0
  constant b0 f32[24] #0
  constant w1 f32[24, 24, 3, 3] #0
  constant w2 f32[24, 24, 1, 1] #0
  constant w3 f32[40, 24, 3, 3] #0
  constant w4 f32[40, 24, 1, 1] #0
  constant w5 f32[33, 40] #0
  c0 f32[?] = Conv(x, w0, b0) {pads = [1, 1, 1, 1], strides = [2, 2]}
  r0 f32[?] = Relu(c0)
  c1 f32[?] = Conv(r0, w1) {pads = [1, 1, 1, 1]}
  r1 f32[?] = Relu(c1)
  c2 f32[?] = Conv(r1, w2)
  s2 f32[?] = Add(c2, r0)
  r2 f32[?] = Relu(s2)
  c3 f32[?] = Conv(r2, w3) {pads = [1, 1, 1, 1], strides = [2, 2]}
  c4 f32[?] = Conv(r2, w4) {strides = [2, 2]}
  s4 f32[?] = Add(c3, c4)
  r4 f32[?] = Relu(s4)
  g f32[?] = GlobalAveragePool(r4)
  f f32[?] = Flatten(g) {axis = 1}
  y f32[?] = Gemm(f, w5) {transB = 1}
  output y r1
}
)"},
    {"branches_and_concat", R"(graph branches_and_concat {
  input x f32[1, 32, 12, 12]
  constant w1 f32[16, 32, 1, 1] #0
  constant w2 f32[32, 32, 3, 3] #0
  constant w3 f32[16, 32, 5, 5] #0
  constant b3 f32[16] #0
  constant w4 f32[48, 64, 1, 1] #0
  constant half f32[] = [0.5]
  a f32[?] = Conv(x, w1)
  ar f32[?] = Relu(a)
  b f32[?] = Conv(x, w2) {pads = [1, 1, 1, 1]}
  br f32[?] = Sigmoid(b)
  c f32[?] = Conv(x, w3, b3) {pads = [4, 4, 4, 4], dilations = [2, 2]}
  all f32[?] = Concat(ar, br, c) {axis = 1}
  p f32[?] = MaxPool(all) {kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]}
  d f32[?] = Conv(p, w4)
  u f32[?], v f32[?], w f32[?] = Split(d) {axis = 1, split = [16, 16, 16]}
  uv f32[?] = Mul(u, v)
  vw f32[?] = Add(v, w)
  z f32[?] = Sub(uv, vw)
  y f32[?] = Transpose(z) {perm = [0, 2, 3, 1]}
  output y all
}
)"},
    {"parts_of_blocks", R"(graph parts_of_blocks {
  input x f32[1, 32, 9, 9]
  constant w1 f32[24, 32, 1, 1] #0
  constant w2 f32[40, 32, 3, 3] #0
  constant w3 f32[20, 64, 1, 1] #0
  constant w4 f32[70, 20, 3, 3] #0
  a f32[?] = Conv(x, w1)
  ar f32[?] = Relu(a)
  b f32[?] = Conv(x, w2) {pads = [1, 1, 1, 1]}
  br f32[?] = Relu(b)
  all f32[?] = Concat(ar, br) {axis = 1}
  c f32[?] = Conv(all, w3)
  both f32[?] = Concat(c, ar) {axis = 1}
  u f32[?], v f32[?] = Split(both) {axis = 1, split = [20, 24]}
  d f32[?] = Conv(u, w4) {pads = [1, 1, 1, 1]}
  e f32[?] = AveragePool(d) {kernel_shape = [2, 2], strides = [2, 2]}
  f f32[?] = Add(v, ar)
  output e f
}
)"},
    {"windows_of_channels", R"(graph windows_of_channels {
  input x f32[1, 3, 11, 11]
  constant w1 f32[64, 3, 3, 3] #0
  constant w2 f32[40, 64, 1, 1] #0
  constant w3 f32[32, 40, 3, 3] #0
  a f32[?] = Conv(x, w1) {pads = [1, 1, 1, 1]}
  ar f32[?] = Relu(a)
  n f32[?] = LRN(ar) {size = 5, alpha = 0.5}
  p f32[?] = MaxPool(n) {kernel_shape = [3, 3], strides = [2, 2]}
  b f32[?] = Conv(p, w2)
  m f32[?] = LRN(b) {size = 3, alpha = 0.5}
  c f32[?] = Conv(m, w3) {pads = [1, 1, 1, 1]}
  l f32[?] = LRN(c) {size = 4, alpha = 0.5, beta = 0.5}
  output l
}
)"},
    {"transposed", R"(graph transposed {
  input x f32[1, 20, 7, 9]
  constant w1 f32[48, 20, 3, 3] #0
  constant w2 f32[48, 32, 2, 2] #0
  constant b2 f32[32] #0
  constant w3 f32[48, 24, 3, 3] #0
  constant w4 f32[16, 20, 1, 1] #0
  constant w5 f32[40, 48, 3, 3] #0
  constant w6 f32[40, 8, 2, 2] #0
  a f32[?] = Conv(x, w1) {pads = [1, 1, 1, 1]}
  b f32[?] = ConvTranspose(a, w2, b2) {strides = [2, 2]}
  c f32[?] = ConvTranspose(a, w3) {strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [0, 1]}
  e f32[?] = Conv(x, w4) {pads = [3, 4, 4, 5]}
  all f32[?] = Concat(e, b) {axis = 1}
  f f32[?] = Conv(all, w5) {pads = [1, 1, 1, 1]}
  g f32[?] = Relu(f)
  h f32[?] = ConvTranspose(g, w6) {strides = [2, 2]}
  output c h
}
)"},
    {"grouped_and_depthwise", R"(graph grouped_and_depthwise {
  input x f32[1, 20, 13, 11]
  constant w0 f32[48, 20, 1, 1] #0
  constant w1 f32[48, 1, 5, 5] #0
  constant b1 f32[48] #0
  constant w2 f32[32, 12, 3, 3] #0
  constant w3 f32[32, 8, 7, 7] #0
  a f32[?] = Conv(x, w0)
  b f32[?] = Conv(a, w1, b1) {group = 48, pads = [2, 2, 2, 2], strides = [2, 1]}
  c f32[?] = Relu(b)
  d f32[?] = Conv(c, w2) {group = 4, pads = [1, 0, 1, 2]}
  e f32[?] = Conv(d, w3) {group = 4, pads = [3, 3, 3, 3], strides = [3, 3]}
  output e
}
)"},
    {"groups_that_cut_blocks", R"(graph groups_that_cut_blocks {
  input x f32[1, 36, 9, 7]
  constant w1 f32[64, 9, 3, 3] #0
  constant w2 f32[64, 12, 1, 1] #0
  constant w3 f32[48, 64, 1, 1] #0
  a f32[?] = Conv(x, w1) {group = 4, pads = [1, 1, 1, 1]}
  b f32[?] = Conv(a, w3)
  c f32[?] = Conv(b, w2) {group = 4, strides = [2, 2]}
  output a c
}
)"},
    {"video", R"(graph video {
  input x f32[2, 3, 5, 9, 7]
  constant w0 f32[24, 3, 3, 5, 3] #0
  constant b0 f32[24] #0
  constant w1 f32[24, 24, 3, 3, 3] #0
  constant scale f32[24, 1, 1, 1] #0
  constant w2 f32[40, 24, 1, 1, 1] #0
  constant w3 f32[40, 1, 3, 1, 3] #0
  constant w4 f32[32, 20, 2, 3, 1] #0
  c0 f32[?] = Conv(x, w0, b0) {pads = [1, 2, 1, 1, 2, 1], strides = [1, 2, 2]}
  r0 f32[?] = Relu(c0)
  c1 f32[?] = Conv(r0, w1) {pads = [0, 1, 2, 2, 1, 0]}
  m1 f32[?] = Mul(c1, scale)
  s1 f32[?] = Add(m1, r0)
  p1 f32[?] = MaxPool(s1) {kernel_shape = [3, 2, 2], pads = [1, 0, 1, 1, 1, 0], strides = [2, 1, 1]}
  c2 f32[?] = Conv(p1, w2) {strides = [1, 2, 1]}
  c3 f32[?] = Conv(c2, w3) {group = 40, pads = [2, 0, 1, 2, 0, 1], dilations = [2, 1, 1]}
  a3 f32[?] = AveragePool(c3) {kernel_shape = [2, 2, 3], strides = [1, 1, 2]}
  both f32[?] = Concat(a3, a3) {axis = 1}
  c4 f32[?] = Conv(both, w4) {group = 4, pads = [0, 1, 0, 0, 1, 0]}
  g f32[?] = GlobalAveragePool(c4)
  f f32[?] = Flatten(g) {axis = 1}
  output f r0 c4
}
)"},
    // Blocks that are in the plain order but for places along one of three axes.
    {"blocks_of_one_row", R"(graph blocks_of_one_row {
  input x f32[1, 32, 3, 3, 7]
  constant w f32[48, 32, 3, 3, 3] #0
  a f32[?] = Conv(x, w)
  f f32[?] = Flatten(a) {axis = 1}
  y f32[?] = Softmax(f)
  output y
}
)"},
    // Tiles have the rows of a map, whose filters no cache holds.
    {"small_maps", R"(graph small_maps {
  input x f32[1, 16, 3, 2, 2]
  constant w0 f32[256, 16, 1, 1, 1] #0
  constant w1 f32[264, 256, 1, 3, 3] #0
  a f32[?] = Conv(x, w0)
  b f32[?] = Conv(a, w1) {pads = [0, 1, 1, 0, 1, 1]}
  c f32[?] = Relu(b)
  d f32[?] = MaxPool(x) {kernel_shape = [3, 1, 1]}
  e f32[?] = Conv(d, w0)
  f f32[?] = Conv(e, w1) {pads = [0, 1, 1, 0, 1, 1]}
  output c f
}
)"},
    {"batches", R"(graph batches {
  symbol n in [1, 2147483648]
  input x f32[n, 20, 13, 9]
  constant w1 f32[48, 20, 3, 3] #0
  constant w2 f32[32, 20, 1, 1] #0
  constant w3 f32[24, 80, 3, 3] #0
  constant w4 f32[24, 12, 3, 3] #0
  a f32[?] = Conv(x, w1) {pads = [1, 1, 1, 1]}
  b f32[?] = Conv(x, w2)
  both f32[?] = Concat(a, b) {axis = 1}
  c f32[?] = Conv(both, w3) {strides = [2, 2]}
  d f32[?] = ConvTranspose(c, w4) {strides = [2, 2]}
  s f32[?] = Softmax(d) {axis = 1}
  l f32[?] = LpNormalization(d) {axis = 1}
  best f32[?], places i64[?] = TopK(c) {axis = 2, k = [3]}
  output s l best
}
)"},
    {"rows_packed_by_threads", R"(graph rows_packed_by_threads {
  input x f32[3, 16, 46, 3]
  constant w f32[96, 16, 1, 1] #0
  constant b f32[96] #0
  y f32[?] = Conv(x, w, b)
  output y
}
)"},
    {"norm_over_channels", R"(graph norm_over_channels {
  input x f32[1, 24, 28, 28]
  l f32[?] = LpNormalization(x) {axis = 1}
  output l
}
)"},
    {"rows_of_any_size", R"(graph rows_of_any_size {
  symbol heads in [1, 2147483648]
  symbol n in [1, 2147483648]
  input x f32[heads, n, n]
  y f32[?] = Softmax(x) {axis = -1}
  z f32[?] = Softmax(x) {axis = 1}
  output y z
}
)"},
    {"attention", R"(graph attention {
  symbol count in [1, 100]
  input x f32[count, 48]
  constant q f32[48, 48] #0
  constant k f32[48, 48] #0
  constant v f32[48, 48] #0
  constant scale f32[48] #0
  constant shift f32[48] #0
  constant up f32[48, 100] #0
  constant down f32[100, 48] #0
  constant root f32[] = [0.28867513]
  xq f32[?] = MatMul(x, q)
  xk f32[?] = MatMul(x, k)
  xv f32[?] = MatMul(x, v)
  q3 f32[?] = Reshape(xq) {shape = dims[0, 4, 12]}
  k3 f32[?] = Reshape(xk) {shape = dims[0, 4, 12]}
  v3 f32[?] = Reshape(xv) {shape = dims[0, 4, 12]}
  qt f32[?] = Transpose(q3) {perm = [1, 0, 2]}
  kt f32[?] = Transpose(k3) {perm = [1, 2, 0]}
  vt f32[?] = Transpose(v3) {perm = [1, 0, 2]}
  scores f32[?] = MatMul(qt, kt)
  scaled f32[?] = Mul(scores, root)
  soft f32[?] = Softmax(scaled) {axis = -1}
  mixed f32[?] = MatMul(soft, vt)
  back f32[?] = Transpose(mixed) {perm = [1, 0, 2]}
  rows f32[?] = Reshape(back) {shape = dims[0, 48]}
  sum f32[?] = Add(rows, x)
  norm f32[?] = LayerNormalization(sum, scale, shift) {axis = -1, epsilon = 1e-5}
  wide f32[?] = MatMul(norm, up)
  active f32[?] = Gelu(wide)
  narrow f32[?] = MatMul(active, down)
  y f32[?] = Add(narrow, norm)
  output y
}
)"},
    {"recurrent", R"(graph recurrent {
  symbol frames in [1, 100]
  input x f32[frames, 1, 20]
  constant w f32[1, 90, 20] #0
  constant r f32[1, 90, 30] #0
  constant b f32[1, 180] #0
  constant w2 f32[2, 64, 30] #0
  constant r2 f32[2, 64, 16] #0
  h4 f32[?], last f32[?] = GRU(x, w, r, b) {hidden_size = 30, linear_before_reset = 1}
  h f32[?] = Squeeze(h4) {axes = [1]}
  y f32[?], yh f32[?], yc f32[?] = LSTM(h, w2, r2) {direction = "bidirectional", hidden_size = 16}
  output y last yc
}
)"},
    // What was computed before the loop is read first in its body; later steps may not take its memory.
    {"loop_reads_first", R"(graph loop_reads_first {
  input x f32[5, 1, 20]
  input start f32[1, 24]
  constant w f32[20, 24] #0
  constant v f32[24, 24] #0
  before f32[?] = Sigmoid(x)
  last f32[?], all f32[?] = Scan(start, before, w, v) {body = graph body {
    input h f32[1, 24]
    input slice f32[1, 20]
    capture a f32[20, 24] of "w"
    capture b f32[24, 24] of "v"
    first f32[?] = MatMul(slice, a)
    soft f32[?] = Softmax(first) {axis = 1}
    second f32[?] = MatMul(soft, b)
    more f32[?] = Softmax(second) {axis = 1}
    next f32[?] = Add(more, h)
    output next next
  }, num_scan_inputs = 1}
  output last all
}
)"},
    {"recurrent_fixed", R"(graph recurrent_fixed {
  input x f32[6, 1, 20]
  constant w f32[1, 90, 20] #0
  constant r f32[1, 90, 30] #0
  constant b f32[1, 180] #0
  constant w2 f32[2, 64, 30] #0
  constant r2 f32[2, 64, 16] #0
  h4 f32[?], last f32[?] = GRU(x, w, r, b) {hidden_size = 30, linear_before_reset = 1}
  h f32[?] = Squeeze(h4) {axes = [1]}
  y f32[?], yh f32[?], yc f32[?] = LSTM(h, w2, r2) {direction = "bidirectional", hidden_size = 16}
  output y last yc
}
)"},
};

std::vector<NamedGraph> graphs() {
  std::vector<NamedGraph> result(std::begin(kNetworks), std::end(kNetworks));
  const char* folder = "tests/golden/schedules";
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::ifstream in(entry.path());
      const std::string all((std::istreambuf_iterator<char>(in)), {});
      result.push_back({"golden_" + entry.path().stem().string(), all.substr(0, all.find("----\n"))});
    }
  }
  std::sort(result.begin(), result.end(),
            [](const NamedGraph& a, const NamedGraph& b) { return a.name < b.name; });
  return result;
}

double number(std::mt19937& random) { return static_cast<double>(random() % 20001) / 10000 - 1; }

// Constants whose data are not in the text get seeded numbers, of a size that keeps values near 1.
void fill_constants(Graph& graph, std::mt19937& random) {
  for (Value& value : graph.values) {
    if (!value.constant || !is_float(value.dtype) || value.constant->count() < 2) continue;
    auto filled = std::make_shared<Tensor>(value.dtype, value.constant->shape);
    const auto& shape = filled->shape;
    // Weights are [outputs, inputs, taps...] or [inputs, outputs]: the mean of both is near enough.
    const double terms = shape.size() > 1 ? std::sqrt(static_cast<double>(filled->count())) / 2 : 1;
    for (int64_t i = 0; i < filled->count(); ++i) filled->set(i, number(random) * 1.7 / std::sqrt(terms));
    value.constant = filled;
  }
}

class Plan : public testing::TestWithParam<NamedGraph> {};

TEST_P(Plan, ComputesWhatTheGraphMeans) {
  std::mt19937 random(7);
  Graph graph = parse_graph(GetParam().text);
  fill_constants(graph, random);
  infer_shapes(graph);
  Graph simple = graph;
  run_passes(simple, {});
  for (int64_t size : graph.symbols.empty() ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 7, 20}) {
    std::map<std::string, int64_t> symbols;
    for (const auto& [name, range] : graph.symbols) symbols[name] = size;
    std::map<std::string, Tensor> inputs;
    for (ValueId id : graph.inputs) {
      std::vector<int64_t> shape;
      for (const Dim& dim : *graph[id].shape) shape.push_back(dim.evaluate(symbols));
      Tensor tensor(graph[id].dtype, shape);
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, number(random));
      inputs[graph[id].name] = tensor;
    }
    const auto expected = evaluate(graph, inputs);
    const auto found = run_native(simple, inputs);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      const Tensor& other = found.at(name);
      ASSERT_EQ(tensor.shape, other.shape) << name;
      double largest = 0, smallest = 0, worst = 0;
      for (int64_t i = 0; i < tensor.count(); ++i) {
        largest = std::max(largest, tensor.as_double(i));
        smallest = std::min(smallest, tensor.as_double(i));
        const double error = std::abs(tensor.as_double(i) - other.as_double(i));
        worst = error <= worst ? worst : error;  // a NaN stays
      }
      EXPECT_LE(worst, 1e-5 * std::max(largest, -smallest)) << name << " for size " << size;
      // Zeros would agree whatever the compiler does.
      EXPECT_GT(largest - smallest, 1e-4) << name;
    }
  }
}

size_t kernels_of(const std::string& lines) {
  Graph graph = parse_graph("graph g {\n" + lines + "}\n");
  infer_shapes(graph);
  run_passes(graph, {});
  BuildOptions options;
  options.target = parse_target("x86-64-v4");
  return build_plan(graph, options).reports.size();
}

TEST(Fusion, OnlyWhatHasTheAnchorsShapeIsAnEpilogue) {
  const auto count = [](const std::string& other_shape) {
    return kernels_of(
        "  input x f32[1, 40]\n  input r f32" + other_shape +
        "\n  constant w f32[40, 48] #0\n  m f32[?] = MatMul(x, w)\n  y f32[?] = Mul(m, r)\n  output y\n");
  };
  EXPECT_EQ(count("[1, 48]"), 1u);
  EXPECT_EQ(count("[48]"), 1u);
  // The product would be computed once for each of twelve rows.
  EXPECT_EQ(count("[12, 48]"), 2u);
}

// Two chains that meet, and the parts of one value that they begin with.
TEST(Fusion, ElementwiseNodesTakeWhatOnlyTheyRead) {
  const std::string chains =
      "  input x f32[6, 96]\n  a f32[?] = Slice(x) {starts = [0], ends = [48], axes = [1]}\n"
      "  b f32[?] = Slice(x) {starts = [48], ends = [96], axes = [1]}\n"
      "  s f32[?] = Sigmoid(a)\n  t f32[?] = Tanh(b)\n";
  EXPECT_EQ(kernels_of(chains + "  y f32[?] = Mul(s, t)\n  output y\n"), 1u);
  // What another kernel reads as well is computed once.
  EXPECT_EQ(kernels_of(chains + "  y f32[?] = Mul(s, t)\n  z f32[?] = Softmax(t)\n  output y z\n"), 3u);
}

// Whether a row times a square matrix of that size stays on one thread.
bool is_single_threaded(int size) {
  const std::string number = std::to_string(size);
  Graph graph = parse_graph("graph g {\n  input x f32[1, " + number + "]\n  constant w f32[" + number + ", " +
                            number + "] #0\n  y f32[?] = MatMul(x, w)\n  output y\n}\n");
  infer_shapes(graph);
  run_passes(graph, {});
  BuildOptions options;
  options.target = parse_target("x86-64-v4");
  options.threads = 2;
  const BuiltPlan built = build_plan(graph, options);
  EXPECT_EQ(built.plan.steps.at(0).single_thread, built.reports.at(0).single_thread);
  return built.reports.at(0).single_thread;
}

// The multiply-adds of both would be done in some microseconds; the larger matrix is not read in them.
TEST(Threads, ShareMatricesThatTakeLongToRead) {
  EXPECT_TRUE(is_single_threaded(160));
  EXPECT_FALSE(is_single_threaded(640));
}

// A symbolic size is not taken for its least.
TEST(Threads, ShareWhatIsLargeAtLikelySizes) {
  Graph graph = parse_graph(
      "graph g {\n  symbol n in [1, 1000]\n  input x f32[n, 128]\n  constant w f32[128, 128] #0\n"
      "  y f32[?] = MatMul(x, w)\n  output y\n}\n");
  infer_shapes(graph);
  run_passes(graph, {});
  BuildOptions options;
  options.target = parse_target("x86-64-v4");
  options.threads = 2;
  EXPECT_FALSE(build_plan(graph, options).plan.steps.at(0).single_thread);
}

BuiltPlan plan_of(const std::string& lines) {
  Graph graph = parse_graph("graph g {\n" + lines + "}\n");
  infer_shapes(graph);
  run_passes(graph, {});
  BuildOptions options;
  options.target = parse_target("x86-64-v4");
  return build_plan(graph, options);
}

// Rows of a softmax are held in scratch memory, four at a time.
TEST(Sizes, HaveTheScratchMemoryThatTheyNeed) {
  const std::string symbols =
      "  symbol n in [1, 2147483648]\n  symbol m in [1, 2147483648]\n  input x f32[m, n]\n";
  const BuiltPlan built = plan_of(symbols + "  y f32[?] = Softmax(x)\n  output y\n");
  EXPECT_EQ(built.plan.symbols.at("n").second, int64_t{1} << 31);
  EXPECT_EQ(built.plan.symbols.at("m").second, int64_t{1} << 31);
  EXPECT_EQ(built.plan.scratch_bytes, 0);
  EXPECT_EQ(built.notes.size(), 0u);
  // Rows of floats, each buffer a multiple of 64 bytes.
  EXPECT_GE(built.plan.sized_scratch.evaluate({{"n", 1001}, {"m", 8}}), 4 * 1001 * 4);
  EXPECT_LE(built.plan.sized_scratch.evaluate({{"n", 1001}, {"m", 8}}), 16 * 1001 * 4);
  EXPECT_EQ(built.plan.sized_scratch.evaluate({{"n", 1001}, {"m", 8}}) % 64, 0);
  EXPECT_EQ(plan_of(symbols + "  y f32[?] = Relu(x)\n  output y\n").plan.sized_scratch, Dim(0));
}

// Statement by statement all rows would be in scratch memory, and both sizes limited.
TEST(Sizes, RecordedSchedulesThatNeedMuchScratchMemoryAreNotUsed) {
  Graph graph = parse_graph(
      "graph g {\n  symbol n in [1, 2147483648]\n  symbol m in [1, 2147483648]\n  input x f32[m, n]\n"
      "  y f32[?] = Softmax(x)\n  output y\n}\n");
  infer_shapes(graph);
  run_passes(graph, {});
  BuildOptions options;
  options.target = parse_target("x86-64-v4");
  options.traces = [](const std::string&) { return std::vector<std::vector<std::string>>{{}}; };
  const BuiltPlan built = build_plan(graph, options);
  ASSERT_EQ(built.notes.size(), 1u);
  EXPECT_EQ(built.notes[0],
            "a recorded schedule of kernel 'Softmax' is not used: it needs 1125925676646400 bytes of scratch "
            "memory per thread, more than the default");
  // What the default takes is taken.
  options.traces = [&](const std::string&) {
    return std::vector<std::vector<std::string>>{
        plan_of("  symbol n in [1, 2147483648]\n"
                "  symbol m in [1, 2147483648]\n  input x f32[m, n]\n  y f32[?] = Softmax(x)\n  output y\n")
            .reports.at(0)
            .trace};
  };
  const BuiltPlan same = build_plan(graph, options);
  EXPECT_TRUE(same.reports.at(0).tuned);
}

// A register tile may have a loop over parts of an open size, whose number is not known.
TEST(RecordedSchedules, WithTilesOverPartsOfOpenSizesAreUsed) {
  Graph graph = parse_graph(
      "graph g {\n  symbol n in [1, 4096]\n  input x f32[n]\n  y f32[?] = Relu(x)\n  output y\n}\n");
  infer_shapes(graph);
  run_passes(graph, {});
  BuildOptions options;
  options.target = parse_target("x86-64-v4");
  const Statement statement = build_plan(graph, options).plan.kernels.at(0).kernel.statements.at(0);
  const std::string loop = statement.name + "_" + statement.iterators.at(0).name;
  options.traces = [&](const std::string&) {
    return std::vector<std::vector<std::string>>{
        {"split " + loop + " 4 as outer inner", "register_tile root"}};
  };
  const BuiltPlan built = build_plan(graph, options);
  EXPECT_TRUE(built.reports.at(0).tuned);
  EXPECT_EQ(built.notes, std::vector<std::string>());
}

// Two open sizes of which the kernel counts the product alone: the plan passes it.
TEST(Sizes, ProductsOfOpenSizesArePassedToKernels) {
  const BuiltPlan built = plan_of(
      "  symbol n in [1, 64]\n  symbol m in [1, 512]\n  input x f32[n, m, 8]\n"
      "  y f32[?] = Relu(x)\n  output y\n");
  const Kernel& kernel = built.plan.kernels.at(0).kernel;
  ASSERT_EQ(kernel.parameters.size(), 3u);
  EXPECT_EQ(kernel.parameters[2].value.str(), "p0*p1");
  EXPECT_EQ(kernel.parameters[2].maximum, 64 * 512);
  EXPECT_EQ(kernel.statements.at(0).iterators.at(0).extent.str(), "8*" + kernel.parameters[2].name);
  EXPECT_EQ(built.plan.steps.at(0).parameters.at(2), Dim::symbol("n") * Dim::symbol("m"));
}

TEST(Sizes, OfTensorsAreLimitedToTheMachinesMemory) {
  const auto build = [](const std::string& lines, int64_t limit, int threads = 1) -> std::string {
    Graph graph = parse_graph("graph g {\n" + lines + "}\n");
    infer_shapes(graph);
    BuildOptions options;
    options.target = parse_target("x86-64-v4");
    options.memory_limit = limit;
    options.threads = threads;
    try {
      build_plan(graph, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
      return error.what();
    }
    return "";
  };
  const std::string lines =
      "  input x f32[10, 1]\n  input z f32[1, 100]\n  a f32[?] = MatMul(x, z)\n  b f32[?] = Softmax(a)\n"
      "  y f32[?] = ReduceSum(b) {axes = [0, 1]}\n  output y\n";
  EXPECT_EQ(build(lines, 100000), "");
  const std::string refused = build(lines, 3999);
  EXPECT_NE(
      refused.find(
          ": tensor 'a' of shape [10, 100] takes 4000 bytes, but a model may use 3999 at most; check the "
          "sizes that the model is given, or give it more by max_ram (default: half of this machine's memory)"),
      std::string::npos)
      << refused;
  EXPECT_EQ(
      build(lines, 39),
      "input 'x': tensor 'x' of shape [10, 1] takes 40 bytes, but a model may use 39 at most; check "
      "the sizes that the model is given, or give it more by max_ram (default: half of this machine's memory)");
  // Each tensor fits, but not all that live at once.
  EXPECT_EQ(
      build(lines, 4000),
      "model 'g' needs 0 bytes for constants and 9856 to work in, but it may use 4000 at most; most is in "
      "use in step 'Softmax': 'a' (4000 bytes), 'b' (4000 bytes), 'intermediate results of Softmax' (1792 bytes); use "
      "smaller sizes or fewer threads, or give it at least 9856 by max_ram (default: half of this machine's memory)");
  const std::regex of_three(
      "'intermediate results of Softmax' \\(\\d+ bytes\\), and \\d+ bytes for the intermediate results of each of 2 other threads; use smaller sizes");
  EXPECT_TRUE(std::regex_search(build(lines, 4000, 3), of_three));
  EXPECT_EQ(machine_memory() > int64_t{1} << 28, true);
}

TEST(Sizes, ThatNeedTooMuchScratchMemoryAreRefused) {
  const auto refusal = [](const std::string& lines) -> std::string {
    try {
      plan_of(lines);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("  input x f32[2, 300000000]\n  y f32[?] = Softmax(x)\n  output y\n"),
            "kernel 'Softmax' would need more than 1 GiB per thread for its intermediate results");
  // A run has memory for its sizes, or ends in a sentence.
  const std::string symbols = "  symbol n in [1, 2147483648]\n  symbol m in [1, 2147483648]\n";
  EXPECT_EQ(
      refusal(symbols + "  input x f32[m, n, 70000]\n  r f32[?] = Reshape(x) {shape = dims[m, 70000*n]}\n"
                        "  y f32[?] = Softmax(r)\n  output y\n"),
      "");
  EXPECT_EQ(refusal(symbols + "  input x f32[5, m, n]\n  r f32[?] = Reshape(x) {shape = dims[5, m*n]}\n"
                              "  y f32[?] = Softmax(r)\n  output y\n"),
            "");
}

INSTANTIATE_TEST_SUITE_P(All, Plan, testing::ValuesIn(graphs()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tc
