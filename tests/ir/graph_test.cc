// Graphs: building, attributes, text form, verifier.
#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/plan.h"

namespace tc {
namespace {

template <class Run>
std::string error_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const char* const kText =
    "graph net {\n"
    "  symbol batch in [1, 64]\n"
    "  input x f32[batch, 3]\n"
    "  constant w f32[3, 100] #2a6bcb6b9b3cb925\n"
    "  constant b f32[2] = [0.5, -inf]\n"
    "  constant \"/axes\" i64[1] = [-1]\n"
    "  \"y/1\" f32[batch, 100] = MatMul(x, w) from \"gemm 1\" \"MatMul\" 13 \"net.onnx\"\n"
    "  s i64[2] elements [batch, 100] = Shape(\"y/1\")\n"
    "  y f32[?] = Relu(\"y/1\") {a = 3, b = 0.5, c = \"text\", d = [1, 2], e = floats[1.0, -inf], "
    "f = strings[\"p\"], g = tensor i8[2] = [1, -1], h = dims[batch, 4], i = graph body {\n"
    "    capture u f32[3] of \"outer \\\"u\\\"\"\n"
    "    v f32[3] = Relu(u)\n"
    "    output v\n"
    "  }}\n"
    "  output y s\n"
    "}\n";

TEST(GraphText, ReadsBack) {
  Graph graph = parse_graph(kText);
  std::string printed = str(graph);
  // The hash is that of the zeros which stand for the data.
  EXPECT_EQ(str(parse_graph(printed)), printed);
  std::string expected = kText;
  size_t hash = expected.find('#') + 1, other = printed.find('#') + 1;
  ASSERT_EQ(hash, other);
  expected.replace(hash, 16, printed.substr(other, 16));
  EXPECT_EQ(printed, expected);
  EXPECT_EQ(graph.symbols["batch"], (std::pair<int64_t, int64_t>{1, 64}));
  ASSERT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.nodes[0].origin.str(), "node 'gemm 1' (MatMul, opset 13) of net.onnx");
  EXPECT_EQ(graph[graph.find("s")].elements->at(1), Dim(100));
  EXPECT_EQ(std::get<GraphPtr>(graph.nodes[2].attributes["i"])->captures[0].first, "outer \"u\"");
}

// What a node finds, how many, and what has as many elements.
const char* const kSizes =
    "graph g {\n"
    "  size found of x_count in [0, 4*rows]\n"
    "  input x f32[rows, 4]\n"
    "  where i64[2, found], x_count i64[] elements [found] = NonZero(x) {\"symbol\" = \"found\"}\n"
    "  z f32[found] = ConstantOfShape() {shape = dims[found], value = tensor f32[1] = [1]}\n"
    "  output where z\n"
    "}\n";

TEST(GraphText, SizesReadBack) {
  const Graph graph = parse_graph(kSizes);
  EXPECT_EQ(str(graph), kSizes);
  EXPECT_EQ(graph.data_symbols.at("found").source, graph.find("x_count"));
  EXPECT_EQ(error_of([&] { verify(graph); }), "no error");
  EXPECT_NE(error_of([] {
              parse_graph("graph g {\n size n of m in [0, 3]\n input x f32[2]\n output x\n}");
            }).find("value 'm', which gives size 'n', is not defined"),
            std::string::npos);
  EXPECT_NE(error_of([] { parse_graph("graph g {\n size n in [0, 3]\n output\n}"); }).find("expected `of`"),
            std::string::npos);
}

TEST(GraphText, ErrorsSayWhere) {
  auto with = [](const std::string& line) {
    return error_of([&] { parse_graph("graph g {\n  input x f32[2]\n  " + line + "\n}\n"); });
  };
  EXPECT_EQ(with("y f32[2] = Relu(x)\n  output y"), "no error");
  EXPECT_EQ(with("y f32[2] = Relu(z)"),
            "graph text, line 3, column 20: value 'z' is not defined before this; found `)`");
  EXPECT_EQ(with("y f32[2] = Nothing(x)"),
            "graph text, line 3, column 21: there is no op 'Nothing'; found `(x)`");
  EXPECT_EQ(with("input x f32[2]"),
            "graph text, line 3, column 10: value 'x' is defined twice; found ` f32[2]`");
  EXPECT_EQ(with("constant c f32[2] = [1]"),
            "graph text, line 3, column 26: the constant has too few elements; found the end");
  EXPECT_EQ(with("constant c f32[n] = [1]"),
            "graph text, line 3, column 20: the shape of a constant holds symbols; found ` = [1]`");
}

TEST(Graph, ValuesAndTheirUsers) {
  Graph graph = parse_graph(
      "graph g {\n input x f32[2]\n y f32[2] = Relu(x)\n"
      " z f32[2] = Add(y, y)\n w f32[2] = Add(x, z)\n output w\n}");
  EXPECT_EQ(graph.producers(), (std::vector<int>{-1, 0, 1, 2}));
  EXPECT_EQ(graph.consumers()[0], (std::vector<int>{0, 2}));
  EXPECT_EQ(graph.consumers()[1], (std::vector<int>{1}));
  EXPECT_EQ(graph[graph.fresh_value("y", DType::F32)].name, "y_1");
  EXPECT_EQ(graph[graph.fresh_value("y", DType::F32)].name, "y_2");
  EXPECT_EQ(graph.find("nobody"), kNoValue);
  auto data = std::make_shared<Tensor>(DType::I64, std::vector<int64_t>{2});
  data->set_int(1, 7);
  ValueId id = graph.add_constant("c", data);
  EXPECT_EQ(graph[id].elements->at(1), Dim(7));
  EXPECT_EQ(str(*graph[id].shape), "[2]");
}

TEST(Graph, AttributesFallBackToTheRow) {
  OpRow row;
  row.name = "Thing";
  row.attributes = {{"axis", int64_t{-1}, false, ""},
                    {"pads", std::vector<int64_t>{1, 2}, false, ""},
                    {"must", int64_t{0}, true, ""}};
  Node node;
  node.op = &row;
  node.origin.node = "n";
  EXPECT_EQ(int_attribute(node, "axis"), -1);
  EXPECT_EQ(ints_attribute(node, "pads"), (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(has_attribute(node, "axis"));
  node.attributes["axis"] = int64_t{2};
  EXPECT_EQ(int_attribute(node, "axis"), 2);
  EXPECT_TRUE(has_attribute(node, "axis"));
  EXPECT_NE(error_of([&] { int_attribute(node, "none"); }).find("'none' of op Thing"), std::string::npos);
  EXPECT_NE(error_of([&] {
              int_attribute(node, "must");
            }).find("node 'n' lacks attribute 'must', which Thing needs"),
            std::string::npos);
  EXPECT_NE(error_of([&] { float_attribute(node, "axis"); }).find("is not a number"), std::string::npos);
}

TEST(GraphVerify, NamesTheRuleAndTheNode) {
  const std::string text =
      "graph g {\n input x f32[2]\n constant c f32[2] = [1, 2]\n"
      " y f32[2] = Relu(x) from \"relu\" \"Relu\" 14 \"m.onnx\"\n"
      " z f32[2] = Add(y, c) from \"add\" \"Add\" 14 \"m.onnx\"\n output z\n}";
  const Graph sound = parse_graph(text);
  EXPECT_EQ(error_of([&] { verify(sound); }), "no error");
  auto broken = [&](auto change) {
    Graph graph = sound;
    change(graph);
    return error_of([&] { verify(graph); });
  };
  EXPECT_EQ(broken([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }),
            "graph 'g', node 'add' (Add, opset 14) of m.onnx: input 'y' is read before it is defined");
  EXPECT_EQ(broken([](Graph& g) { g.nodes[1].outputs = g.nodes[0].outputs; }),
            "graph 'g', node 'add' (Add, opset 14) of m.onnx: value 'y' is defined twice");
  EXPECT_EQ(broken([](Graph& g) { g.nodes[1].inputs[0] = 99; }),
            "graph 'g', node 'add' (Add, opset 14) of m.onnx: an input refers to value 99, which does "
            "not exist");
  EXPECT_EQ(broken([](Graph& g) { g.nodes[0].inputs.clear(); }),
            "graph 'g', node 'relu' (Relu, opset 14) of m.onnx: op Relu does not take 0 inputs");
  EXPECT_EQ(broken([](Graph& g) { g[g.find("y")].name = "x"; }),
            "graph 'g': value 'x' has a name that is taken");
  EXPECT_EQ(broken([](Graph& g) { g[g.find("c")].dtype = DType::F64; }),
            "graph 'g': constant 'c' of type f64 has data of type f32");
  EXPECT_EQ(broken([](Graph& g) { g[g.find("z")].shape = Shape{3}; }),
            "graph 'g': node 'add' (Add, opset 14) of m.onnx: result 'z' has shape [3] but inference "
            "says [2]");
  EXPECT_EQ(broken([](Graph& g) { g.outputs[0] = g.add_value("lost", DType::F32); }),
            "graph 'g': output 'lost' is never defined");
}

TEST(GraphVerify, SizesComeFromTheirSources) {
  const Graph sound = parse_graph(kSizes);
  auto broken = [&](auto change) {
    Graph graph = sound;
    change(graph);
    return error_of([&] { verify(graph); });
  };
  EXPECT_EQ(broken([](Graph& g) { std::swap(g.nodes[0], g.nodes[1]); }),
            "graph 'g', node '': size 'found' is mentioned before 'x_count' gives it");
  EXPECT_EQ(broken([](Graph& g) { g.data_symbols["found"].source = g.find("where"); }),
            "graph 'g': value 'where' does not hold size 'found'");
  EXPECT_EQ(broken([](Graph& g) { g.data_symbols["found"].source = 77; }),
            "graph 'g': size 'found' refers to value 77, which does not exist");
  EXPECT_EQ(broken([](Graph& g) { g.symbols["found"] = {1, 2}; }),
            "graph 'g': size 'found' is a symbol of the inputs too");
}

TEST(Graph, SymbolsAreMentionedAndSubstituted) {
  Graph graph = parse_graph(kSizes);
  EXPECT_EQ(mentioned_symbols(graph, graph.nodes[0]), (std::set<std::string>{"found", "rows"}));
  EXPECT_EQ(mentioned_symbols(graph, graph.nodes[1]), (std::set<std::string>{"found"}));
  substitute_symbols(graph, {{"found", Dim(3)}, {"rows", Dim::symbol("n") * Dim(2)}});
  EXPECT_EQ(str(*graph[graph.find("where")].shape), "[2, 3]");
  EXPECT_EQ(graph.data_symbols.at("found").bound->str(), "8*n");
  EXPECT_EQ(str(dims_attribute(graph.nodes[1], "shape")), "[3]");
}

// Sizes in graphs that nothing has checked.
TEST(GraphInference, SizesThatDoNotFit) {
  auto refusal = [](const std::string& lines) {
    Graph graph = parse_graph("graph g {\n size n of s in [0, 3]\n" + lines + "\n}");
    return error_of([&] { infer_shapes(graph); });
  };
  EXPECT_EQ(refusal("input x i32[]\n s i64[?] = DataSize(x) {\"symbol\" = \"n\"}\n output s"),
            "node '': the size has type i32; i64 is needed");
  EXPECT_EQ(refusal("input s i64[]\n input x i64[]\n y i64[?] = DataSize(x) {\"symbol\" = \"m\"}\n output y"),
            "node '': names size 'm', which its graph does not declare");
  EXPECT_EQ(
      refusal(
          "input s i64[]\n input x bool[]\n y f32[?] = If(x) {sizes = strings[], shapes = dims[2], then_branch = graph a {\n"
          "constant k f32[1, 2] = [1, 2]\n output k\n }, else_branch = graph b {\n constant k f32[1, 2] = [1, 2]\n output k\n }}\n output y"),
      "node '': has results of a higher rank than attribute 'shapes' says");
  EXPECT_EQ(
      refusal(
          "input s i64[]\n input c f32[2, 3, 4, 5]\n input n i64[2, 4]\n input t f32[]\n y bool[?] = Suppress(c, n, t)\n output y"),
      "node '': corners of shape [2, 3, 4, 5] and counts of shape [2, 4] do not fit together");
}

TEST(Dim, LargestOverSomeSymbols) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m"), rows = Dim::symbol("rows");
  const std::map<std::string, Dim> bounds = {{"n", rows * Dim(4)}, {"m", Dim(7)}};
  auto most = [&](const Dim& dim) { return largest(dim, bounds).str(); };
  EXPECT_EQ(most(rows + Dim(1)), "rows + 1");
  EXPECT_EQ(most(n * m + Dim(2)), "28*rows + 2");
  EXPECT_EQ(most(rows - n), "rows");
  EXPECT_EQ(most(min(n, Dim(100))), min(rows * Dim(4), Dim(100)).str());
  EXPECT_EQ(most(max(m - Dim(9), Dim(3))), "3");
  EXPECT_EQ(most(ceil_div(m, Dim(4))), "2");
  EXPECT_EQ(most(floor_div(Dim(60), m)), "60");
  EXPECT_EQ(most(mod(n, Dim(5))), "4");
}

TEST(PlanText, PrintsStepsAndMemory) {
  Plan plan;
  plan.model = "net";
  plan.target = "x86-64-v3";
  plan.symbols["n"] = {1, 9};
  plan.inputs = {{"x", DType::F32, {Dim::symbol("n")}}};
  plan.outputs = {{"y", DType::F32, {4}}};
  plan.constants = {PlanConstant(std::make_shared<Tensor>(DType::F32, std::vector<int64_t>{8}))};
  plan.arena_bytes = Dim::symbol("n") * 4;
  plan.blocks = {{"t", 0, Dim::symbol("n") * 4, 0, 1}};
  PlanStep call;
  call.kernel = 0;
  call.locations = {{Location::Kind::Input, 0, 0}, {Location::Kind::Arena, 0, 64}};
  call.parameters = {Dim::symbol("n")};
  call.label = "relu";
  PlanStep copy;
  copy.kind = PlanStep::Kind::Copy;
  copy.bytes = 16;
  copy.locations = {{Location::Kind::Output, 0, 0}, {Location::Kind::Constant, 0, 16}};
  PlanStep loop;
  loop.kind = PlanStep::Kind::Loop;
  loop.symbol = "t";
  loop.trip = 3;
  loop.body = {call};
  plan.steps = {loop, copy};
  EXPECT_EQ(str(plan),
            "plan net for x86-64-v3\n"
            "symbol n in [1, 9]\n"
            "input x f32[n]\n"
            "output y f32[4]\n"
            "constant 0 f32[8] 32 bytes\n"
            "arena 4*n bytes, scratch 0 bytes\n"
            "block 0 t [0, +4*n) steps 0 .. 1\n"
            "steps\n"
            "  loop t < 3\n"
            "    call 0(input0, block0@[64]) with n  # relu\n"
            "  copy 16 bytes (output0, constant0[16])\n");
}

TEST(PlanText, PrintsBranchesBySizes) {
  Plan plan;
  plan.model = "net";
  plan.target = "x86-64-v3";
  PlanStep copy;
  copy.kind = PlanStep::Kind::Copy;
  copy.bytes = 16;
  copy.locations = {{Location::Kind::Output, 0, 0}, {Location::Kind::Input, 0, 0}};
  PlanStep branch;
  branch.kind = PlanStep::Kind::If;
  branch.sizes = {{Dim::symbol("m"), 1}, {Dim::symbol("n"), Dim::symbol("m") * 2}};
  branch.label = "sizes m = 1";
  branch.body = branch.otherwise = {copy};
  plan.steps = {branch};
  const std::string text = str(plan);
  EXPECT_EQ(text.substr(text.find("steps\n")),
            "steps\n"
            "  if m == 1, n == 2*m  # sizes m = 1\n"
            "    copy 16 bytes (output0, input0)\n"
            "  else\n"
            "    copy 16 bytes (output0, input0)\n");
}

}  // namespace
}  // namespace tc
