// Errors of the generated elementary functions against long double, and their special values.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "scheduler/scheduler.h"
#include "codegen/llvm/kernel_code.h"
#include "tests/codegen_harness.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

using Oracle = long double (*)(long double);

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }

struct FunctionCase {
  UnaryOp op;
  Oracle oracle;
  double f32_low, f32_high;  // where f32 is sampled, besides special values
  double ulps;               // largest f32 error allowed
  double f64_low, f64_high;
  double relative;  // largest f64 error allowed
};

const FunctionCase kCases[] = {
    {UnaryOp::Exp, std::exp, -260, 95, 1.0, -2100, 715, 1e-15},
    {UnaryOp::Log, std::log, 0, 3.4e38, 1.0, 0, 1.7e308, 1e-15},
    {UnaryOp::Tanh, std::tanh, -12, 12, 2.0, -25, 25, 1e-15},
    {UnaryOp::Sigmoid, sigmoid, -100, 100, 2.0, -700, 700, 1e-15},
    {UnaryOp::Erf, std::erf, -5, 5, 2.0, -7, 7, 1e-15},
    {UnaryOp::Sin, std::sin, -3.4e38, 3.4e38, 1.0, -1e6, 1e6, 1e-13},
    {UnaryOp::Cos, std::cos, -3.4e38, 3.4e38, 1.0, -1e6, 1e6, 1e-13},
    {UnaryOp::Tan, std::tan, -3.4e38, 3.4e38, 1.0, -1e6, 1e6, 1e-13},
    {UnaryOp::Asin, std::asin, -1, 1, 1.0, -1, 1, 1e-14},
    {UnaryOp::Acos, std::acos, -1, 1, 1.0, -1, 1, 1e-14},
    {UnaryOp::Atan, std::atan, -3.4e38, 3.4e38, 1.0, -1e300, 1e300, 1e-14},
    {UnaryOp::Sinh, std::sinh, -95, 95, 1.0, -715, 715, 1e-14},
    {UnaryOp::Cosh, std::cosh, -95, 95, 1.0, -715, 715, 1e-14},
    {UnaryOp::Asinh, std::asinh, -3.4e38, 3.4e38, 1.0, -1e300, 1e300, 1e-14},
    {UnaryOp::Acosh, std::acosh, 1, 3.4e38, 1.0, 1, 1e300, 1e-14},
    {UnaryOp::Atanh, std::atanh, -1, 1, 1.0, -1, 1, 1e-14},
    {UnaryOp::Log1p, std::log1p, -1, 3.4e38, 1.0, -1, 1e300, 1e-14},
};

// Half of the samples are even over the interval, half even over the exponents below its ends.
std::vector<double> samples(double low, double high, int count, double smallest) {
  std::vector<double> result = {0.0,
                                -0.0,
                                1.0,
                                -1.0,
                                0.5,
                                -0.5,
                                low,
                                high,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
  for (int i = 0; i <= count; ++i) {
    result.push_back(low + (high / 2 - low / 2) * (2.0 * i / count));
    for (const double end : {low, high}) {
      if (end == 0) continue;
      const double top = std::log2(std::fabs(end)), bottom = std::log2(smallest);
      result.push_back(std::copysign(std::exp2(bottom + (top - bottom) * i / count), end));
    }
  }
  return result;
}

ScheduledKernel function_kernel(UnaryOp op, DType dtype, int64_t count, int lanes = 16) {
  return elementwise(count, lanes, dtype, dtype,
                     [&](const std::vector<ExprPtr>& inputs) { return unary(op, inputs[0]); });
}

// Distance in units in the last place of the exact result's f32 neighbourhood.
double ulp_error(float got, long double want) {
  const float rounded = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  if (std::isnan(got)) return 1e9;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : 1e9;
  const float up = std::nextafter(std::fabs(rounded), std::numeric_limits<float>::infinity());
  const long double unit =
      std::isinf(up) ? std::ldexp(1.0L, 104) : static_cast<long double>(up) - std::fabs(rounded);
  return static_cast<double>(std::fabs(got - want) / unit);
}

class CodegenMath : public ::testing::TestWithParam<FunctionCase> {};

TEST_P(CodegenMath, SingleIsWithinUlps) {
  const FunctionCase& test = GetParam();
  const std::vector<double> values = samples(test.f32_low, test.f32_high, 40000, 1e-44);
  const int64_t count = static_cast<int64_t>(values.size());
  Tensors tensors = {{"A", Tensor(DType::F32, {count})}, {"O", Tensor(DType::F32, {count})}};
  for (int64_t i = 0; i < count; ++i) tensors.at("A").set(i, values[static_cast<size_t>(i)]);
  // Vectors of sixteen and of eight have code of their own for some.
  const std::vector<std::pair<Target, int>> forms = {
      {host_target(), 16}, {host_target(), 8}, {avx2_target(), 16}, {avx2_target(), 8}};
  for (const auto& [target, lanes] : forms) {
    run_compiled(function_kernel(test.op, DType::F32, count, lanes), target, {}, tensors);
    double worst = 0;
    float worst_at = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float x = tensors.at("A").data<float>()[i];
      const float got = tensors.at("O").data<float>()[i];
      const double error = ulp_error(got, test.oracle(x));
      if (error > worst) worst = error, worst_at = x;
    }
    const std::string where = std::to_string(lanes) + " lanes on " + target.name;
    RecordProperty("ulps_" + target.name + "_" + std::to_string(lanes), std::to_string(worst));
    std::printf("%s f32 of %s: %.2f ULP at %.9g\n", name_of(test.op), where.c_str(), worst, worst_at);
    EXPECT_LE(worst, test.ulps) << name_of(test.op) << " at " << worst_at << ", " << where;
  }
}

