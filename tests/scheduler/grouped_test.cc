// Default schedules of convolutions in groups: what they compute, as loops and as machine code, and that
// they have register tiles, lanes and threads.
#include <gtest/gtest.h>

#include <functional>

#include "frontend/pipeline/layout.h"
#include "ir/error.h"
#include "ir/ops/op.h"
#include "tests/codegen_harness.h"
#include "tests/scheduler_kernels.h"

namespace tc {
namespace {

struct Grouped {
  int64_t groups, inputs, outputs;  // channels of one group
  int64_t size, stride, window;
  bool blocked;  // arguments in the blocks of the target
};

std::string name_of(const Grouped& g) {
  return text(g.groups, "x", g.inputs, "to", g.outputs, "_", g.window, "x", g.window, "_by", g.stride, "_of",
              g.size, g.blocked ? "_blocked" : "");
}

std::string times(int64_t factor, const std::string& name) {
  return factor == 1 ? name : text(factor, "*", name);
}

// "Same" padding; an epilogue with a bias, and the activation that networks have.
Kernel kernel_of(const Grouped& g) {
  const int64_t out = (g.size + g.stride - 1) / g.stride, pad = g.window / 2, end = g.size - 1 + pad;
  const int64_t c = g.groups * g.inputs, f = g.groups * g.outputs;
  const std::string y = times(g.stride, "y"), x = times(g.stride, "x");
  std::string where;
  if (pad > 0) {
    where = text(" where ", y, " + r - ", pad, " >= 0, ", end, " - r - ", y, " >= 0, ", x, " + s - ", pad,
                 " >= 0, ", end, " - s - ", x, " >= 0");
  }
  const std::string shift = pad > 0 ? text(" - ", pad) : "";
  return parse_kernel(
      text("kernel \"", name_of(g), "\"\n  input I f32[1, ", c, ", ", g.size, ", ", g.size,
           "]\n  constant K f32[", f, ", ", g.inputs, ", ", g.window, ", ", g.window, "]\n  constant B f32[",
           f, "]\n  output O f32[1, ", f, ", ", out, ", ", out, "]\n  local T f32[1, ", f, ", ", out, ", ",
           out, "]\n  init[g:", g.groups, ", f:", g.outputs, ", y:", out, ", x:", out, "]: T[0, ",
           times(g.outputs, "g"), " + f, y, x] = 0\n  macc[g:", g.groups, ", f:", g.outputs, ", y:", out,
           ", x:", out, ", c:", g.inputs, ", r:", g.window, ", s:", g.window, "]", where, ": T[0, ",
           times(g.outputs, "g"), " + f, y, x] += I[0, ", times(g.inputs, "g"), " + c, ", y, " + r", shift,
           ", ", x, " + s", shift, "] * K[", times(g.outputs, "g"), " + f, c, r, s]\n  tail[f:", f,
           ", y:", out, ", x:", out, "]: O[0, f, y, x] = max(T[0, f, y, x] + B[f], 0)\n"));
}

std::vector<std::string> layout_lines(const Grouped& g, const Target& target) {
  if (!g.blocked) return {};
  return {text("layout I 1 ", target.block), text("layout O 1 ", target.block)};
}

// Whether the layouts are of whole blocks that a target of such blocks has.
bool fits(const Grouped& g, const Target& target) {
  return !g.blocked || (g.groups * g.inputs % target.block == 0 && g.groups * g.outputs % target.block == 0);
}

const Grouped kCases[] = {
    {8, 2, 2, 6, 1, 3, true},     {8, 4, 4, 6, 1, 3, true},    {8, 4, 4, 7, 2, 3, true},
    {6, 8, 8, 6, 1, 3, true},     {4, 8, 8, 7, 2, 3, true},    {4, 8, 8, 5, 1, 1, true},
    {4, 8, 8, 6, 1, 5, true},     {2, 16, 16, 6, 1, 3, true},  {2, 16, 16, 7, 2, 3, true},
    {2, 32, 32, 5, 1, 3, true},   {4, 8, 16, 5, 1, 3, true},   {4, 4, 32, 4, 1, 3, true},
    {4, 4, 4, 6, 2, 3, false},    {4, 8, 8, 9, 2, 3, false},   {3, 24, 24, 6, 2, 3, false},
    {3, 24, 24, 18, 1, 3, false}, {4, 12, 12, 6, 2, 3, false}, {4, 6, 6, 7, 2, 3, false},
    {2, 5, 7, 6, 1, 3, false},    {2, 32, 32, 7, 1, 3, false},
};

class GroupedConvolution : public ::testing::TestWithParam<Grouped> {};

TEST_P(GroupedConvolution, ComputesTheSame) {
  const Kernel kernel = kernel_of(GetParam());
  verify(kernel);
  for (const char* name : {"x86-64-v4", "x86-64-v3", "rv64gcv", "rv64gc"}) {
    const Target target = parse_target(name);
    if (!fits(GetParam(), target)) continue;
    SCOPED_TRACE(name);
    for (int threads : {1, 2}) {
      const Schedule schedule = default_schedule(kernel, target, threads, layout_lines(GetParam(), target));
      EXPECT_EQ(schedule.check(), std::nullopt);
      EXPECT_EQ(testing::difference(kernel, schedule, 5), "") << str(schedule.finish());
      EXPECT_EQ(str(parse_kernel(str(schedule.kernel()))), str(schedule.kernel()));
    }
  }
}

TEST_P(GroupedConvolution, ComputesTheSameAsMachineCode) {
  const Kernel kernel = kernel_of(GetParam());
  for (const Target& target : testing::host_targets()) {
    if (!fits(GetParam(), target)) continue;
    SCOPED_TRACE(target.name);
    const Schedule schedule = default_schedule(kernel, target, 2, layout_lines(GetParam(), target));
    const auto run = [&](const ScheduledKernel& scheduled, std::map<std::string, Tensor>& tensors) {
      testing::run_compiled(scheduled, target, {}, tensors, 2);
    };
    EXPECT_EQ(testing::difference(kernel, schedule, 6, {}, run, 1e-5), "") << str(schedule.finish());
  }
}

// What the loops have: accumulators of the sum in one leaf with its initialisation and its epilogue, lanes,
// and trips of the parallel loops.
struct Shape {
  int64_t accumulators = 0, lanes = 1, parallel = 1;
  size_t statements = 0;
};

Shape shape_of(const ScheduledKernel& scheduled) {
  Shape shape;
  const std::function<void(const LoopNode&)> visit = [&](const LoopNode& node) {
    if (node.kind == LoopNode::Kind::For && node.is_parallel()) {
      shape.parallel *= evaluate(*node.upper, {}) - evaluate(*node.lower, {}) + 1;
    }
    for (const TileStatement& tile : node.statements) {
      const Statement& statement = scheduled.kernel.statements[static_cast<size_t>(tile.statement)];
      if (statement.name != "macc") continue;
      int64_t accumulators = 1;
      for (const TileLoop& loop : tile.loops) {
        bool moves = false;
        for (const Subscript& subscript : statement.write.index) {
          moves = moves || subscript.affine.substitute(tile.iterators).coefficient(loop.name) != 0;
        }
        if (moves && loop.kind == TileLoop::Kind::Unroll) accumulators *= loop.extent;
        if (moves && loop.kind == TileLoop::Kind::Vector) shape.lanes = loop.extent;
      }
      shape.accumulators = std::max(shape.accumulators, accumulators);
      shape.statements = std::max(shape.statements, node.statements.size());
    }
    for (const LoopNodePtr& child : node.children) visit(*child);
  };
  visit(*scheduled.root);
  return shape;
}

TEST_P(GroupedConvolution, HasATileLanesAndThreads) {
  const Kernel kernel = kernel_of(GetParam());
  for (const char* name : {"x86-64-v4", "x86-64-v3"}) {
    const Target target = parse_target(name);
    if (!fits(GetParam(), target)) continue;
    SCOPED_TRACE(name);
    const ScheduledKernel scheduled =
        default_schedule(kernel, target, 2, layout_lines(GetParam(), target)).finish();
    const Shape shape = shape_of(scheduled);
    EXPECT_GE(shape.accumulators, 3) << str(scheduled);
    EXPECT_EQ(shape.statements, 3u) << str(scheduled);  // with its initialisation and its epilogue
    EXPECT_GE(shape.lanes, 4) << str(scheduled);
    if (GetParam().blocked) {
      EXPECT_EQ(shape.lanes, target.block) << str(scheduled);
    }
    EXPECT_GE(shape.parallel, 2) << str(scheduled);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GroupedConvolution, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return name_of(info.param); });

// Reorders that a convolution of 64 channels in so many groups needs between others.
size_t reorders(int64_t groups, const std::string& target) {
  Graph graph = parse_graph(
      text("graph g {\n  input x f32[1, 3, 9, 9]\n  constant a f32[64, 3, 1, 1] #0\n  constant b f32[64, ",
           64 / groups,
           ", 3, 3] #0\n  constant c f32[16, 64, 1, 1] #0\n  p f32[?] = Conv(x, a)\n"
           "  q f32[?] = Conv(p, b) {group = ",
           groups, "}\n  y f32[?] = Conv(q, c)\n  output y\n}\n"));
  infer_shapes(graph);
  const Layouts layouts = choose_layouts(graph, parse_target(target));
  EXPECT_EQ(layouts.count(graph.nodes[0].outputs[0]), 1u);  // the first one's is in blocks
  size_t count = 0;
  for (const Node& node : graph.nodes) count += node.op->name == "Reorder";
  return count;
}

TEST(GroupedLayouts, BlocksOfWholeGroupsStay) {
  for (int64_t groups : {1, 4, 8, 16, 32, 64}) EXPECT_EQ(reorders(groups, "x86-64-v4"), 0u) << groups;
  for (int64_t groups : {8, 16}) EXPECT_EQ(reorders(groups, "x86-64-v3"), 0u) << groups;
  // Shuffles of long vectors are slow there.
  EXPECT_EQ(reorders(4, "rv64gcv"), 0u);
  EXPECT_EQ(reorders(8, "rv64gcv"), 2u);
}

TEST(GroupedLayouts, BlocksStayInTransposedConvolutions) {
  for (const auto& [groups, expected] : {std::pair(1, 0u), std::pair(2, 3u)}) {
    Graph graph = parse_graph(text(
        "graph g {\n  input x f32[1, 3, 9, 9]\n  constant a f32[32, 3, 1, 1] #0\n  constant b f32[32, ",
        32 / groups,
        ", 2, 2] #0\n  constant c f32[16, 64, 1, 1] #0\n  constant d f32[32, 3, 1, 1] #0\n  p f32[?] = Conv(x, a)\n"
        "  q f32[?] = ConvTranspose(p, b) {strides = [2, 2], group = ",
        groups,
        "}\n"
        "  r f32[?] = Conv(x, d) {pads = [4, 4, 5, 5]}\n  all f32[?] = Concat(q, r) {axis = 1}\n"
        "  y f32[?] = Conv(all, c)\n  output y\n}\n"));
    infer_shapes(graph);
    choose_layouts(graph, parse_target("x86-64-v4"));
    size_t count = 0;
    for (const Node& node : graph.nodes) count += node.op->name == "Reorder";
    EXPECT_EQ(count, expected) << groups;
  }
}

TEST(Layouts, HalfBlocksWhereAWholeOneWouldBeHalfInVain) {
  Graph graph = parse_graph(
      "graph g {\n  input x f32[1, 3, 9, 9]\n  constant a f32[24, 3, 1, 1] #0\n  constant b f32[32, 24, 1, 1] #0\n"
      "  constant c f32[24, 32, 1, 1] #0\n  constant d f32[1000, 24, 1, 1] #0\n  constant e f32[16, 1000, 1, 1] #0\n"
      "  p f32[?] = Conv(x, a)\n  q f32[?] = Conv(p, b)\n  r f32[?] = Conv(q, c)\n  s f32[?] = Add(p, r)\n"
      "  t f32[?] = Conv(s, d)\n  y f32[?] = Conv(t, e)\n  output y\n}\n");
  infer_shapes(graph);
  for (const auto& [target, half] : {std::pair("znver4", 8), std::pair("x86-64-v4", 16)}) {
    Graph copy = graph;
    const Layouts layouts = choose_layouts(copy, parse_target(target));
    std::vector<int> blocks;
    for (size_t i = 0; i < 5; ++i) blocks.push_back(layouts.at(graph.nodes[i].outputs[0]));
    EXPECT_EQ(blocks, (std::vector<int>{half, 16, half, half, 16})) << target;
  }
}

}  // namespace
}  // namespace tc
