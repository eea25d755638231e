// The interpreters against plain C++ loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/error.h"
#include "ir/loop.h"
#include "ir/scheduled.h"

namespace tc {
namespace {

Affine v(const std::string& name) { return Affine::variable(name); }

Access at(int buffer, const std::vector<Affine>& index) {
  Access access{buffer, {}};
  for (const Affine& affine : index) access.index.push_back({affine, nullptr});
  return access;
}

ExprPtr f32(int buffer, const std::vector<Affine>& index) { return load(DType::F32, buffer, index); }

// Deterministic values in [-1, 1).
Tensor filled(std::vector<int64_t> shape, uint32_t seed) {
  Tensor tensor(DType::F32, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    seed = seed * 1664525 + 1013904223;
    tensor.set(i, static_cast<double>(seed >> 8) / (1 << 23) - 1);
  }
  return tensor;
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// 3x3 convolution, stride 2, padding 1, 4 -> 6 channels on 9x7, then bias and relu.
Kernel convolution() {
  Kernel kernel;
  kernel.name = "conv";
  kernel.buffers = {{"I", DType::F32, {4, 9, 7}, Scope::Input, ""},
                    {"K", DType::F32, {6, 4, 3, 3}, Scope::Constant, ""},
                    {"B", DType::F32, {6}, Scope::Constant, ""},
                    {"O", DType::F32, {6, 5, 4}, Scope::Output, ""},
                    {"T", DType::F32, {6, 5, 4}, Scope::Local, ""}};
  std::vector<Iterator> outer{{"f", 6}, {"y", 5}, {"x", 4}};
  std::vector<Iterator> all = outer;
  all.insert(all.end(), {{"c", 4}, {"r", 3}, {"s", 3}});
  std::vector<Affine> place{v("f"), v("y"), v("x")};
  Affine row = v("y") * 2 + v("r") - 1, column = v("x") * 2 + v("s") - 1;
  kernel.statements.push_back({"init", outer, {}, at(4, place), Reduction::None, constant(DType::F32, 0)});
  kernel.statements.push_back(
      {"macc",
       all,
       {row, Affine(8) - row, column, Affine(6) - column},
       at(4, place),
       Reduction::Sum,
       binary(BinaryOp::Mul, f32(0, {v("c"), row, column}), f32(1, {v("f"), v("c"), v("r"), v("s")}))});
  kernel.statements.push_back({"tail",
                               outer,
                               {},
                               at(3, place),
                               Reduction::None,
                               binary(BinaryOp::Max, binary(BinaryOp::Add, f32(4, place), f32(2, {v("f")})),
                                      constant(DType::F32, 0))});
  return kernel;
}

std::map<std::string, Tensor> convolution_inputs() {
  return {{"I", filled({4, 9, 7}, 1)}, {"K", filled({6, 4, 3, 3}, 2)}, {"B", filled({6}, 3)}};
}

std::vector<double> convolution_by_hand(const std::map<std::string, Tensor>& in) {
  std::vector<double> result;
  for (int f = 0; f < 6; ++f) {
    for (int y = 0; y < 5; ++y) {
      for (int x = 0; x < 4; ++x) {
        double sum = 0;
        for (int c = 0; c < 4; ++c) {
          for (int r = 0; r < 3; ++r) {
            for (int s = 0; s < 3; ++s) {
              int row = 2 * y + r - 1, column = 2 * x + s - 1;
              if (row < 0 || row >= 9 || column < 0 || column >= 7) continue;
              sum += in.at("I").as_double((c * 9 + row) * 7 + column) *
                     in.at("K").as_double(((f * 4 + c) * 3 + r) * 3 + s);
            }
          }
        }
        result.push_back(std::max(0.0, sum + in.at("B").as_double(f)));
      }
    }
  }
  return result;
}

void expect_near(const Tensor& tensor, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(tensor.count(), static_cast<int64_t>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(tensor.as_double(static_cast<int64_t>(i)), expected[i], tolerance) << "element " << i;
  }
}

TEST(Interpreter, ConvolutionWithPaddingStrideAndEpilogue) {
  auto buffers = convolution_inputs();
  buffers["O"] = Tensor(DType::F64, {6, 5, 4});
  interpret(convolution(), {}, buffers);
  expect_near(buffers["O"], convolution_by_hand(buffers), 1e-14);
  // Made by the interpreter: the output in the buffer's type.
  buffers.erase("O");
  interpret(convolution(), {}, buffers);
  EXPECT_EQ(buffers["O"].dtype, DType::F32);
  expect_near(buffers["O"], convolution_by_hand(buffers), 1e-6);
}

TEST(Interpreter, RoundsToStorageWhereAsked) {
  auto buffers = convolution_inputs();
  buffers["O"] = Tensor(DType::F64, {6, 5, 4});
  interpret(convolution(), {}, buffers, true);
  for (int64_t i = 0; i < buffers["O"].count(); ++i) {
    double value = buffers["O"].as_double(i);
    EXPECT_EQ(value, static_cast<double>(static_cast<float>(value)));
  }
}

TEST(Interpreter, SymbolicMatrixProduct) {
  Kernel kernel;
  kernel.name = "matmul";
  kernel.parameters = {{"p0", Dim::symbol("m"), 1, 100}};
  kernel.buffers = {{"A", DType::F32, {v("p0"), 5}, Scope::Input, ""},
                    {"B", DType::F32, {5, 3}, Scope::Input, ""},
                    {"C", DType::F32, {v("p0"), 3}, Scope::Output, ""}};
  kernel.statements.push_back({"init",
                               {{"i", v("p0")}, {"j", 3}},
                               {},
                               at(2, {v("i"), v("j")}),
                               Reduction::None,
                               constant(DType::F32, 0)});
  kernel.statements.push_back({"macc",
                               {{"i", v("p0")}, {"j", 3}, {"k", 5}},
                               {},
                               at(2, {v("i"), v("j")}),
                               Reduction::Sum,
                               binary(BinaryOp::Mul, f32(0, {v("i"), v("k")}), f32(1, {v("k"), v("j")}))});
  for (int64_t m : {1, 7}) {
    std::map<std::string, Tensor> buffers{{"A", filled({m, 5}, 4)}, {"B", filled({5, 3}, 5)}};
    interpret(kernel, {{"p0", m}}, buffers);
    std::vector<double> expected;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < 3; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 5; ++k) {
          sum += buffers["A"].as_double(i * 5 + k) * buffers["B"].as_double(k * 3 + j);
        }
        expected.push_back(sum);
      }
    }
    expect_near(buffers["C"], expected, 1e-6);
    EXPECT_EQ(flop_count(kernel, {{"p0", m}}), 2.0 * static_cast<double>(m) * 15);
  }
}

