// What the statements of a kernel say of the sign of an expression.
#include "codegen/llvm/emit/never_positive.h"

#include <gtest/gtest.h>

#include <string>

namespace tc {
namespace {

// Whether the operand of the exponential in the statement `power` is known not to be positive.
bool holds(const std::string& statements) {
  const Kernel kernel = parse_kernel(
      "kernel \"rows\"\n  input X f32[8, 16]\n  input Z f32[8, 16]\n  output O f32[8, 16]\n"
      "  local M f32[8]\n  local S f32[8]\n" +
      statements);
  for (const Statement& each : kernel.statements) {
    if (each.name == "power") return is_never_positive(kernel, each, *each.value->operands[0]);
  }
  ADD_FAILURE() << "no statement is called power";
  return false;
}

const std::string kInit = "  init[i:8]: M[i] = -inf\n";
const std::string kMaximum = kInit + "  maximum[i:8, j:16]: M[i] maxnum= X[i, j]\n";

TEST(Signs, AnElementLessTheLargestOfItsRow) {
  EXPECT_TRUE(holds(kMaximum + "  power[i:8, j:16]: O[i, j] = exp(X[i, j] - M[i])\n"));
  EXPECT_TRUE(holds(kInit + "  maximum[i:8, j:16]: M[i] max= X[i, j] + Z[i, j]\n"
                            "  power[i:8, j:16]: O[i, j] = exp(X[i, j] + Z[i, j] - M[i])\n"));
}

TEST(Signs, ARowOfMinusInfinityHasZeroForItsLargest) {
  EXPECT_TRUE(holds(
      kMaximum +
      "  shift[i:8]: S[i] = select(M[i] == -inf, 0, M[i])\n  power[i:8, j:16]: O[i, j] = exp(X[i, j] - S[i])\n"));
  EXPECT_FALSE(holds(
      kMaximum +
      "  shift[i:8]: S[i] = select(M[i] == -inf, -1, M[i])\n  power[i:8, j:16]: O[i, j] = exp(X[i, j] - S[i])\n"));
  EXPECT_FALSE(holds(
      kMaximum +
      "  shift[i:8]: S[i] = select(M[i] == 3, 0, M[i])\n  power[i:8, j:16]: O[i, j] = exp(X[i, j] - S[i])\n"));
}

TEST(Signs, OtherElementsMayBeLarger) {
  EXPECT_FALSE(holds(kMaximum + "  power[i:8, j:16]: O[i, j] = exp(Z[i, j] - M[i])\n"));
  EXPECT_FALSE(holds(kMaximum + "  power[i:8, j:16]: O[i, j] = exp(M[i] - X[i, j])\n"));
  EXPECT_FALSE(holds(kMaximum + "  power[i:8, j:16]: O[i, j] = exp(X[i, j] - M[7 - i])\n"));
  EXPECT_FALSE(holds(
      kInit +
      "  maximum[i:8, j:15]: M[i] maxnum= X[i, j]\n  power[i:8, j:16]: O[i, j] = exp(X[i, j] - M[i])\n"));
  EXPECT_FALSE(holds(
      kInit +
      "  maximum[i:8, j:16] where j - 2 >= 0: M[i] maxnum= X[i, j]\n  power[i:8, j:16]: O[i, j] = exp(X[i, j] - M[i])\n"));
  EXPECT_FALSE(
      holds(kInit +
            "  smallest[i:8, j:16]: M[i] min= X[i, j]\n  power[i:8, j:16]: O[i, j] = exp(X[i, j] - M[i])\n"));
}

TEST(Signs, WhatIsWrittenInBetweenMayBeLarger) {
  EXPECT_FALSE(
      holds(kMaximum + "  less[i:8]: M[i] = 0\n  power[i:8, j:16]: O[i, j] = exp(X[i, j] - M[i])\n"));
  EXPECT_FALSE(holds(kInit + "  maximum[i:8, j:16]: M[i] maxnum= O[i, j]\n  other[i:8, j:16]: O[i, j] = 7\n"
                             "  power[i:8, j:16]: O[i, j] = exp(O[i, j] - M[i])\n"));
}

}  // namespace
}  // namespace tc