// The power of an element less the largest of its row, which is zero here.
TEST(CodegenMathOfRows, ExponentialOfWhatIsNotPositiveIsWithinAUlp) {
  const std::vector<double> values = samples(-260, 0, 40000, 1e-44);
  std::vector<double> row;
  for (const double each : values) {
    if (each <= 0) row.push_back(each);
  }
  const int64_t count = static_cast<int64_t>(row.size());
  const std::string extent = std::to_string(count);
  const Kernel kernel =
      parse_kernel("kernel \"rows\"\n  input A f32[" + extent + "]\n  output O f32[" + extent +
                   "]\n  local M f32[]\n"
                   "  init[]: M[] = -inf\n  maximum[i:" +
                   extent +
                   "]: M[] maxnum= A[i]\n"
                   "  power[i:" +
                   extent + "]: O[i] = exp(A[i] - M[])\n");
  Tensors tensors = {{"A", Tensor(DType::F32, {count})}, {"O", Tensor(DType::F32, {count})}};
  for (int64_t i = 0; i < count; ++i) tensors.at("A").set(i, row[static_cast<size_t>(i)]);
  for (const Target& target : host_targets()) {
    run_compiled(default_schedule(kernel, target, 1).finish(), target, {}, tensors);
    for (int64_t i = 0; i < count; ++i) {
      const float x = tensors.at("A").data<float>()[i], got = tensors.at("O").data<float>()[i];
      ASSERT_LE(ulp_error(got, std::exp(static_cast<long double>(x))), 1.0) << x << " on " << target.name;
    }
  }
}

TEST_P(CodegenMath, DoubleIsWithinRelativeError) {
  const FunctionCase& test = GetParam();
  const std::vector<double> values = samples(test.f64_low, test.f64_high, 20000, 1e-320);
  const int64_t count = static_cast<int64_t>(values.size());
  Tensors tensors = {{"A", Tensor(DType::F64, {count})}, {"O", Tensor(DType::F64, {count})}};
  for (int64_t i = 0; i < count; ++i) tensors.at("A").set(i, values[static_cast<size_t>(i)]);
  run_compiled(function_kernel(test.op, DType::F64, count), host_target(), {}, tensors);
  double worst = 0, worst_at = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = tensors.at("A").data<double>()[i];
    const double got = tensors.at("O").data<double>()[i];
    const long double want = test.oracle(x);
    const double rounded = static_cast<double>(want);
    if (got == rounded || (std::isnan(got) && std::isnan(rounded))) continue;
    double error = 1e9;
    if (std::isfinite(got) && std::isfinite(rounded)) {
      // One unit of the smallest subnormal is no error.
      const long double difference = std::fabs(got - want) - 5e-324L;
      error = difference <= 0 ? 0 : static_cast<double>(difference / std::fabs(want));
    }
    if (error > worst) worst = error, worst_at = x;
  }
  std::printf("%s f64: %.2e at %.17g\n", name_of(test.op), worst, worst_at);
  EXPECT_LE(worst, test.relative) << name_of(test.op) << " at " << worst_at;
}