TEST(Interpreter, Softmax) {
  Kernel kernel;
  kernel.buffers = {{"X", DType::F32, {3, 8}, Scope::Input, ""},
                    {"Y", DType::F32, {3, 8}, Scope::Output, ""},
                    {"M", DType::F32, {3}, Scope::Local, ""},
                    {"S", DType::F32, {3}, Scope::Local, ""}};
  std::vector<Iterator> rows{{"i", 3}}, all{{"i", 3}, {"j", 8}};
  auto x = f32(0, {v("i"), v("j")});
  auto e = unary(UnaryOp::Exp, binary(BinaryOp::Sub, x, f32(2, {v("i")})));
  kernel.statements = {
      {"m0", rows, {}, at(2, {v("i")}), Reduction::None, identity(Reduction::Max, DType::F32)},
      {"m", all, {}, at(2, {v("i")}), Reduction::Max, x},
      {"s0", rows, {}, at(3, {v("i")}), Reduction::None, identity(Reduction::Sum, DType::F32)},
      {"s", all, {}, at(3, {v("i")}), Reduction::Sum, e},
      {"y", all, {}, at(1, {v("i"), v("j")}), Reduction::None, binary(BinaryOp::Div, e, f32(3, {v("i")}))}};
  std::map<std::string, Tensor> buffers{{"X", filled({3, 8}, 6)}};
  interpret(kernel, {}, buffers);
  std::vector<double> expected;
  for (int i = 0; i < 3; ++i) {
    double sum = 0;
    for (int j = 0; j < 8; ++j) sum += std::exp(buffers["X"].as_double(i * 8 + j));
    for (int j = 0; j < 8; ++j) expected.push_back(std::exp(buffers["X"].as_double(i * 8 + j)) / sum);
  }
  expect_near(buffers["Y"], expected, 1e-7);
}

