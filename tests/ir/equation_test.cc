// Rows whose inference and lowering is their equation: which have functions of their own all the same, what
// equations give, and their errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "ir/error.h"
#include "ir/evaluate.h"
#include "ir/graph.h"
#include "ir/ops/formula.h"
#include "ir/ops/op.h"

namespace tc {
namespace {

constexpr const char* kWindows =
    "sizes, strides and padding of windows are lists for one to three axes, from which inference and lowering "
    "make the equation of a node";
constexpr const char* kMaps = "maps have one to three axes, all of which are reduced";
constexpr const char* kMeans =
    "a mean or a norm is computed from the sum over a map, which has one to three axes";
constexpr const char* kAxes = "attributes name the axes";
constexpr const char* kTables =
    "the positions that are read, and their weights, are computed by a mode that an attribute gives";
constexpr const char* kCasts = "the result's type is an attribute or the type of another operand";
constexpr const char* kSines = "there is no operand: an attribute gives the number of elements";
constexpr const char* kScales =
    "the zero point may be left out, and scales are for all, an axis or blocks of it";

constexpr const char* kCausal = "attributes say how many products each row has";

// Rows that have an equation and yet functions of their own: `infer`, `lower` or both, and why the equation
// does not say it all.
struct HandWritten {
  const char* functions;
  const char* why;
};
const std::map<std::string, HandWritten> kHandWritten = {
    {"AffineGrid", {"infer, lower", "an attribute gives the size of the grid"}},
    {"AveragePool", {"infer, lower", kWindows}},
    {"BatchNormalization",
     {"infer, lower", "maps have any number of axes, and statistics may have a type of their own"}},
    {"BitShift",
     {"lower", "shifts by all bits or more have a result of their own, unless constants rule them out"}},
    {"BlackmanWindow", {"infer, lower", kSines}},
    {"Cast", {"infer, lower", kCasts}},
    {"CastLike", {"infer, lower", kCasts}},
    {"CausalScores", {"lower", kCausal}},
    {"CausalSum", {"lower", kCausal}},
    {"Clip", {"infer, lower", "either bound may be left out or be an attribute"}},
    {"Conv", {"infer, lower", kWindows}},
    {"ConvTranspose", {"infer, lower", kWindows}},
    {"CumProd", {"infer, lower", kAxes}},
    {"CumSum", {"infer, lower", kAxes}},
    {"DequantizeLinear", {"infer, lower", kScales}},
    {"Einsum", {"infer, lower", "the equation is an attribute"}},
    {"Frames",
     {"infer, lower", "the window may be left out, and then an attribute gives the length of a frame"}},
    {"Gather", {"infer, lower", "subscripts are elements of an operand, and an attribute names the axis"}},
    {"Gemm",
     {"infer, lower",
      "operands may be transposed, numbers scale them, and the sum may be added to a third one"}},
    {"GlobalAveragePool", {"infer, lower", kMeans}},
    {"GlobalLpPool", {"infer, lower", kMeans}},
    {"GlobalMaxPool", {"infer, lower", kMaps}},
    {"GridSample", {"infer, lower", kTables}},
    {"HammingWindow", {"infer, lower", kSines}},
    {"HannWindow", {"infer, lower", kSines}},
    {"IntegerConv", {"infer, lower", kWindows}},
    {"IntegerConvTranspose", {"infer, lower", kWindows}},
    {"IntegerGlobalPool", {"infer, lower", kMaps}},
    {"IntegerPool", {"infer, lower", kWindows}},
    {"LRN", {"infer, lower", "the window over the channels is as long as an attribute says"}},
    {"LogSoftmax", {"infer, lower", kAxes}},
    {"LpPool", {"infer, lower", kWindows}},
    {"MaxPool", {"infer, lower", kWindows}},
    {"Pow", {"lower", "constant exponents have shorter forms, and the operands may have two types"}},
    {"QuantizeLinear", {"infer, lower", kScales}},
    {"ReduceL1", {"infer, lower", kAxes}},
    {"ReduceL2", {"infer, lower", kAxes}},
    {"ReduceLogSum", {"infer, lower", kAxes}},
    {"ReduceMax", {"infer, lower", kAxes}},
    {"ReduceMean", {"infer, lower", kAxes}},
    {"ReduceMin", {"infer, lower", kAxes}},
    {"ReduceProd", {"infer, lower", kAxes}},
    {"ReduceSum", {"infer, lower", kAxes}},
    {"ReduceSumSquare", {"infer, lower", kAxes}},
    {"Resize", {"infer, lower", kTables}},
    {"RoiAlign", {"infer, lower", kTables}},
    {"RotateHalves", {"infer, lower", "a subscript falls where another one rises"}},
    {"Softmax", {"infer, lower", kAxes}},
};

// The functions of its own that a row with an equation has.
std::string functions_of(const OpRow& row) {
  return row.infer && row.lower ? "infer, lower" : row.infer ? "infer" : row.lower ? "lower" : "";
}

TEST(Equations, RowsThatHaveFunctionsAllTheSameAreListed) {
  for (const auto& [name, row] : op_table()) {
    if (row.equation.empty()) continue;
    const auto listed = kHandWritten.find(name);
    const std::string functions = functions_of(row);
    if (listed == kHandWritten.end()) {
      EXPECT_EQ(functions, "") << name << " has the equation `" << row.equation
                               << "` and functions: delete these, or list the row and say why it needs them";
    } else {
      EXPECT_EQ(functions, listed->second.functions) << name << " is listed with other functions";
      EXPECT_STRNE(listed->second.why, "") << name;
    }
  }
  for (const auto& [name, why] : kHandWritten) {
    const OpRow* row = find_op(name);
    EXPECT_TRUE(row && !row->equation.empty()) << name << " is listed and is no row with an equation";
  }
}

TEST(Equations, OfRowsWithoutFunctionsCanBeRead) {
  for (const auto& [name, row] : op_table()) {
    if (row.equation.empty() || (row.infer && row.lower)) continue;
    EXPECT_NO_THROW(parse_row_text(row.equation)) << name;
    for (const EquationCase& other : row.cases) EXPECT_NO_THROW(parse_row_text(other.equation)) << name;
  }
}

// Numbers that repeat and are not sorted.
Tensor numbers(DType dtype, std::vector<int64_t> shape) {
  Tensor tensor(dtype, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.set(i, static_cast<double>((i * 7 + 3) % 11) - 5);
  return tensor;
}

// The result of the graph's lines for these inputs.
Tensor result_of(const std::string& lines, const std::map<std::string, Tensor>& inputs) {
  Graph graph = parse_graph("graph g {\n" + lines + "  output y\n}\n");
  infer_shapes(graph);
  return evaluate(graph, inputs).at("y");
}

std::vector<double> values(const Tensor& tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.count(); ++i) result.push_back(tensor.as_double(i));
  return result;
}

// What a correlation of `batches` signals with a window is, by plain loops.
std::vector<double> correlation(const Tensor& x, const Tensor& w, int64_t batches) {
  const int64_t size = x.count() / batches, window = w.count();
  std::vector<double> result;
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i + window <= size; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < window; ++k) sum += x.as_double(b * size + i + k) * w.as_double(k);
      result.push_back(sum);
    }
  }
  return result;
}

