// Which activations the plan stores in blocks of channels.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frontend/pipeline/plan_builder.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"
#include "ir/target/target.h"

namespace tc {
namespace {

// Each kernel, with those of its operands and results that are in blocks.
std::vector<std::string> kernels_of(const std::string& lines, const std::string& target = "x86-64-v4") {
  Graph graph = parse_graph("graph g {\n" + lines + "}\n");
  infer_shapes(graph);
  run_passes(graph, {});
  BuildOptions options;
  options.target = parse_target(target);
  std::vector<std::string> result;
  for (const KernelReport& report : build_plan(graph, options).reports) {
    std::string line = report.label + ":";
    for (const std::string& layout : report.layout_lines) line += " " + layout.substr(layout.find(' ') + 1);
    result.push_back(line);
  }
  return result;
}

// `text` with each `<n>` as so many of `n`, one for each spatial axis.
std::string with_axes(std::string text, int axes) {
  for (size_t at = text.find('<'); at != std::string::npos; at = text.find('<')) {
    const size_t end = text.find('>', at);
    const std::string one = text.substr(at + 1, end - at - 1);
    std::string all = one;
    for (int i = 1; i < axes; ++i) all += ", " + one;
    text.replace(at, end + 1 - at, all);
  }
  return text;
}

class MapsOfAxes : public testing::TestWithParam<int> {};

TEST_P(MapsOfAxes, AreInBlocksBetweenConvolutionsPoolsAndElementwiseNodes) {
  EXPECT_EQ(
      kernels_of(with_axes(R"(
  input x f32[2, 3, <9>]
  constant w0 f32[24, 3, <3>] #0
  constant w1 f32[24, 24, <3>] #0
  constant scale f32[24, <1>] #0
  constant w2 f32[24, 1, <3>] #0
  constant w3 f32[40, 24, <1>] #0
  c0 f32[?] = Conv(x, w0) {pads = [<1>, <1>]}
  r0 f32[?] = Relu(c0)
  c1 f32[?] = Conv(r0, w1) {pads = [<1>, <1>]}
  m1 f32[?] = Max(c1, scale)
  s1 f32[?] = Add(m1, r0)
  p f32[?] = MaxPool(s1) {kernel_shape = [<3>], strides = [<2>]}
  c2 f32[?] = Conv(p, w2) {group = 24}
  c3 f32[?] = Conv(c2, w3)
  g f32[?] = GlobalAveragePool(c3)
  f f32[?] = Flatten(g) {axis = 1}
  t f32[?] = Softmax(c3) {axis = 1}
  output f t
)",
                           GetParam())),
      (std::vector<std::string>{"Conv + Relu: out0 1 16", "Conv + Max + Add: in0 1 16 out0 1 16",
                                "MaxPool: in0 1 16 out0 1 16", "Conv: in0 1 16 out0 1 16",
                                "Conv: in0 1 16 out0 1 16", "GlobalAveragePool: in0 1 16 out0 1 16",
                                "Reorder (reorder): in0 1 16", "Reorder (reorder): in0 1 16", "Softmax:"}));
}

INSTANTIATE_TEST_SUITE_P(Layout, MapsOfAxes, testing::Values(1, 2, 3));

// What broadcasts against a map of more axes has its channels at another of them.
TEST(Layout, OfMapsWithFewerAxesIsPlainWhereTheyBroadcast) {
  EXPECT_EQ(
      kernels_of(R"(
  input x f32[20, 3, 4, 5]
  input z f32[1, 3, 20, 4, 5]
  constant w0 f32[20, 3, 1, 1] #0
  constant w1 f32[20, 3, 1, 1, 1] #0
  constant plane f32[20, 1, 1] #0
  a f32[?] = Conv(x, w0)
  b f32[?] = Conv(z, w1)
  s f32[?] = Add(a, b)
  t f32[?] = MaxPool(s) {kernel_shape = [2, 2, 2]}
  m f32[?] = Mul(b, plane)
  u f32[?] = MaxPool(m) {kernel_shape = [2, 2, 2]}
  output t u
)"),
      (std::vector<std::string>{"Conv: out0 1 16", "Conv: out0 1 16", "Reorder (reorder): in0 1 16",
                                "Reorder (reorder): in0 1 16", "Add:", "MaxPool:", "Mul:", "MaxPool:"}));
}

// In order, depthwise windows of five columns and more have blocks of one register, and so have all values
// with as many channels; windows of three, other vectors and one artefact for all lengths have those of the
// target.
TEST(Layout, OfWideDepthwiseWindowsIsInBlocksOfOneRegister) {
  const auto blocks = [](const char* taps, const char* target) {
    std::string lines = R"(
  input x f32[1, 32, 9, 9]
  constant w0 f32[64, 32, 1, 1] #0
  constant w1 f32[64, 1, @, @] #0
  constant w2 f32[32, 64, 1, 1] #0
  c0 f32[?] = Conv(x, w0)
  c1 f32[?] = Conv(c0, w1) {group = 64}
  c2 f32[?] = Conv(c1, w2)
  p f32[?] = MaxPool(c2) {kernel_shape = [2, 2]}
  output p
)";
    for (size_t at = lines.find('@'); at != std::string::npos; at = lines.find('@'))
      lines.replace(at, 1, taps);
    std::string result;
    for (const std::string& line : kernels_of(lines, target)) {
      if (line.rfind("Conv", 0) == 0) result += line.substr(line.rfind(' '));
    }
    return result;
  };
  EXPECT_EQ(blocks("5", "rv64gcv_zvl256b"), " 8 8 16");
  EXPECT_EQ(blocks("3", "rv64gcv_zvl256b"), " 16 16 16");
  EXPECT_EQ(blocks("5", "rv64gcv_zvl512b"), " 16 16 32");
  EXPECT_EQ(blocks("5", "rv64gcv_zvl1024b"), " 32 32 32");
  EXPECT_EQ(blocks("5", "rv64gcv"), " 16 16 16");
  EXPECT_EQ(blocks("5", "rv64gcv_zvl256b+lengths"), " 16 16 16");
  EXPECT_EQ(blocks("5", "x86-64-v4"), " 16 16 16");
}

