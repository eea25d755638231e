// Text forms of affine expressions, dimensions and kernels: what they print, and that they read back.
#include <gtest/gtest.h>

#include <cmath>

#include "ir/affine.h"
#include "ir/dim.h"
#include "ir/error.h"
#include "ir/loop.h"
#include "ir/text_cursor.h"

namespace tc {
namespace {

Affine v(const std::string& name) { return Affine::variable(name); }

template <class Run>
std::string error_of(Run run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Affine, PrintsAndReadsBack) {
  Affine e = v("y") * 2 + v("r") - 1;
  EXPECT_EQ(e.str(), "2*y + r - 1");
  for (const char* text : {"0", "-7", "x", "-x", "-3*x + 4", "a - b", "-2*b + a - 9"}) {
    EXPECT_EQ(parse_affine(text).str(), text);
  }
  EXPECT_EQ(parse_affine(" x*2+ s -1 - x").str(), "s + x - 1");
  EXPECT_EQ(error_of([] { parse_affine("x + "); }),
            "affine expression, line 1, column 5: expected a name; found the end");
  EXPECT_EQ(error_of([] { parse_affine("x y"); }),
            "affine expression, line 1, column 3: expected the end; found `y`");
  EXPECT_EQ(error_of([] { parse_affine("99999999999999999999"); }),
            "affine expression, line 1, column 1: the integer does not fit 64 bits; found "
            "`99999999999999999999`");
}

TEST(Affine, Arithmetic) {
  Affine e = v("x") * 2 + v("s") - 1;
  EXPECT_EQ(e - v("s"), v("x") * 2 - 1);
  EXPECT_EQ((e - e), Affine());
  EXPECT_EQ(e.coefficient("x"), 2);
  EXPECT_EQ(e.coefficient("q"), 0);
  EXPECT_EQ(e.as_variable(), "");
  EXPECT_EQ(v("x").as_variable(), "x");
  EXPECT_EQ(e.evaluate({{"x", 5}, {"s", 2}}), 11);
  EXPECT_EQ(e.substitute({{"x", v("o") * 4 + v("i")}}).str(), "8*o + 2*i + s - 1");
  EXPECT_NE(error_of([&] { e.evaluate({{"x", 5}}); }).find("variable 's'"), std::string::npos);
  int64_t large = int64_t{1} << 62;
  EXPECT_EQ(error_of([&] { v("x") * large * 4; }), "a subscript overflows 64 bits: 4611686018427387904 * 4");
}

TEST(Affine, Ranges) {
  Affine e = v("x") * 2 - v("s") - 1;
  Interval range = range_of(e, {{"x", {0, 9}}, {"s", {0, 2}}});
  EXPECT_EQ(range.low, -3);
  EXPECT_EQ(range.high, 17);
  range = range_of(e, {{"x", {0, 9}}});
  EXPECT_EQ(range.low, -(int64_t{1} << 62));
  range = range_of(v("x") * (int64_t{1} << 61), {{"x", {0, 100}}});
  EXPECT_EQ(range.high, int64_t{1} << 62);
}

const Dim seq = Dim::symbol("seq"), batch = Dim::symbol("batch");

TEST(Dim, IsCanonical) {
  EXPECT_EQ((3 * seq + floor_div(batch, 2) * 4 + 1).str(), "4*floor(batch/2) + 3*seq + 1");
  EXPECT_EQ(seq * batch, batch * seq);
  EXPECT_EQ((seq + 1) * (seq - 1), seq * seq - 1);
  EXPECT_EQ(seq - seq, Dim(0));
  EXPECT_TRUE((seq - seq).is_constant());
  EXPECT_TRUE(seq.is_symbol());
  EXPECT_FALSE((seq * 2).is_symbol());
  EXPECT_EQ(max(seq, batch), max(batch, seq));
}

TEST(Dim, DivisionIsExactWhereTermsDivide) {
  EXPECT_EQ(floor_div(4 * seq, 2), 2 * seq);
  EXPECT_EQ(floor_div(4 * seq + 6, 4).str(), "seq + 1");
  EXPECT_EQ(floor_div(2 * seq + 3, 4).str(), "floor((seq + 1)/2)");
  EXPECT_EQ(floor_div(seq + 7, 2).str(), "floor((seq + 1)/2) + 3");
  EXPECT_EQ(floor_div(batch * seq * 768, seq * 12), 64 * batch);
  EXPECT_EQ(floor_div((seq + 1) * 768 * batch, seq + 1), 768 * batch);
  EXPECT_EQ(floor_div(seq + 1, seq + 1), Dim(1));
  EXPECT_EQ(ceil_div(seq, 2).str(), "floor((seq + 1)/2)");
  EXPECT_EQ(floor_div(-7, 2), Dim(-4));
  EXPECT_EQ(ceil_div(-7, 2), Dim(-3));
  EXPECT_EQ(mod(6 * seq + 3, 4).str(), "mod(2*seq + 3, 4)");
  EXPECT_EQ(mod(4 * seq + 3, 4), Dim(3));
  EXPECT_EQ(mod(-1, 4), Dim(3));
  EXPECT_EQ(mod(batch * seq, batch), Dim(0));
  EXPECT_EQ(error_of([] { floor_div(seq, 0); }), "the dimension seq is divided by zero");
}

TEST(Dim, BoundsDecideWhatSymbolsDecide) {
  EXPECT_EQ(min(seq, seq + 3), seq);
  EXPECT_EQ(max(seq, 0), seq);
  EXPECT_EQ(max(3, 5), Dim(5));
  EXPECT_EQ(min(seq, 5).str(), "min(5, seq)");
}

// Every expression agrees with plain integers, before and after reading back its text.
TEST(Dim, EvaluatesLikeIntegers) {
  auto floor_of = [](int64_t a, int64_t b) {
    return static_cast<int64_t>(std::floor(static_cast<double>(a) / static_cast<double>(b)));
  };
  for (int64_t s = 0; s < 7; ++s) {
    for (int64_t b = 1; b < 4; ++b) {
      std::map<std::string, int64_t> symbols{{"seq", s}, {"batch", b}};
      Dim numerator = 3 * seq * batch - 5 * batch + 2;
      int64_t n = 3 * s * b - 5 * b + 2;
      auto check = [&](const Dim& dim, int64_t expected) {
        EXPECT_EQ(dim.evaluate(symbols), expected) << dim.str() << " at " << s << ", " << b;
        EXPECT_EQ(parse_dim(dim.str()), dim) << dim.str();
        EXPECT_EQ(dim.substitute({{"seq", s}}).evaluate({{"batch", b}}), expected) << dim.str();
      };
      for (int64_t d : {-4, -3, -1, 1, 2, 3, 6}) {
        check(floor_div(numerator, d), floor_of(n, d));
        check(ceil_div(numerator, d), -floor_of(-n, d));
        check(mod(numerator, d), n - floor_of(n, std::abs(d)) * std::abs(d));
      }
      check(floor_div(numerator, batch), floor_of(n, b));
      check(mod(numerator, batch), n - floor_of(n, b) * b);
      check(floor_div(numerator, batch * 2 + 1), floor_of(n, 2 * b + 1));
      check(min(numerator, seq * 2), std::min(n, 2 * s));
      check(max(numerator, seq * 2) * 3 - 1, std::max(n, 2 * s) * 3 - 1);
    }
  }
}

TEST(Dim, SymbolsMayHaveAnyName) {
  Dim odd = Dim::symbol("past + \"1\"") * 2 + Dim::symbol("min");
  EXPECT_EQ(odd.str(), "\"min\" + 2*\"past + \\\"1\\\"\"");
  EXPECT_EQ(parse_dim(odd.str()), odd);
  std::set<std::string> names;
  floor_div(odd + seq, batch + 2).collect_symbols(names);
  EXPECT_EQ(names, (std::set<std::string>{"past + \"1\"", "min", "seq", "batch"}));
}

TEST(Dim, ErrorsSayWhatIsWrong) {
  EXPECT_EQ(error_of([] { seq.evaluate({}); }), "the size of symbol 'seq' is not known");
  EXPECT_EQ(error_of([] { Dim(int64_t{1} << 62) * 4; }),
            "a dimension does not fit 64 bits; the model's shapes are too large");
  EXPECT_EQ(error_of([] { parse_dim("seq +"); }),
            "dimension 'seq +', line 1, column 6: expected a name; found the end");
  EXPECT_EQ(error_of([] { parse_dim("floor(seq, 2)"); }),
            "dimension 'floor(seq, 2)', line 1, column 10: expected `/`; found `, 2)`");
  std::string deep(1000, '(');
  EXPECT_NE(error_of([&] { parse_dim(deep); }).find("nested more than 200 deep"), std::string::npos);
  Dim huge = seq;
  EXPECT_EQ(error_of([&] {
              for (int i = 0; i < 30; ++i) huge = huge * (seq + Dim::symbol("s" + std::to_string(i)));
            }),
            "a dimension is an expression of more than 1024 terms");
}

TEST(Dim, Shapes) {
  Shape shape{1, 3, seq, 4};
  EXPECT_EQ(str(shape), "[1, 3, seq, 4]");
  EXPECT_EQ(element_count(shape), 12 * seq);
  EXPECT_FALSE(is_constant(shape));
  EXPECT_EQ(constant_shape(shape_of({2, 5})), (std::vector<int64_t>{2, 5}));
}

const char* const kKernel =
    "kernel \"conv + relu\"\n"
    "  parameter p0 = 2*seq + 1 in [1, 1000]\n"
    "  input I f32[1, 64, p0] as \"n c x\"\n"
    "  input N i64[p0]\n"
    "  constant K f32[4, 64, 3]\n"
    "  output O f16[64, p0]\n"
    "  local T f32[64, p0]\n"
    "  register U u64[1]\n"
    "  packing K[fo, c, r] of [60, 3] at [16*fo + c, r] fill -inf\n"
    "  init[f:64, x:p0]: T[f, x] = 0\n"
    "  macc[f:64, x:p0, c:64, r:3] where r + x - 1 >= 0, p0 - r - x >= 0: T[f, x] += "
    "I[0, c, r + x - 1] * K[0, c, r]\n"
    "  gather[f:64, x:p0]: T[f, x] = I[0, f + {min(max(N[x], 0), index(p0 - 1))}, {N[x] * 2}]\n"
    "  top[f:64, x:p0]: T[f, 0] max= T[f, x] - (T[f, 0] - 1.5) / (2 * T[f, x])\n"
    "  some[x:p0]: U[0] or= 18446744073709551615\n"
    "  tail[f:64, x:p0]: O[f, x] = f16(select(and(T[f, x] >= 0, 1e-09:f32 < exp(-2:f32)), "
    "neg(T[f, x]), erf(-inf)))\n"
    "  flags[]: U[0] = u64(select(not(isnan(nan:f64)), true, 3 != i32(T[0, 0])))\n"
    "  origin \"node 'conv1' (Conv)\"\n";

TEST(Number, ReadsBackWhatItPrints) {
  for (double value :
       {0.5, -0.16666667163372040, 1e-300, 4.9e-324, 1.7976931348623157e308, 123456789012345.0, -0.0}) {
    EXPECT_EQ(number_value(number_text(value)), value) << value;
  }
  EXPECT_EQ(static_cast<float>(number_value(number_text(0.1f))), 0.1f);
  EXPECT_EQ(number_value("1e400"), HUGE_VAL);
  EXPECT_EQ(number_value("-1e400"), -HUGE_VAL);
  EXPECT_EQ(number_value("1e-400"), 0);
}

TEST(KernelText, ReadsBack) {
  Kernel kernel = parse_kernel(kKernel);
  EXPECT_EQ(str(kernel), kKernel);
  EXPECT_EQ(kernel.parameters[0].value, 2 * seq + 1);
  ASSERT_EQ(kernel.statements.size(), 7u);
  EXPECT_EQ(kernel.statements[1].reduction, Reduction::Sum);
  EXPECT_EQ(kernel.statements[0].value->dtype, DType::F32);
  EXPECT_EQ(kernel.statements[4].value->integer, -1);
  EXPECT_EQ(kernel.find("tail")->value->dtype, DType::F16);
  EXPECT_EQ(kernel.find("nothing"), nullptr);
  EXPECT_EQ(kernel.packings[0].fill, -INFINITY);
}

TEST(KernelText, ErrorsSayWhere) {
  auto with = [](const std::string& statement) {
    return error_of([&] { parse_kernel("kernel k\n  output O f32[4]\n  " + statement + "\n"); });
  };
  EXPECT_EQ(with("s[i:4]: O[i] = 1"), "no error");
  EXPECT_EQ(with("s[i:4]: P[i] = 1"),
            "kernel text, line 3, column 12: there is no buffer 'P'; found `[i] = 1`");
  EXPECT_EQ(with("s[i:4]: O[i] = foo(1)"),
            "kernel text, line 3, column 18: there is no function 'foo'; found `foo(1)`");
  EXPECT_EQ(with("s[i:4]: O[i] = f32(1)"),
            "kernel text, line 3, column 22: the constant needs a type, as in `0:f32`; found `1)`");
  EXPECT_EQ(with("s[i:4]: O[i] = O[i] + i64(O[i])"),
            "kernel text, line 3, column 18: the operands have types f32 and i64; found `O[i] + i64(O[i])`");
  EXPECT_EQ(with("s[i:4]: O[i] 1"),
            "kernel text, line 3, column 16: expected `=` or a reduction such as `+=`; found `1`");
  EXPECT_EQ(with("scratch T f32[4]"),
            "kernel text, line 3, column 3: expected a statement, a buffer with its scope, "
            "`parameter`, `packing` or `origin`; found `scratch T f32[4]`");
  EXPECT_EQ(with("local T f31[4]"),
            "kernel text, line 3, column 11: expected an element type; found `f31[4]`");
  EXPECT_NE(with("s[i:4]: O[i] = " + std::string(5000, '(')).find("nested more than 200 deep"),
            std::string::npos);
}

TEST(WorkloadKey, ForgetsNamesAndKeepsMeaning) {
  Kernel kernel = parse_kernel(kKernel);
  Kernel renamed = kernel;
  renamed.name = "other";
  renamed.origins = {"elsewhere"};
  renamed.parameters[0].value = batch;
  renamed.buffers[4].name = "Accumulator";
  renamed.buffers[0].logical.clear();
  renamed.statements[0].name = "start";
  EXPECT_EQ(workload_key(kernel), workload_key(renamed));
  // The iterators of `init` by other names, which sort differently.
  Statement& init = renamed.statements[0];
  init.iterators = {{"z", 64}, {"a", v("p0")}};
  init.write = substitute(init.write, {{"f", v("z")}, {"x", v("a")}});
  EXPECT_EQ(workload_key(kernel), workload_key(renamed));
  renamed.statements[0].value = constant(DType::F32, 1);
  EXPECT_NE(workload_key(kernel), workload_key(renamed));
  EXPECT_EQ(workload_key(parse_kernel("kernel k\n input A f32[n0]\n parameter n0 = n in [1, 9]\n"
                                      " output B f32[n0]\n s[q:n0]: B[q] = A[q] + 1\n")),
            "kernel k\n"
            "  parameter p0 = 0 in [1, 9]\n"
            "  input b0 f32[p0]\n"
            "  output b1 f32[p0]\n"
            "  s0[i0:p0]: b1[i0] = b0[i0] + 1\n");
}

TEST(Expressions, RewriteKeepsWhatDoesNotChange) {
  ExprPtr a = load(DType::F32, 0, std::vector<Affine>{v("x")});
  ExprPtr sum = binary(BinaryOp::Add, a, unary(UnaryOp::Exp, a));
  EXPECT_EQ(rewrite(sum, [](const ExprPtr&) { return nullptr; }), sum);
  ExprPtr shifted = substitute(sum, {{"x", v("y") + 1}});
  int loads = 0;
  for_each_load(shifted, [&](const Expr& e) {
    ++loads;
    EXPECT_EQ(e.access.index[0].affine.str(), "y + 1");
  });
  EXPECT_EQ(loads, 2);
  EXPECT_EQ(shifted->operands[0], shifted->operands[1]->operands[0]);
}

TEST(Expressions, IdentitiesLeaveTheOtherOperand) {
  EXPECT_EQ(identity(Reduction::Max, DType::F32)->number, -INFINITY);
  EXPECT_EQ(identity(Reduction::Min, DType::I8)->integer, 127);
  EXPECT_EQ(identity(Reduction::Max, DType::I64)->integer, INT64_MIN);
  EXPECT_EQ(identity(Reduction::Max, DType::U8)->integer, 0);
  EXPECT_EQ(identity(Reduction::Min, DType::U64)->integer, -1);
  EXPECT_EQ(identity(Reduction::And, DType::Bool)->integer, 1);
  EXPECT_EQ(identity(Reduction::Or, DType::Bool)->integer, 0);
  EXPECT_EQ(identity(Reduction::Product, DType::F64)->number, 1);
}

// Minima and maxima of several operands have one form, without those that others bound.
TEST(Dim, MinimaOfMinima) {
  const auto form = [](const std::string& text) { return parse_dim(text).str(); };
  EXPECT_EQ(form("min(min(50, a), a)"), "min(50, a)");
  EXPECT_EQ(form("min(a, min(50, b))"), form("min(min(b, a), 50)"));
  EXPECT_EQ(form("min(min(50, a), min(60, b))"), form("min(min(50, a), b)"));
  EXPECT_EQ(form("max(a, max(b, a + c))"), form("max(a + c, b)"));
  EXPECT_EQ(form("max(min(a, b), a)"), "a");
  EXPECT_EQ(form("a - min(a, b) - max(0, a - min(a, b))"), "0");
}

}  // namespace
}  // namespace tc
