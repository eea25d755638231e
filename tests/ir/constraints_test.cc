// What rows say of their operands and attributes holds for every node: one case for each kind of rule, and
// for what symbols may be.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/graph.h"
#include "ir/ops/op.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

// The error of inferring `y f32[?] = …` after these inputs, without the node that it names; "" for none.
std::string refusal(const std::string& inputs, const std::string& node, Graph* result = nullptr) {
  Graph graph = parse_graph("graph g {\n" + inputs + "  " + node + "\n  output y\n}\n");
  const std::string who = graph.nodes.at(0).origin.str();
  try {
    infer_shapes(graph);
  } catch (const Error& error) {
    const std::string what = error.what();
    EXPECT_EQ(what.rfind(who, 0), 0u) << what;
    return what.substr(who.size());
  }
  if (result) *result = graph;
  return "";
}

const std::string kX = "  input x f32[2, 3]\n", kXW = kX + "  input w f64[3]\n",
                  kMap = "  input x f32[1, 4, 8, 8]\n";

TEST(Constraints, OfTypes) {
  EXPECT_EQ(refusal(kXW, "y f32[?] = Add(x, w)"),
            ": input 0 has type f32 and input 1 has type f64; they must be the same");
  EXPECT_EQ(refusal("  input x i64[2]\n", "y f32[?] = Exp(x)"),
            ": input 0 has type i64; a float type is needed");
  EXPECT_EQ(refusal("  input x bool[2]\n", "y f32[?] = Relu(x)"),
            ": input 0 has type bool; a number type is needed");
  EXPECT_EQ(refusal(kX, "y f32[?] = Not(x)"), ": input 0 has type f32; bool is needed");
  EXPECT_EQ(refusal(kX, "y f32[?] = BitwiseNot(x)"), ": input 0 has type f32; an integer type is needed");
  EXPECT_EQ(refusal(kXW, "y f32[?] = Gather(x, w)"), ": input 1 has type f64; i32 or i64 is needed");
  EXPECT_EQ(refusal("  input x i32[2, 2]\n", "y f32[?] = MatMulInteger(x, x)"),
            ": input 0 has type i32; i8 or u8 is needed");
  // Statistics may have a type of their own; what no rule names may have any.
  EXPECT_EQ(refusal(kXW, "y f32[?] = BatchNormalization(x, w, w, w, w)"), "");
  EXPECT_EQ(refusal(kXW, "y f32[?] = CastLike(x, w)"), "");
}

TEST(Constraints, OfAxes) {
  EXPECT_EQ(refusal(kX, "y f32[?] = Softmax(x) {axis = 2}"),
            ": attribute 'axis' is 2; for input 0 of shape [2, 3] it may be -2 to 1");
  EXPECT_EQ(refusal(kX, "y f32[?] = Softmax(x) {axis = -3}"),
            ": attribute 'axis' is -3; for input 0 of shape [2, 3] it may be -2 to 1");
  EXPECT_EQ(refusal(kX, "y f32[?] = Softmax(x) {axis = -2}"), "");
  EXPECT_EQ(refusal(kX, "y f32[?] = Softmax(x) {axis = 1}"), "");
  EXPECT_EQ(refusal("  input x f32[]\n", "y f32[?] = Softmax(x)"),
            ": attribute 'axis' is -1; for input 0 of shape [] it may be no number");
  EXPECT_EQ(refusal(kX, "y f32[?] = ReduceSum(x) {axes = [0, 5]}"),
            ": attribute 'axes' is [0, 5]; for input 0 of shape [2, 3] each number may be -2 to 1");
  EXPECT_EQ(refusal(kX, "y f32[?] = Flatten(x) {axis = 2}"), "");
  EXPECT_EQ(refusal(kX, "y f32[?] = Flatten(x) {axis = 3}"),
            ": attribute 'axis' is 3; for input 0 of shape [2, 3] it may be -2 to 2");
  EXPECT_EQ(
      refusal("  input x i64[3]\n  input v f32[2]\n", "y f32[?] = OneHot(x, v) {depth = [4], axis = -2}"),
      "");
  EXPECT_EQ(
      refusal("  input x i64[3]\n  input v f32[2]\n", "y f32[?] = OneHot(x, v) {depth = [4], axis = 2}"),
      ": attribute 'axis' is 2; for input 0 of shape [3] it may be -2 to 1");
}

TEST(Constraints, OfPermutations) {
  EXPECT_EQ(refusal(kX, "y f32[?] = Transpose(x) {perm = [1, 0]}"), "");
  EXPECT_EQ(refusal(kX, "y f32[?] = Transpose(x)"), "");
  for (const char* perm : {"[0, 0]", "[-1, 0]", "[1, 2]", "[1]", "[0, 1, 2]", "[4611686018427387904, 0]"}) {
    EXPECT_EQ(refusal(kX, "y f32[?] = Transpose(x) {perm = " + std::string(perm) + "}"),
              ": attribute 'perm' is " + std::string(perm) +
                  "; for input 0 of shape [2, 3] each number from 0 to 1 is needed once");
  }
}