TEST(Equations, OfACorrelation) {
  for (const DType dtype : {DType::F32, DType::F64, DType::F16, DType::I32}) {
    const std::string type = name_of(dtype);
    for (const auto& [shape, window] : std::vector<std::pair<std::vector<int64_t>, int64_t>>{
             {{9}, 3}, {{2, 3, 9}, 4}, {{3, 5}, 5}, {{3, 5}, 1}, {{1, 1}, 1}, {{0, 5}, 2}}) {
      const Tensor x = numbers(dtype, shape), w = numbers(dtype, {window});
      const Tensor y = result_of("  input x " + type + str(shape_of(shape)) + "\n  input w " + type +
                                     str(shape_of({window})) + "\n  y f32[?] = Correlation(x, w)\n",
                                 {{"x", x}, {"w", w}});
      std::vector<int64_t> expected = shape;
      expected.back() += 1 - window;
      EXPECT_EQ(y.dtype, dtype);
      EXPECT_EQ(y.shape, expected);
      if (y.count() > 0) EXPECT_EQ(values(y), correlation(x, w, x.count() / shape.back()));
    }
  }
}

TEST(Equations, OfSizesThatAreSymbols) {
  const std::string lines =
      "  symbol n in [1, 64]\n  symbol k in [1, 64]\n  input x f32[2, n]\n  input w f32[k]\n  y f32[?] = Correlation(x, w)\n";
  for (const auto& [size, window] : {std::pair<int64_t, int64_t>{9, 3}, {5, 5}, {6, 1}}) {
    const Tensor x = numbers(DType::F32, {2, size}), w = numbers(DType::F32, {window});
    EXPECT_EQ(values(result_of(lines, {{"x", x}, {"w", w}})), correlation(x, w, 2));
  }
}

TEST(Equations, OfACumulativeMaximum) {
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16, DType::I8, DType::U8, DType::I64}) {
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{7}, {3, 8}, {2, 1, 5}, {4, 1}}) {
      Tensor x = numbers(dtype, shape);
      if (is_float(dtype)) x.set(2, NAN);
      const Tensor y = result_of(
          "  input x " + std::string(name_of(dtype)) + str(shape_of(shape)) + "\n  y f32[?] = CumMax(x)\n",
          {{"x", x}});
      EXPECT_EQ(y.dtype, dtype);
      ASSERT_EQ(y.shape, shape);
      double most = 0;
      for (int64_t i = 0; i < x.count(); ++i) {
        const double here = x.as_double(i);
        most = i % shape.back() == 0 || std::isnan(here) || here > most ? here : most;
        EXPECT_TRUE(y.as_double(i) == most || (std::isnan(most) && std::isnan(y.as_double(i)))) << i;
      }
    }
  }
}