INSTANTIATE_TEST_SUITE_P(Functions, CodegenMath, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(name_of(info.param.op)); });

// clang-format off
TEST(CodegenMathTest, PowAndAtan2LikeC) {
  std::vector<double> values = {0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e-40, 1e30, -1e30, 7.25,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN(), 1e-3, 100, 88.7, 16777217};
  // clang-format on
  const int64_t n = static_cast<int64_t>(values.size()), count = n * n;
  for (const DType dtype : {DType::F32, DType::F64}) {
    for (const BinaryOp op : {BinaryOp::Pow, BinaryOp::Atan2, BinaryOp::Fmod, BinaryOp::Mod}) {
      const ScheduledKernel kernel =
          elementwise(count, 8, dtype, dtype,
                      [&](const std::vector<ExprPtr>& inputs) { return binary(op, inputs[0], inputs[1]); });
      Tensors tensors = {
          {"A", Tensor(dtype, {count})}, {"B", Tensor(dtype, {count})}, {"O", Tensor(dtype, {count})}};
      for (int64_t i = 0; i < count; ++i) {
        tensors.at("A").set(i, values[static_cast<size_t>(i / n)]);
        tensors.at("B").set(i, values[static_cast<size_t>(i % n)]);
      }
      run_compiled(kernel, host_target(), {}, tensors);
      for (int64_t i = 0; i < count; ++i) {
        const double a = tensors.at("A").as_double(i), b = tensors.at("B").as_double(i);
        long double want = op == BinaryOp::Pow     ? std::pow((long double)a, (long double)b)
                           : op == BinaryOp::Atan2 ? std::atan2((long double)a, (long double)b)
                                                   : std::fmod((long double)a, (long double)b);
        if (op == BinaryOp::Mod && want != 0 && (want < 0) != (b < 0)) want += b;
        const double rounded = dtype == DType::F32 ? static_cast<float>(want) : static_cast<double>(want);
        const double got = tensors.at("O").as_double(i);
        const double limit = dtype == DType::F32 ? 1.2e-7 : 1e-13;
        const bool same = got == rounded || (std::isnan(got) && std::isnan(rounded)) ||
                          std::fabs(got - rounded) <= limit * std::fabs(rounded);
        EXPECT_TRUE(same) << name_of(op) << " " << name_of(dtype) << " of " << a << " and " << b << ": "
                          << got << ", expected " << rounded;
        if (rounded == 0 && op != BinaryOp::Mod) {
          EXPECT_EQ(std::signbit(got), std::signbit(rounded)) << name_of(op) << a << " " << b;
        }
      }
    }
  }
}

TEST(CodegenMathTest, NothingOutsideIsCalled) {
  const std::vector<UnaryOp> all = {
#define X(name, text) UnaryOp::name,
      TC_FOR_EACH_UNARY(X)
#undef X
  };
  for (const Target& target : {avx2_target(), avx512_target(), riscv_target(0), riscv_target(128)}) {
    for (const DType dtype : {DType::F32, DType::F64}) {
      for (const UnaryOp op : all) {
        if (op == UnaryOp::Not || op == UnaryOp::BitNot) continue;
        const bool predicate = op == UnaryOp::IsNan || op == UnaryOp::IsInf;
        const ScheduledKernel kernel =
            elementwise(100, 16, dtype, predicate ? DType::Bool : dtype,
                        [&](const std::vector<ExprPtr>& inputs) { return unary(op, inputs[0]); });
        const std::string assembly = kernel_assembly(kernel, target, "kernel");
        EXPECT_EQ(count_lines(assembly, "\tcall"), 0)
            << target.name << " " << name_of(op) << " " << name_of(dtype) << "\n"
            << assembly;
      }
    }
  }
}

}  // namespace
}  // namespace tc::testing
