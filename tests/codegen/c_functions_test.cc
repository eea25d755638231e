// Elementary functions of vectors in C source, against the C library in double.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <random>

#include "ir/error.h"
#include "tests/c_kernels.h"
#include "tests/codegen_kernels.h"

namespace tc::testing {
namespace {

struct Function {
  UnaryOp op;
  double (*exact)(double);
  double most;  // units in the last place
};

const Function kFunctions[] = {
    {UnaryOp::Exp, std::exp, 2},
    {UnaryOp::Tanh, std::tanh, 2},
    {UnaryOp::Erf, std::erf,
     2.1},  // this compiler has no fused multiply-adds, with which the last two are within 2
    {UnaryOp::Sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, 2.1},
    {UnaryOp::Round, std::nearbyint, 0},
    {UnaryOp::Floor, std::floor, 0},
    {UnaryOp::Ceil, std::ceil, 0},
};

std::vector<float> arguments() {
  std::vector<float> result = {0,     -0.0f,      1,       -1,       0.5f,    -0.5f,    1.5f,
                               2.5f,  8388607.5f, 8388608, -8388609, 3e9f,    INFINITY, -INFINITY,
                               NAN,   1e-40f,     -1e-40f, 88.7f,    88.8f,   89.5f,    -87.3f,
                               -88,   -103.9f,    -104.5f, -1000,    1000,    0.625f,   0.6249f,
                               3.99f, 4.01f,      0.9999f, 1.0001f,  3.4e38f, -3.4e38f};
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(-20, 7), linear(-110, 95);
  while (result.size() < 200000) {
    const double sign = random() % 2 != 0 ? 1 : -1;
    result.push_back(static_cast<float>(sign * std::exp2(exponent(random))));
    result.push_back(static_cast<float>(linear(random)));
  }
  return result;
}

// Distance from the exact result in units of the last place of a float32 near it.
double distance(float found, double exact) {
  const float nearest = static_cast<float>(exact);
  if (std::isnan(exact) || std::isinf(nearest))
    return (std::isnan(found) && std::isnan(exact)) || found == nearest ? 0 : INFINITY;
  int power;
  std::frexp(exact, &power);
  return std::fabs(found - exact) / std::ldexp(1.0, std::max(power - 24, -149));
}

TEST(CFunctions, OfVectorsAreAsExactAsPromised) {
  char folder[] = "/tmp/tc-test-XXXXXX";
  TC_CHECK(mkdtemp(folder) != nullptr);
  const std::vector<float> x = arguments();
  std::vector<ScheduledKernel> kernels;
  for (const Function& function : kFunctions) {
    kernels.push_back(
        elementwise(static_cast<int64_t>(x.size()), 8, DType::F32, DType::F32,
                    [&](const std::vector<ExprPtr>& loads) { return unary(function.op, loads[0]); }));
  }
  compile_as_c(kernels, "gcc -O2", folder);
  void* library = dlopen((std::string(folder) + "/kernels.so").c_str(), RTLD_NOW);
  TC_CHECK(library != nullptr, dlerror());
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto run = reinterpret_cast<void (*)(const float*, float*, const int64_t*, uint8_t*)>(
        dlsym(library, text("kernel", i).c_str()));
    std::vector<float> y(x.size());
    run(x.data(), y.data(), nullptr, nullptr);
    double worst = 0;
    float where = 0;
    for (size_t n = 0; n < x.size(); ++n) {
      const double exact = kFunctions[i].exact(x[n]), error = distance(y[n], exact);
      if (error > worst) worst = error, where = x[n];
      // The sign of zero is part of what is exact.
      if (kFunctions[i].most == 0 && exact == 0) {
        EXPECT_EQ(std::signbit(y[n]), std::signbit(exact)) << name_of(kFunctions[i].op) << " of " << x[n];
      }
    }
    EXPECT_LE(worst, kFunctions[i].most) << name_of(kFunctions[i].op) << " of " << where;
    std::printf("%s: %.2f units\n", name_of(kFunctions[i].op), worst);
  }
  dlclose(library);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tc::testing
