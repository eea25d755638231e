// Sums of products of bytes whose weights are multiplied two at a time (the primitive `pairs`).
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ir/loop.h"
#include "scheduler/scheduler.h"

namespace tc::testing {
namespace {

constexpr int64_t kRows = 3, kResults = 16, kTerms = 6;

Kernel product() {
  return parse_kernel(
      "kernel product\n  input A i8[3, 6]\n  constant B i8[6, 16]\n  output C i32[3, 16]\n  local T i32[3, 16]\n"
      "  init[i:3, j:16]: T[i, j] = 0\n  macc[i:3, j:16, k:6]: T[i, j] += i32(A[i, k]) * i32(B[k, j])\n"
      "  tail[i:3, j:16]: C[i, j] = T[i, j] + 7\n");
}

// Operands of which every combination of the extreme values meets in some pair of results and of steps.
std::map<std::string, Tensor> extremes() {
  constexpr int8_t kValues[] = {-128, 127, -127, 0};
  std::map<std::string, Tensor> tensors;
  Tensor a(DType::I8, {kRows, kTerms}), b(DType::I8, {kTerms, kResults});
  for (int64_t i = 0; i < a.count(); ++i)
    a.data<int8_t>()[i] = i < kTerms ? int8_t{-128} : kValues[(i * 7 + i / 5) % 4];
  for (int64_t k = 0; k < kTerms; ++k) {
    for (int64_t j = 0; j < kResults; ++j)
      b.data<int8_t>()[k * kResults + j] = kValues[(k % 2 == 0 ? j : j / 4) % 4];
  }
  tensors["A"] = a;
  tensors["B"] = b;
  tensors["C"] = Tensor(DType::I32, {kRows, kResults});
  return tensors;
}

TEST(Pairs, SumsOfTheLargestProductsAreExact) {
  const Kernel kernel = product();
  Schedule schedule(kernel, parse_target("rv32imfc"));
  for (const char* line :
       {"layout T 1 4", "strip macc_j_o 2 as p v", "pack B : p k v j_i", "algorithm macc pairs v k"})
    ASSERT_EQ(schedule.apply(line), std::nullopt) << line;
  const ScheduledKernel scheduled = schedule.finish();
  std::map<std::string, Tensor> tensors = extremes();
  tensors["B"] = pack(scheduled.kernel.packings.at(0), scheduled.kernel, tensors.at("B"));
  interpret(scheduled.kernel, {}, tensors);
  const std::map<std::string, Tensor> given = extremes();
  for (int64_t i = 0; i < kRows; ++i) {
    for (int64_t j = 0; j < kResults; ++j) {
      int64_t sum = 7;
      for (int64_t k = 0; k < kTerms; ++k)
        sum += given.at("A").as_int(i * kTerms + k) * given.at("B").as_int(k * kResults + j);
      EXPECT_EQ(tensors.at("C").as_int(i * kResults + j), sum) << i << " " << j;
    }
  }
}

TEST(Pairs, WhatHasNoPairsIsRefused) {
  const auto refused = [](const std::string& from, const std::string& to,
                          const std::vector<std::string>& lines) {
    std::string kernel = str(product());
    for (size_t at = kernel.find(from); at != std::string::npos; at = kernel.find(from, at + to.size()))
      kernel.replace(at, from.size(), to);
    Schedule schedule(parse_kernel(kernel), parse_target("rv32imfc"));
    for (const std::string& line : lines) EXPECT_EQ(schedule.apply(line), std::nullopt) << line;
    return schedule.apply("algorithm macc pairs v k").value_or("accepted");
  };
  const std::vector<std::string> lines = {"layout T 1 4", "strip macc_j_o 2 as p v", "pack B : p k v j_i"};
  const auto tells = [](const std::string& refusal, const std::string& text) {
    EXPECT_NE(refusal.find(text), std::string::npos) << refusal;
  };
  EXPECT_EQ(refused("product", "product", lines), "accepted");
  tells(refused("A i8", "A u8", lines), "statement macc does not multiply signed bytes");
  tells(refused("T[i, j] = 0", "T[i, j] = 1", lines),
        "statement init writes more than zeros to what statement macc adds up");
  tells(refused("T[i, j] + 7", "T[i, 15 - j] + 7", {"strip macc_j 2 as p v", "pack B : p k v"}),
        "statement tail does not read the sums in pairs");
  tells(refused("A[i, k]", "A[i, k]", {"strip macc_j 4 as v w", "strip macc_v 2 as p v", "pack B : p k v w"}),
        "what statement macc writes is no private buffer in which v counts neighbours");
  std::string apart = str(product());
  for (const auto& [from, to] : {std::pair("A i8[3, 6]", "A i8[3, 6, 16]"), {"A[i, k]", "A[i, k, j]"}})
    apart.replace(apart.find(from), std::string(from).size(), to);
  Schedule schedule(parse_kernel(apart), parse_target("rv32imfc"));
  for (const std::string& line : lines) EXPECT_EQ(schedule.apply(line), std::nullopt) << line;
  tells(schedule.apply("algorithm macc pairs v k").value_or("accepted"),
        "what v counts does not share the elements of A");
}

}  // namespace
}  // namespace tc::testing