TEST(Constraints, OfRanges) {
  const auto pool = [](const std::string& attributes) {
    return refusal(kMap, "y f32[?] = MaxPool(x) {kernel_shape = [2, 2], " + attributes + "}");
  };
  EXPECT_EQ(pool("strides = [2, 1]"), "");
  EXPECT_EQ(pool("strides = [2, 0]"), ": attribute 'strides' is [2, 0]; each number may be 1 to 2147483648");
  EXPECT_EQ(pool("dilations = [2147483649, 1]"),
            ": attribute 'dilations' is [2147483649, 1]; each number may be 1 to 2147483648");
  EXPECT_EQ(pool("pads = [0, 0, 0, 2147483649]"),
            ": attribute 'pads' is [0, 0, 0, 2147483649]; each number may be -2147483648 to 2147483648");
  EXPECT_EQ(refusal(kX, "y f32[?] = Tile(x) {repeats = [1, -1]}"),
            ": attribute 'repeats' is [1, -1]; each number may be 0 or more");
  EXPECT_EQ(refusal(kMap, "y f32[?] = LRN(x) {size = 0}"),
            ": attribute 'size' is 0; it may be 1 to 2147483648");
  // The first numbers of a long list.
  std::string zeros = "0";
  for (int i = 0; i < 30; ++i) zeros += ", 0";
  EXPECT_EQ(
      pool("strides = [" + zeros + "]"),
      ": attribute 'strides' is [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, …]; each number may be 1 to 2147483648");
}

TEST(Constraints, OfChoices) {
  EXPECT_EQ(refusal(kX, "y f32[?] = Pad(x) {pads = [0, 0, 0, 0], mode = \"mirror\"}"),
            ": attribute 'mode' is 'mirror'; it may be constant, reflect, edge, wrap");
  EXPECT_EQ(refusal(kX, "y f32[?] = Pad(x) {pads = [0, 0, 0, 0], mode = \"" + std::string(100, 'm') + "\"}"),
            ": attribute 'mode' is '" + std::string(80, 'm') + "…'; it may be constant, reflect, edge, wrap");
}

TEST(Constraints, OfKindsAndOfWhatIsRequired) {
  EXPECT_EQ(refusal(kX, "y f32[?] = Softmax(x) {axis = \"last\"}"),
            ": attribute 'axis' is of the wrong kind");
  EXPECT_EQ(refusal(kX, "y f32[?] = Tile(x) {repeats = 2}"), ": attribute 'repeats' is of the wrong kind");
  EXPECT_EQ(refusal(kX, "y f32[?] = Relu(x) {alpha = 1.5}"), ": attribute 'alpha' is not supported");
  EXPECT_EQ(refusal(kMap, "y f32[?] = LRN(x)"), " lacks attribute 'size', which LRN needs");
}

TEST(Constraints, OfResults) {
  EXPECT_EQ(
      refusal(kX, "y f32[?] = Expand(x) {shape = [1099511627776, 1, 1]}"),
      ": the result would have shape [1099511627776, 2, 3]; a tensor of more than 2^40 elements is not supported");
  EXPECT_EQ(refusal(kX, "y f32[?] = Pad(x) {pads = [-3, 0, 0, 0]}"),
            ": the result would have shape [-1, 3], with a negative dimension");
  EXPECT_EQ(refusal("  symbol n in [1048576, 2097152]\n  input x f32[n, n]\n",
                    "y f32[?] = Tile(x) {repeats = [1, 2]}"),
            ": the result would have shape [n, 2*n]; a tensor of more than 2^40 elements is not supported");
  EXPECT_EQ(
      refusal("  symbol n in [1, 2097152]\n  input x f32[n, n]\n", "y f32[?] = Tile(x) {repeats = [1, 2]}"),
      "");
}

// The largest k exist only where there are k: what the inputs must have at least is known before they are
// bound.
TEST(Constraints, OfSymbols) {
  const std::string inputs = "  symbol n in [1, 100]\n  input x f32[2, n]\n";
  Graph graph;
  EXPECT_EQ(refusal(inputs, "y f32[?], i i64[?] = TopK(x) {k = [5]}", &graph), "");
  EXPECT_EQ(graph.symbols.at("n").first, 5);
  EXPECT_EQ(
      refusal(inputs, "y f32[?], i i64[?] = TopK(x) {k = [500]}"),
      ": axis 1 of [2, n] may be too small for some sizes; bind the symbols to numbers: shapes={\"n\": …}");
}

// Floors of what is negative are negative, and are so in products.
TEST(Constraints, RangesOfFloors) {
  const Graph graph = parse_graph(
      "graph g {\n  symbol n in [1, 10]\n  symbol m in [0, 4]\n  input x f32[n, m]\n  output x\n}\n");
  const auto range = [&](const std::string& text) {
    const Interval found = dim_range(parse_dim(text), graph);
    return std::pair(found.low, found.high);
  };
  EXPECT_EQ(range("floor((3 - n)/2)"), (std::pair<int64_t, int64_t>(-4, 1)));
  EXPECT_EQ(range("floor((0 - n)/2)"), (std::pair<int64_t, int64_t>(-5, -1)));
  EXPECT_EQ(range("floor((0 - n)/2)*m"), (std::pair<int64_t, int64_t>(-20, 0)));
  EXPECT_EQ(range("floor((n - 3)/2) + 1"), (std::pair<int64_t, int64_t>(0, 4)));
}

}  // namespace
}  // namespace tc