// A kernel that stores one value of the type.
Tensor single(const ExprPtr& value) {
  Kernel kernel;
  kernel.buffers = {{"O", value->dtype, {1}, Scope::Output, ""}};
  kernel.statements = {{"s", {}, {}, at(0, {0}), Reduction::None, value}};
  std::map<std::string, Tensor> buffers;
  interpret(kernel, {}, buffers);
  return buffers["O"];
}

int64_t integer_result(DType dtype, BinaryOp op, int64_t a, int64_t b) {
  return single(binary(op, int_constant(dtype, a), int_constant(dtype, b))).as_int(0);
}

TEST(Interpreter, IntegersWrapAndDivideAsStated) {
  EXPECT_EQ(integer_result(DType::I8, BinaryOp::Add, 127, 1), -128);
  EXPECT_EQ(integer_result(DType::U8, BinaryOp::Sub, 0, 1), 255);
  EXPECT_EQ(integer_result(DType::I32, BinaryOp::Mul, 1 << 30, 4), 0);
  EXPECT_EQ(integer_result(DType::I32, BinaryOp::Div, -7, 2), -3);
  EXPECT_EQ(integer_result(DType::I32, BinaryOp::Div, 7, 0), 0);
  int64_t smallest = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(integer_result(DType::I64, BinaryOp::Div, smallest, -1), smallest);
  EXPECT_EQ(integer_result(DType::I32, BinaryOp::Mod, -7, 3), 2);
  EXPECT_EQ(integer_result(DType::I32, BinaryOp::Mod, 7, -3), -2);
  EXPECT_EQ(integer_result(DType::I32, BinaryOp::Fmod, -7, 3), -1);
  EXPECT_EQ(integer_result(DType::U64, BinaryOp::Div, -1, 2), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(integer_result(DType::I32, BinaryOp::Shl, 1, 32), 0);
  EXPECT_EQ(integer_result(DType::U8, BinaryOp::Shr, 0x80, 7), 1);
  EXPECT_EQ(integer_result(DType::I8, BinaryOp::Shr, -128, 7), -1);
  EXPECT_EQ(integer_result(DType::I32, BinaryOp::Pow, 3, 4), 81);
  EXPECT_EQ(integer_result(DType::I32, BinaryOp::Pow, 2, -1), 0);
  EXPECT_EQ(integer_result(DType::U64, BinaryOp::Lt, 1, -1), 1);
}

TEST(Interpreter, FloatsFollowIeee) {
  double nan = NAN, infinity = INFINITY;
  auto value = [](BinaryOp op, double a, double b) {
    return single(binary(op, constant(DType::F64, a), constant(DType::F64, b))).as_double(0);
  };
  EXPECT_TRUE(std::isnan(value(BinaryOp::Max, nan, 1)));
  EXPECT_TRUE(std::isnan(value(BinaryOp::Min, 1, nan)));
  EXPECT_EQ(value(BinaryOp::Div, 1, 0), infinity);
  EXPECT_EQ(value(BinaryOp::Mod, -1, 3), 2);
  EXPECT_EQ(value(BinaryOp::Fmod, -1, 3), -1);
  auto round = [](double x) { return single(unary(UnaryOp::Round, constant(DType::F64, x))).as_double(0); };
  EXPECT_EQ(round(2.5), 2);
  EXPECT_EQ(round(3.5), 4);
  EXPECT_EQ(single(unary(UnaryOp::Sigmoid, constant(DType::F64, -1000))).as_double(0), 0);
}

TEST(Interpreter, CastsSaturate) {
  auto to = [](DType dtype, double x) { return single(cast(dtype, constant(DType::F64, x))).as_int(0); };
  EXPECT_EQ(to(DType::I8, 300), 127);
  EXPECT_EQ(to(DType::I8, -300), -128);
  EXPECT_EQ(to(DType::U8, -1), 0);
  EXPECT_EQ(to(DType::I32, -2.9), -2);
  EXPECT_EQ(to(DType::I64, 1e30), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(to(DType::I64, -1e30), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(to(DType::U64, 1e30), -1);
  EXPECT_EQ(to(DType::I32, NAN), 0);
  EXPECT_EQ(to(DType::Bool, NAN), 1);
}

TEST(Interpreter, GatherReadsAndScatterWritesThroughDynamicSubscripts) {
  Kernel kernel;
  kernel.buffers = {{"X", DType::F32, {4, 2}, Scope::Input, ""},
                    {"N", DType::I64, {3}, Scope::Input, ""},
                    {"Y", DType::F32, {4, 2}, Scope::Output, ""}};
  ExprPtr place = load(DType::I64, 1, std::vector<Affine>{v("i")});
  ExprPtr value = load(DType::F32, 0, std::vector<Subscript>{{1, place}, {v("j"), nullptr}});
  Access write{2, {{0, place}, {v("j"), nullptr}}};
  kernel.statements = {
      {"zero", {{"i", 4}, {"j", 2}}, {}, at(2, {v("i"), v("j")}), Reduction::None, constant(DType::F32, 0)},
      {"copy", {{"i", 3}, {"j", 2}}, {}, write, Reduction::None, value}};
  Tensor places(DType::I64, {3});
  for (int i = 0; i < 3; ++i) places.set_int(i, 2 - i);
  std::map<std::string, Tensor> buffers{{"X", filled({4, 2}, 8)}, {"N", places}};
  interpret(kernel, {}, buffers);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(buffers["Y"].as_double(2 * i), buffers["X"].as_double(2 * (i + 1)));
  }
  EXPECT_EQ(buffers["Y"].as_double(6), 0);
  buffers["N"].set_int(1, 3);
  EXPECT_TRUE(contains(error_of([&] { interpret(kernel, {}, buffers); }),
                       "statement 'copy' at [i=1, j=0]: index 4 of dimension 0 of buffer 'X' is "
                       "outside 0 .. 3"));
}

TEST(Interpreter, SelectEvaluatesOneSide) {
  Kernel kernel;
  kernel.buffers = {{"X", DType::F32, {3}, Scope::Input, ""}, {"Y", DType::F32, {5}, Scope::Output, ""}};
  ExprPtr inside = binary(BinaryOp::Lt, index_value(v("i")), int_constant(DType::I64, 3));
  kernel.statements = {{"pad",
                        {{"i", 5}},
                        {},
                        at(1, {v("i")}),
                        Reduction::None,
                        select(inside, f32(0, {v("i")}), constant(DType::F32, 7))}};
  std::map<std::string, Tensor> buffers{{"X", filled({3}, 9)}};
  interpret(kernel, {}, buffers);
  EXPECT_EQ(buffers["Y"].as_double(2), buffers["X"].as_double(2));
  EXPECT_EQ(buffers["Y"].as_double(3), 7);
}

TEST(Interpreter, SaysWhichAccessLeavesItsBuffer) {
  Kernel kernel = convolution();
  kernel.statements[1].constraints.clear();
  auto buffers = convolution_inputs();
  std::string message = error_of([&] { interpret(kernel, {}, buffers); });
  EXPECT_TRUE(contains(message,
                       "statement 'macc' at [f=0, y=0, x=0, c=0, r=0, s=0]: index -1 of "
                       "dimension 1 of buffer 'I' is outside 0 .. 8"))
      << message;
}

TEST(Interpreter, UnwrittenElementsArePoison) {
  Kernel kernel;
  kernel.buffers = {{"Y", DType::F32, {2}, Scope::Output, ""}};
  kernel.statements = {{"s", {}, {}, at(0, {0}), Reduction::None, constant(DType::F32, 1)}};
  std::map<std::string, Tensor> buffers;
  interpret(kernel, {}, buffers);
  EXPECT_TRUE(std::isnan(buffers["Y"].as_double(1)));
}

// The convolution tiled: x by 3 with a tail, f as a vector of 2, accumulators in registers.
ScheduledKernel scheduled_convolution() {
  ScheduledKernel scheduled;
  scheduled.kernel = convolution();
  scheduled.kernel.buffers[4].scope = Scope::Register;
  auto leaf = std::make_shared<LoopNode>();
  leaf->kind = LoopNode::Kind::Leaf;
  leaf->name = "tile";
  TileLoop c{"c", TileLoop::Kind::Serial, 4, {}, 1, 2}, r{"r", TileLoop::Kind::Serial, 3, {}, 1, 1};
  TileLoop s{"s", TileLoop::Kind::Serial, -1, Affine(3), 1, 1};
  TileLoop xi{"xi", TileLoop::Kind::Unroll, 3, {}, 1}, fi{"fi", TileLoop::Kind::Vector, 2, {}, 1};
  std::map<std::string, Affine> outer{
      {"f", v("fo") * 2 + v("fi")}, {"y", v("yo")}, {"x", v("xo") * 3 + v("xi")}};
  std::map<std::string, Affine> all = outer;
  for (const char* name : {"c", "r", "s"}) all[name] = v(name);
  Affine tail = Affine(3) - v("xo") * 3 - v("xi");
  std::vector<Affine> constraints{tail};
  for (const Affine& padding : scheduled.kernel.statements[1].constraints) {
    constraints.push_back(padding.substitute(outer));
  }
  leaf->statements = {
      {0, {xi, fi}, outer, {tail}}, {1, {c, r, s, xi, fi}, all, constraints}, {2, {xi, fi}, outer, {tail}}};
  LoopNodePtr node = leaf;
  for (auto [name, last] : {std::pair{"xo", 1}, {"yo", 4}, {"fo", 2}}) {
    auto loop = std::make_shared<LoopNode>();
    loop->kind = LoopNode::Kind::For;
    loop->variable = name;
    loop->lower = loop_constant(0);
    loop->upper = loop_constant(last);
    if (std::string(name) == "fo") loop->marks.push_back({"parallel", 0, {}});
    loop->children = {node};
    node = loop;
  }
  scheduled.root = node;
  return scheduled;
}

TEST(ScheduledInterpreter, RunsTilesTailsAndRegisters) {
  auto buffers = convolution_inputs();
  interpret(scheduled_convolution(), {}, buffers);
  expect_near(buffers["O"], convolution_by_hand(buffers), 1e-6);
}

TEST(ScheduledInterpreter, ConstraintsCount) {
  ScheduledKernel scheduled = scheduled_convolution();
  const LoopNode* node = scheduled.root.get();
  while (node->kind != LoopNode::Kind::Leaf) node = node->children[0].get();
  const_cast<LoopNode*>(node)->statements[2].constraints.clear();
  auto buffers = convolution_inputs();
  std::string message = error_of([&] { interpret(scheduled, {}, buffers); });
  EXPECT_TRUE(contains(message, "index 4 of dimension 2 of buffer")) << message;
}

TEST(ScheduledInterpreter, RegistersDoNotOutliveTheirLeaf) {
  ScheduledKernel scheduled = scheduled_convolution();
  auto init = std::make_shared<LoopNode>();
  LoopNode* node = scheduled.root.get();
  while (node->children[0]->kind != LoopNode::Kind::Leaf) node = node->children[0].get();
  *init = *node->children[0];
  init->statements.resize(1);
  auto rest = std::make_shared<LoopNode>(*node->children[0]);
  rest->statements.erase(rest->statements.begin());
  auto block = std::make_shared<LoopNode>();
  block->kind = LoopNode::Kind::Block;
  block->children = {init, rest};
  node->children = {block};
  auto buffers = convolution_inputs();
  std::string message = error_of([&] { interpret(scheduled, {}, buffers); });
  EXPECT_TRUE(contains(message, "of register buffer 'T' is read before this leaf writes it")) << message;
}

TEST(ScheduledInterpreter, ConditionsGuardAndBoundsFollowVariables) {
  ScheduledKernel scheduled = scheduled_convolution();
  LoopNodePtr inner = scheduled.root->children[0];
  auto guard = std::make_shared<LoopNode>();
  guard->kind = LoopNode::Kind::If;
  guard->condition = loop_expr(LoopExpr::Kind::Le, {loop_variable("fo"), loop_constant(0)});
  guard->children = {inner};
  scheduled.root->children = {guard};
  auto buffers = convolution_inputs();
  interpret(scheduled, {}, buffers);
  EXPECT_FALSE(std::isnan(buffers["O"].as_double(39)));
  EXPECT_TRUE(std::isnan(buffers["O"].as_double(40)));
}

TEST(ScheduledKernel, Prints) {
  EXPECT_EQ(str(scheduled_convolution()),
            "kernel conv\n"
            "  input I f32[4, 9, 7]\n"
            "  constant K f32[6, 4, 3, 3]\n"
            "  constant B f32[6]\n"
            "  output O f32[6, 5, 4]\n"
            "  register T f32[6, 5, 4]\n"
            "  init[f:6, y:5, x:4]: T[f, y, x] = 0\n"
            "  macc[f:6, y:5, x:4, c:4, r:3, s:3] where 2*y + r - 1 >= 0, -2*y - r + 9 >= 0, "
            "2*x + s - 1 >= 0, -2*x - s + 7 >= 0: T[f, y, x] += I[c, 2*y + r - 1, 2*x + s - 1] * "
            "K[f, c, r, s]\n"
            "  tail[f:6, y:5, x:4]: O[f, y, x] = max(T[f, y, x] + B[f], 0)\n"
            "loops\n"
            "  parallel for fo = 0 .. 2\n"
            "    for yo = 0 .. 4\n"
            "      for xo = 0 .. 1\n"
            "        leaf tile\n"
            "          init[f=2*fo + fi, y=yo, x=3*xo + xi] for unroll xi:3, vector fi:2 where "
            "-3*xo - xi + 3 >= 0\n"
            "          macc[f=2*fo + fi, y=yo, x=3*xo + xi, c=c, r=r, s=s] for serial c:4 unroll 2, "
            "serial r:3, serial s:(3), unroll xi:3, vector fi:2 where -3*xo - xi + 3 >= 0, "
            "2*yo + r - 1 >= 0, -2*yo - r + 9 >= 0, 6*xo + 2*xi + s - 1 >= 0, "
            "-6*xo - 2*xi - s + 7 >= 0\n"
            "          tail[f=2*fo + fi, y=yo, x=3*xo + xi] for unroll xi:3, vector fi:2 where "
            "-3*xo - xi + 3 >= 0\n");
}

TEST(LoopExpr, PrintsAndEvaluates) {
  using Kind = LoopExpr::Kind;
  auto c0 = loop_variable("c0"), n = loop_variable("n");
  auto e = loop_expr(Kind::Min, {loop_expr(Kind::FloorDiv, {loop_expr(Kind::Sub, {n, c0}), loop_constant(4)}),
                                 loop_expr(Kind::Mul, {loop_expr(Kind::Add, {c0, loop_constant(1)}), n})});
  EXPECT_EQ(str(*e), "min(floor((n - c0)/4), (c0 + 1)*n)");
  EXPECT_EQ(evaluate(*e, {{"c0", 9}, {"n", 4}}), -2);
  auto remainder = loop_expr(Kind::Mod, {c0, loop_constant(4)});
  EXPECT_EQ(evaluate(*remainder, {{"c0", -1}}), 3);
  auto condition = loop_expr(
      Kind::And, {loop_expr(Kind::Lt, {c0, n}), loop_expr(Kind::Eq, {remainder, loop_constant(0)})});
  EXPECT_EQ(str(*condition), "c0 < n and mod(c0, 4) == 0");
  EXPECT_EQ(evaluate(*condition, {{"c0", 4}, {"n", 5}}), 1);
  EXPECT_EQ(evaluate(*condition, {{"c0", 5}, {"n", 5}}), 0);
}

TEST(Flops, CountsTheConstrainedDomain) {
  // Of 5 rows x 3 taps two lie outside (one at each end), of 4 columns x 3 taps likewise.
  EXPECT_EQ(flop_count(convolution(), {}), 2.0 * 6 * 4 * (5 * 3 - 2) * (4 * 3 - 2) + 2.0 * 6 * 5 * 4);
}

TEST(Pack, BlocksChannelsAndFillsTheRest) {
  Kernel kernel;
  kernel.buffers = {{"P", DType::F32, {2, 3, 4}, Scope::Constant, ""}};
  Packing packing{"P", {"fo", "c", "fi"}, {6, 3}, {v("fo") * 4 + v("fi"), v("c")}, 0.5, {}, "", "", {}, ""};
  Tensor original = filled({6, 3}, 11);
  Tensor packed = pack(packing, kernel, original);
  EXPECT_EQ(packed.shape, (std::vector<int64_t>{2, 3, 4}));
  for (int fo = 0; fo < 2; ++fo) {
    for (int c = 0; c < 3; ++c) {
      for (int fi = 0; fi < 4; ++fi) {
        int f = 4 * fo + fi;
        double expected = f < 6 ? original.as_double(f * 3 + c) : 0.5;
        EXPECT_EQ(packed.as_double((fo * 3 + c) * 4 + fi), expected);
      }
    }
  }
}

}  // namespace
}  // namespace tc