// Blocks of unlike lengths cannot be joined: all parts of a concatenation that mixes them have the target's,
// and so have what those parts are computed from.
TEST(Layout, OfConcatenatedMapsIsTheTargetsUnlessAllHaveWideWindows) {
  const auto blocks = [](const char* joined) {
    std::string lines = R"(
  input x f32[1, 32, 9, 9]
  constant w0 f32[64, 32, 1, 1] #0
  constant w1 f32[64, 1, 5, 5] #0
  constant w2 f32[32, 32, 1, 1] #0
  constant w3 f32[128, 1, 5, 5] #0
  a f32[?] = Conv(x, w0)
  b f32[?] = Conv(a, w1) {group = 64, pads = [2, 2, 2, 2]}
  c f32[?] = Conv(x, w2)
)";
    return kernels_of(lines + joined, "rv64gcv_zvl256b");
  };
  EXPECT_EQ(blocks(R"(
  j f32[?] = Concat(b, c) {axis = 1}
  p f32[?] = MaxPool(j) {kernel_shape = [2, 2]}
  output p
)"),
            (std::vector<std::string>{"Reorder (reorder): out0 1 16", "Conv: in0 1 16 out0 1 16",
                                      "Conv: in0 1 16 out0 1 16", "Conv: in0 1 16 out0 1 16",
                                      "Reorder (reorder): in0 1 16", "MaxPool:"}));
  EXPECT_EQ(blocks(R"(
  j f32[?] = Concat(b, a) {axis = 1}
  d f32[?] = Conv(j, w3) {group = 128}
  p f32[?] = MaxPool(d) {kernel_shape = [2, 2]}
  output p
)"),
            (std::vector<std::string>{"Reorder (reorder): out0 1 16", "Conv: in0 1 16 out0 1 8",
                                      "Conv: in0 1 8 out0 1 8", "Conv: in0 1 8 out0 1 8",
                                      "Reorder (reorder): in0 1 8", "MaxPool:"}));
}

// Filters that share a channel (a multiplier of channels) are no depthwise convolution: their blocks are the
// target's.
TEST(Layout, OfGroupsOfOneChannelWithSeveralFiltersIsTheTargets) {
  EXPECT_EQ(kernels_of(R"(
  input x f32[1, 32, 9, 9]
  constant w0 f32[64, 32, 1, 1] #0
  constant w1 f32[128, 1, 5, 5] #0
  c0 f32[?] = Conv(x, w0)
  c1 f32[?] = Conv(c0, w1) {group = 64}
  p f32[?] = MaxPool(c1) {kernel_shape = [2, 2]}
  output p
)",
                       "rv64gcv_zvl256b"),
            (std::vector<std::string>{"Reorder (reorder): out0 1 16", "Conv: in0 1 16 out0 1 16",
                                      "Reorder (reorder): in0 1 16", "Conv:", "MaxPool:"}));
}

}  // namespace
}  // namespace tc
