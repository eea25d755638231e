// Orders of steps in which less memory is in use at once.
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "frontend/pipeline/plan_builder.h"
#include "frontend/pipeline/step_order.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/group.h"
#include "ir/passes/pass.h"

namespace tc {
namespace {

// Matrices of which only a product with a column is used, in an order that has all three at once.
constexpr const char* kBranches =
    "graph g {\n  input p f32[40, 1]\n  input x f32[1, 40]\n"
    "  a f32[?] = MatMul(p, x)\n  b f32[?] = MatMul(p, x)\n  c f32[?] = MatMul(p, x)\n"
    "  d f32[?] = MatMul(a, p)\n  e f32[?] = MatMul(b, p)\n  f f32[?] = MatMul(c, p)\n"
    "  s f32[?] = Sum(d, e, f)\n  output s\n}\n";

Graph graph_of(const std::string& lines) {
  Graph graph = parse_graph(lines);
  infer_shapes(graph);
  return graph;
}

int64_t bytes_of_value(const Graph& graph, ValueId id) {
  return element_count(*graph[id].shape).constant() * static_cast<int64_t>(size_of(graph[id].dtype));
}

std::string names(const Graph& graph, const std::vector<Group>& groups) {
  std::string result;
  for (const Group& group : groups) result += graph[group.outputs[0]].name;
  return result;
}

TEST(StepOrder, BranchesOneAfterTheOther) {
  const Graph graph = graph_of(kBranches);
  const std::vector<Group> groups = fuse_groups(graph);
  EXPECT_EQ(names(graph, groups), "abcefs");  // d is part of the sum
  const auto ordered = order_for_memory(graph, groups, [&](ValueId id) { return bytes_of_value(graph, id); });
  EXPECT_EQ(names(graph, ordered), "becfas");
}

TEST(StepOrder, KeepsTheModelsWhereNothingIsGained) {
  const Graph graph = graph_of(
      "graph g {\n  input x f32[8, 8]\n  a f32[?] = MatMul(x, x)\n  b f32[?] = MatMul(a, x)\n  c f32[?] = MatMul(x, a)\n"
      "  d f32[?] = Add(b, c)\n  output d\n}\n");
  const std::vector<Group> groups = fuse_groups(graph);
  const auto ordered = order_for_memory(graph, groups, [&](ValueId id) { return bytes_of_value(graph, id); });
  EXPECT_EQ(names(graph, ordered), names(graph, groups));
}

BuiltPlan built(const Graph& graph, int64_t limit) {
  BuildOptions options;
  options.target = parse_target("x86-64-v3");
  if (limit > 0) options.memory_limit = options.segment_limit = limit;
  return build_plan(graph, options);
}

TEST(StepOrder, IsTakenWhereMemoryIsShort) {
  const Graph graph = graph_of(kBranches);
  const BuiltPlan plain = built(graph, 0);
  const int64_t usual = memory_need(plain.plan, 1)->total();
  EXPECT_GT(usual, 3 * 6400);
  EXPECT_TRUE(plain.notes.empty());
  const BuiltPlan same = built(graph, usual);
  EXPECT_EQ(str(same.plan), str(plain.plan));
  const BuiltPlan thrifty = built(graph, usual - 1);
  const int64_t least = memory_need(thrifty.plan, 1)->total();
  EXPECT_LE(least, usual - 12000);
  ASSERT_EQ(thrifty.notes.size(), 1u);
  EXPECT_EQ(thrifty.notes[0], text("for max_ram the model runs its steps in another order: it needs ", least,
                                   " bytes, not ", usual));
  EXPECT_EQ(memory_need(built(graph, least).plan, 1)->total(), least);
}

TEST(StepOrder, RefusalsListWhatIsInUse) {
  const Graph graph = graph_of(kBranches);
  try {
    built(graph, 100);
    FAIL() << "100 bytes are enough";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Unsupported);
    const std::string message = error.what();
    EXPECT_NE(message.find(" to work in, but it may use 100 at most; most is in use in step '"),
              std::string::npos)
        << message;
    EXPECT_TRUE(std::regex_search(message, std::regex("'rows of \\w' \\(\\d+ bytes\\)"))) << message;
    const std::regex least("; use smaller sizes or fewer threads, or give it at least (\\d+) by max_ram ");
    std::smatch found;
    ASSERT_TRUE(std::regex_search(message, found, least)) << message;
    const int64_t bytes = std::stoll(found[1]);
    EXPECT_EQ(memory_need(built(graph, bytes).plan, 1)->total(), bytes);
  }
}

}  // namespace
}  // namespace tc