TEST(Equations, OfAnActivation) {
  const Tensor x = numbers(DType::F32, {3, 4});
  const Tensor y = result_of("  input x f32[3, 4]\n  y f32[?] = Mish(x)\n", {{"x", x}});
  for (int64_t i = 0; i < x.count(); ++i) {
    const double a = x.as_double(i);
    EXPECT_NEAR(y.as_double(i), a * std::tanh(std::log1p(std::exp(a))), 1e-6);
  }
}

TEST(Equations, OfManyOperands) {
  std::string lines, operands;
  std::map<std::string, Tensor> inputs;
  for (int i = 0; i < 30; ++i) {
    const std::string name = "x" + std::to_string(i);
    lines += "  input " + name + " f32[1]\n";
    operands += (i ? ", " : "") + name;
    inputs[name] = Tensor(DType::F32, {1});
    inputs[name].set(0, i);
  }
  EXPECT_EQ(values(result_of(lines + "  y f32[?] = Sum(" + operands + ")\n", inputs)), std::vector{435.0});
  EXPECT_EQ(values(result_of(lines + "  y f32[?] = Mean(" + operands + ")\n", inputs)), std::vector{14.5});
  EXPECT_EQ(values(result_of("  input x0 f32[1]\n  y f32[?] = Max(x0)\n", {{"x0", inputs.at("x4")}})),
            std::vector{4.0});
}

TEST(Equations, OfCasesByAttributes) {
  const Tensor x = numbers(DType::F32, {2}), m = numbers(DType::F32, {1});  // -2, 5 and -2
  const std::map<std::string, Tensor> inputs = {{"x", x}, {"m", m}};
  const std::string lines = "  input x f32[2]\n  input m f32[1]\n";
  EXPECT_EQ(values(result_of(lines + "  y f32[?] = Mod(x, m)\n", inputs)), (std::vector{-0.0, -1.0}));
  EXPECT_EQ(values(result_of(lines + "  y f32[?] = Mod(x, m) {fmod = 1}\n", inputs)),
            (std::vector{-0.0, 1.0}));
}

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// The error of inferring the node, without its name.
std::string refusal(const std::string& lines) {
  Graph graph = parse_graph("graph g {\n" + lines + "  output y\n}\n");
  const std::string error = error_of([&] { infer_shapes(graph); });
  const std::string node = graph.nodes.at(0).origin.str();
  EXPECT_EQ(error.rfind(node, 0), 0u) << error;
  return error.substr(node.size());
}

TEST(Equations, RefuseOperandsThatDoNotFit) {
  EXPECT_EQ(refusal("  input x f32[2, 3]\n  input w f32[5]\n  y f32[?] = Correlation(x, w)\n"),
            ": `i+k` of X[...,i+k] reaches over 5 elements, but X has shape [2, 3], with 3 in dimension 1");
  EXPECT_EQ(refusal("  input x f32[2, 3]\n  input w f32[1, 2]\n  y f32[?] = Correlation(x, w)\n"),
            ": W has shape [1, 2] of rank 2; rank 1 is needed, as in `W[k]`");
  EXPECT_EQ(refusal("  input x f32[]\n  y f32[?] = CumMax(x)\n"),
            ": X has shape [] of rank 0; rank 1 or more is needed, as in `X[...,i]`");
  EXPECT_EQ(refusal("  input x bool[2]\n  y f32[?] = CumMax(x)\n"),
            ": input 0 has type bool; a number type is needed");
  EXPECT_EQ(refusal("  input x f32[3]\n  input w f64[2]\n  y f32[?] = Correlation(x, w)\n"),
            ": input 0 has type f32 and input 1 has type f64; they must be the same");
  EXPECT_EQ(refusal("  input x f32[]\n  input w f32[2]\n  y f32[?] = MatMul(x, w)\n"),
            ": A has shape [] of rank 0; rank 1 or more is needed, as in `A[...,k]`");
  EXPECT_EQ(refusal("  input x f32[2]\n  input w f32[2]\n  y f32[?] = WideProduct(x, w)\n"),
            ": input 0 has type f32; i32 is needed");
}

TEST(Equations, ThatCannotBeRead) {
  EXPECT_EQ(error_of([] { parse_equation("O[i] X[i]"); }),
            "formula, line 1, column 6: `=`, `+=`, `*=`, `max=` or `min=` is missing; found `X[i]`");
  EXPECT_EQ(error_of([] { parse_equation("O[i+k?] = X[i]"); }),
            "formula, line 1, column 7: `?` follows a letter; found `] = X[i]`");
  EXPECT_EQ(error_of([] { parse_row_text("a + b c"); }),
            "formula, line 1, column 7: an operator or the end is missing; found `c`");
}

}  // namespace
}  // namespace tc
