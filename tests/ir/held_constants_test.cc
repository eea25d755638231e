// Bytes of constants that a compilation holds.
#include "ir/held_constants.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "ir/error.h"
#include "ir/graph.h"
#include "ir/ops/op.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

constexpr double kMegabyte = 1 << 20;

TensorPtr bytes(int64_t count) { return std::make_shared<Tensor>(DType::U8, std::vector<int64_t>{count}); }

TEST(HeldConstants, AreNotCountedOutside) {
  EXPECT_FALSE(constants_are_counted());
  EXPECT_TRUE(may_hold(1e12));
  EXPECT_TRUE(may_compute(1e12));
  const TensorPtr tensor = bytes(1000);
  EXPECT_EQ(held(tensor, "a"), tensor);
}

TEST(HeldConstants, AreCountedOnceUntilTheyAreFreed) {
  const HeldConstants counting(0);
  TensorPtr first = held(bytes(100 << 20), "a");
  EXPECT_EQ(held(first, "a"), first);
  EXPECT_TRUE(may_hold(28 * kMegabyte));
  EXPECT_FALSE(may_hold(29 * kMegabyte));
  {
    const HeldConstants inner(1 << 30);  // of which nothing is known outside
    EXPECT_FALSE(may_hold(29 * kMegabyte));
  }
  EXPECT_TRUE(constants_are_counted());
  Graph graph;
  graph.name = "g";
  const ValueId id = graph.add_constant("copy", first);
  const Tensor* place = first.get();
  EXPECT_EQ(graph[id].constant.get(), place);
  first.reset();
  EXPECT_FALSE(may_hold(29 * kMegabyte));
  std::thread([&] { graph[id].constant.reset(); }).join();
  EXPECT_TRUE(may_hold(128 * kMegabyte));
}

TEST(HeldConstants, MayBeMoreWhereMoreWasRead) {
  const HeldConstants counting(10 << 20);
  EXPECT_TRUE(may_hold(158 * kMegabyte));
  EXPECT_FALSE(may_hold(159 * kMegabyte));
  note_bytes_read(10 << 20);
  EXPECT_TRUE(may_hold(188 * kMegabyte));
  EXPECT_TRUE(may_compute(4e8));
  EXPECT_FALSE(may_compute(4e8));
}

TEST(HeldConstants, BeyondTheLimitAreRefused) {
  const HeldConstants counting(0);
  Graph graph;
  graph.name = "g";
  graph.add_constant("a", bytes(100 << 20));
  try {
    graph.add_constant("table", bytes(30 << 20));
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    EXPECT_STREQ(
        error.what(),
        "'table' is a constant of 31457280 bytes, with which the constants of the model take more than 134217728 bytes while it is "
        "compiled (128 MB and 3 times what is read of its files); let the run compute it from an input, or make smaller constants");
  }
}

// A matrix of 4 MB that is reshaped, and transposed.
Graph chain() {
  Graph graph = parse_graph(
      "graph g {\n  input x f32[1000, 1000]\n  constant a f32[1000000] #0000000000000000\n"
      "  r f32[?] = Reshape(a) {shape = [1000, 1000]}\n  t f32[?] = Transpose(r)\n  y f32[?] = Add(x, t)\n  output y\n}\n");
  infer_shapes(graph);
  return graph;
}

bool is_constant(const Graph& graph, const char* name) { return graph[graph.find(name)].constant != nullptr; }

TEST(HeldConstants, OfAChainThatIsFoldedOneStays) {
  const HeldConstants counting(0);
  Graph graph = chain();
  fold_constants(graph);
  EXPECT_TRUE(is_constant(graph, "t") && !is_constant(graph, "r") && !is_constant(graph, "a"));
  EXPECT_EQ(graph.nodes.size(), 1u);
  EXPECT_TRUE(may_hold(124 * kMegabyte));
}

TEST(HeldConstants, WithoutRoomTheRunComputesThem) {
  const HeldConstants counting(0);
  Graph graph = chain();
  const TensorPtr other = held(bytes(122 << 20), "other");
  fold_constants(graph);
  EXPECT_TRUE(is_constant(graph, "r") && !is_constant(graph, "t"));
  EXPECT_EQ(graph.nodes.size(), 2u);
}

}  // namespace
}  // namespace tc
