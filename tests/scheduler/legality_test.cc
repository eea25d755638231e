// What legality refuses, one kind of dependence at a time, and the sentences it says; what differs from
// each only in being harmless is allowed.
#include <gtest/gtest.h>

#include "ir/loop.h"
#include "scheduler/scheduler.h"

namespace tc {
namespace {

// Applies the lines; the last one's refusal, or what check() says of a mark, or nothing.
std::string refusal(const std::string& kernel, const std::vector<std::string>& lines) {
  const Kernel parsed = parse_kernel(kernel);
  verify(parsed);
  Schedule schedule(parsed, parse_target("x86-64-v4"));
  for (size_t i = 0; i + 1 < lines.size(); ++i) EXPECT_EQ(schedule.apply(lines[i]), std::nullopt) << lines[i];
  const std::string before = schedule.tree();
  const auto refused = schedule.apply(lines.back());
  if (!refused) return schedule.check().value_or("");
  EXPECT_EQ(schedule.tree(), before) << "a refused primitive changes nothing";
  return *refused;
}

void expect_words(const std::string& refused, const std::vector<std::string>& words) {
  EXPECT_NE(refused, "");
  for (const std::string& word : words) EXPECT_NE(refused.find(word), std::string::npos) << refused;
}

std::string two_statements(const std::string& index) {
  return "kernel \"k\"\n  input A f32[8]\n  output O f32[8]\n  local T f32[8]\n"
         "  a[i:8]: T[i] = A[i] * 2\n  b[i:8]: O[i] = T[" +
         index + "] + 1\n";
}

TEST(Legality, WhatIsReadIsWrittenBefore) {
  EXPECT_EQ(refusal(two_statements("i"), {"fuse a_i b_i as i"}), "");
  expect_words(refusal(two_statements("7 - i"), {"fuse a_i b_i as i"}), {"a[i=", "must run before", "b[i="});
}

std::string overwritten(const std::string& index, const std::string& target) {
  return "kernel \"k\"\n  input C f32[8]\n  output B f32[8]\n  output O f32[8]\n  local A f32[8]\n"
         "  first[i:8]: A[i] = C[i]\n  a[i:8]: B[i] = A[" +
         index + "]\n  b[i:8]: " + target +
         "[i] = C[i] + 1\n"
         "  last[i:8]: O[i] = A[i]\n";
}

TEST(Legality, WhatIsStillReadIsNotOverwritten) {
  EXPECT_EQ(refusal(overwritten("i", "A"), {"fuse a_i b_i as i"}), "");
  EXPECT_EQ(refusal(overwritten("7 - i", "O"), {"fuse a_i b_i as i"}), "");
  expect_words(refusal(overwritten("7 - i", "A"), {"fuse a_i b_i as i"}),
               {"a[i=", "must run before", "b[i="});
}

const char* const kTwice = R"(kernel "written twice"
  input A f32[8]
  input C f32[8]
  output O f32[8]
  a[i:8]: O[7 - i] = A[i]
  b[i:8]: O[i] = C[i]
)";

TEST(Legality, TheLastWriteStays) {
  expect_words(refusal(kTwice, {"fuse a_i b_i as i"}), {"a[i=", "must run before", "b[i="});
}

TEST(Legality, AStatementThatReadsWhatItWrites) {
  const std::string scan =
      "kernel \"scan\"\n  input A f32[4, 9]\n  output O f32[4, 9]\n"
      "  next[j:8, i:4]: O[i, j + 1] = O[i, j] + A[i, j + 1]\n";
  expect_words(refusal(scan, {"parallel next_j"}),
               {"loop next_j cannot be parallel", "next[j=", "must run before"});
  EXPECT_EQ(refusal(scan, {"vectorize next_i"}), "");
  EXPECT_EQ(refusal(scan, {"order next_i next_j", "parallel next_i"}), "");
  expect_words(refusal(scan, {"order next_i next_j", "vectorize next_j"}), {"loop next_j cannot be vector"});
}

TEST(Legality, SumsAreReorderedButNotShared) {
  const std::string sum =
      "kernel \"sum\"\n  input A f32[8, 4]\n  output O f32[4]\n"
      "  init[i:4]: O[i] = 0\n  add[k:8, i:4]: O[i] += A[k, i]\n";
  EXPECT_EQ(refusal(sum, {"order add_i add_k"}), "");
  EXPECT_EQ(refusal(sum, {"order add_i add_k", "fuse init_i add_i as i", "parallel i"}), "");
  EXPECT_EQ(refusal(sum, {"order add_i add_k", "vectorize add_k"}), "");
  const std::string all =
      "kernel \"all\"\n  input A f32[8]\n  output O f32[1]\n"
      "  init[z:1]: O[z] = 0\n  add[k:8]: O[0] += A[k]\n";
  expect_words(refusal(all, {"fuse init_z add_k as k", "parallel k"}),
               {"loop k cannot be parallel", "init[z=0]", "must run before", "add[k="});
}

TEST(Legality, StatementsStayInOrder) {
  const char* kernel = R"(kernel "three"
  input A f32[8]
  output O f32[8]
  local T f32[8]
  local U f32[8]
  a[i:8]: T[i] = A[i]
  b[i:8]: U[i] = A[i] + 1
  c[i:8]: O[i] = T[i] + U[i]
)";
  EXPECT_EQ(refusal(kernel, {"compute_at a at b_i"}), "");
  expect_words(refusal(kernel, {"compute_at c at a_i"}), {"b[i=", "must run before", "c[i=", "order"});
}

}  // namespace
}  // namespace tc
