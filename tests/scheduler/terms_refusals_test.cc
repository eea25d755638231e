// Where products cannot be divided into terms, or the terms not be given to a matrix unit, the refusal says
// why.
#include <gtest/gtest.h>

#include "ir/error.h"
#include "tests/terms.h"
#include "tests/scheduler_kernels.h"

namespace tc::testing {
namespace {

// A kernel of a few lines: a product of 20 rows, 32 channels and 16 features with some of them replaced.
std::string product_with(const Changes& changes) {
  const std::string all = R"(kernel "product"
  input I f32[20, 32]
  constant K f32[32, 16]
  output O f32[20, 16]
  local T f32[20, 16]
  init[m:20, n:16]: T[m, n] = 0
  macc[m:20, n:16, k:32]: T[m, n] += I[m, k] * K[k, n]
  tail[m:20, n:16]: O[m, n] = T[m, n]
)";
  return replaced(all, changes);
}

std::string refusal(const std::string& kernel, const std::vector<std::string>& lines,
                    const Target& target = unit_target()) {
  Schedule schedule(parse_kernel(kernel), target);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (auto refused = schedule.apply(lines[i])) {
      if (i + 1 < lines.size()) return "too early: " + *refused;
      return refused->substr(std::min(refused->size(), lines[i].size() + 2));
    }
  }
  return "accepted";
}

TEST(TermsRefusals, RewritesAreRefusedByName) {
  const std::string line = "algorithm macc bf16x3 20 1 1 1 16";
  const std::string macc = "macc[m:20, n:16, k:32]: T[m, n] += I[m, k] * K[k, n]";
  auto with = [&](const Changes& changes, std::vector<std::string> before = {}) {
    before.push_back(line);
    return refusal(product_with(changes), before);
  };
  auto sum = [&](const std::string& text) { return std::pair(macc, text); };
  const std::pair<std::string, std::string> map = {"I f32[20, 32]", "I f32[4, 5, 32]"};
  EXPECT_EQ(with({}), "accepted");
  EXPECT_EQ(refusal(product_with({}), {line}, parse_target("x86-64-v3")),
            "target x86-64-v3 has no matrix unit");
  EXPECT_EQ(refusal(product_with({}), {line}, unit_target({kDigits.format})),
            "the matrix unit of target x86-64-v4 does not multiply bf16");
  EXPECT_EQ(refusal(product_with({{"I f32[20, 32]", "I f32[20, 50000]"},
                                  {"K f32[32, 16]", "K f32[50000, 16]"},
                                  {"k:32]", "k:50000]"}}),
                    {"algorithm macc int8x6 20 1 1 1 16"}),
            "statement macc sums up 150000 products of digits, but i32 holds 131071");
  EXPECT_EQ(with({}, {"algorithm macc int8x6 20 1 1 1 16", "pack K : macc_panel"}),
            "too early: pack K : macc_panel: statement macc has no iterator 'macc_panel'");
  EXPECT_EQ(with({}, {"algorithm macc int8x6 20 1 1 1 16", "pack K : panel fp cb fn by g n e"}),
            "too early: pack K : panel fp cb fn by g n e: constant K is packed as the algorithm needs it");
  EXPECT_EQ(refusal(product_with({}), {"algorithm gone bf16x3 1 1 1 1 1"}),
            "no statement 'gone'; there are: init, macc, tail");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 1 1 1 17"}),
            "an accumulator has 16 rows, fewer than 17");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 0 1 1 1 1"}),
            "the rows of a band must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 0 1 1 1"}),
            "the blocks of a panel must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 1 0 1 1"}),
            "the blocks at a time must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 1 1 0 1"}),
            "the accumulators at a time must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm macc bf16x3 1 1 1 1 0"}),
            "the rows of an accumulator must be at least 1, got 0");
  EXPECT_EQ(refusal(product_with({}), {"algorithm tail bf16x3 1 1 1 1 1"}),
            "statement tail is no sum of products in f32");
  EXPECT_EQ(refusal(str(symbolic_product()), {"layout T 1 16", "algorithm macc bf16x3 1025 1 1 1 16"}),
            "the number of rows, p, is symbolic: a band has at most 1024");
  EXPECT_EQ(with({{"constant K", "input K"}}), "statement macc does not multiply an input by a constant");
  EXPECT_EQ(with({{"O[m, n] = T[m, n]", "O[m, n] = T[m, n] + K[0, n]"}}),
            "constant K is read at 2 places, not at one");
  EXPECT_EQ(with({}, {"pack K : n k"}), "constant K is packed already");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[20, 32]\n  input N i64[20]"},
                  sum("macc[m:20, n:16, k:32]: T[m, n] += I[{min(max(N[m], 0), 19)}, k] * K[k, n]")}),
            "statement macc has an index that depends on data");
  EXPECT_EQ(with({{"local T f32[20, 16]", "output T f32[20, 16]"}}),
            "the sums are in T, which is not private: stage it");
  EXPECT_EQ(with({}, {"layout T 1 8"}), "the features of T are not in blocks of 16");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:32]: T[m, n] += I[m, k] * K[m, n]")}),
            "iterator m counts groups: they are not supported");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:32]: T[m, n] += I[m, 0] * K[0, n]")}),
            "iterator k is in no operand of macc");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[4, 32]"},
                  {"T f32[20, 16]", "T f32[4, 5, 16]"},
                  {"init[m:20, n:16]: T[m, n]", "init[a:4, m:5, n:16]: T[a, m, n]"},
                  sum("macc[a:4, b:1, m:5, n:16, k:16]: T[a, m, n] += I[a, k] * K[k + m + b, n]"),
                  {"T[m, n]\n", "T[0, 0, n]\n"}}),
            "iterator b of macc is summed over in one operand only");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[4, 32]"},
                  {"T f32[20, 16]", "T f32[2, 2, 16]"},
                  {"init[m:20, n:16]: T[m, n]", "init[a:2, b:2, n:16]: T[a, b, n]"},
                  sum("macc[a:2, b:2, n:16, k:30]: T[a, b, n] += I[0, k] * K[k + a + b, n]"),
                  {"T[m, n]\n", "T[0, 0, n]\n"}}),
            "features are counted by a and by b");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:16]: T[m, n] += I[m, k + n] * K[k, 0]")}),
            "iterator n is not along the constant's features");
  EXPECT_EQ(with({{"T f32[20, 16]", "T f32[1, 16]"},
                  {"init[m:20, n:16]: T[m, n]", "init[n:16]: T[0, n]"},
                  sum("macc[n:16, k:32]: T[0, n] += I[0, k] * K[k, n]"),
                  {"T[m, n]\n", "T[0, n]\n"}}),
            "statement macc has no rows");
  EXPECT_EQ(with({sum("macc[m:10, n:16, k:32]: T[2*m, n] += I[m, k] * K[k, n]")}),
            "statement macc writes at 2*m");
  EXPECT_EQ(with({{"K f32[32, 16]", "K f32[32, 40]"},
                  {"T f32[20, 16]", "T f32[20, 2, 16]"},
                  {"init[m:20, n:16]: T[m, n]", "init[m:20, f:2, n:16]: T[m, f, n]"},
                  sum("macc[m:20, f:2, n:16, k:32]: T[m, f, n] += I[m, k] * K[k, 20*f + n]"),
                  {"T[m, n]\n", "T[m, 0, n]\n"}}),
            "constant K is not indexed by blocks of 16 features");
  EXPECT_EQ(
      with({{"I f32[20, 32]", "I f32[32, 20]"}, sum("macc[m:20, n:16, k:32]: T[m, n] += I[k, m] * K[k, n]")}),
      "what is summed over is not the innermost dimension of I");
  EXPECT_EQ(with({}, {"layout I 1 5"}), "blocks of 5 channels do not fill a depth of 32");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:16]: T[m, n] += I[m, k + 16] * K[k, n]")}, {"layout I 1 16"}),
            "channels of I are counted by 1");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[52, 32]"},
                  sum("macc[m:20, n:16, k:32]: T[m, n] += I[m + k, k] * K[k, n]")}),
            "channels of I are in several dimensions");
  EXPECT_EQ(with({{"K f32[32, 16]", "K f32[64, 16]"},
                  sum("macc[m:20, n:16, a:2, k:16]: T[m, n] += I[m, 16*a + k] * K[32*a + k, n]")},
                 {"layout I 1 16"}),
            "constant K is not indexed by all channels");
  EXPECT_EQ(with({{"k:32]", "k:32] where m - k >= 0"}}), "statement macc has the condition -k + m >= 0");
  EXPECT_EQ(with({{"T[m, n] = 0", "T[m, n] = 1"}}), "statement init before macc does not only set T to 0");
  EXPECT_EQ(with({{"tail[m:20, n:16]: O[m, n] = T[m, n]", "tail[m:19, n:16]: O[m, n] = T[m, n]"}}),
            "statement tail after macc is not elementwise over T");
  EXPECT_EQ(with({sum("macc[m:20, n:16, k:32]: T[m, n] += I[19 - m, k] * K[k, n]")}),
            "the input is read backwards along m");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f32[20, 20, 32]"},
                  sum("macc[m:20, n:16, k:32]: T[m, n] += I[m, m, k] * K[k, n]")}),
            "iterator m is in several dimensions of I");
  EXPECT_EQ(
      with(
          {{"I f32[20, 32]", "I f32[2, 2, 2, 2, 32]"},
           {"T f32[20, 16]", "T f32[2, 2, 2, 2, 16]"},
           {"init[m:20, n:16]: T[m, n]", "init[a:2, b:2, c:2, d:2, n:16]: T[a, b, c, d, n]"},
           sum("macc[a:2, b:2, c:2, d:2, s:1, n:16, k:32]: T[a, b, c, d, n] += I[a + s, b, c, d, k] * K[k + s, n]"),
           {"tail[m:20, n:16]: O[m, n] = T[m, n]",
            "tail[a:2, b:2, c:2, d:2, n:16]: O[4*a + 2*b + c + d, n] = T[a, b, c, d, n]"}}),
      "rows are counted by more than three iterators");
  EXPECT_EQ(
      with({{"I f32[20, 32]", "I f32[320]"}, sum("macc[m:20, n:16, k:16]: T[m, n] += I[16*m + k] * K[k, n]")},
           {"layout I 0 16"}),
      "iterator m does not count channels only");
  EXPECT_EQ(with({{"I f32[20, 32]", "I f64[20, 32]"},
                  sum("macc[m:20, n:16, k:32]: T[m, n] += f32(I[m, k]) * K[k, n]")}),
            "statement macc is no sum of products in f32");
}

// The order of a rewritten product, with the unit's loops innermost.
TEST(TermsRefusals, TensorizeIsRefusedByName) {
  const std::vector<std::string> rewritten = {
      "algorithm macc bf16x3 20 1 1 1 16",
      "order macc_band macc_panel macc_fp macc_fn macc_rt macc_cb macc_part macc_by macc_row macc_n macc_g macc_e"};
  auto after = [&](std::vector<std::string> lines) {
    lines.insert(lines.begin(), rewritten.begin(), rewritten.end());
    return refusal(product_with({}), lines);
  };
  EXPECT_EQ(after({"tensorize macc_row macc_n macc_g macc_e"}), "accepted");
  EXPECT_EQ(refusal(product_with({}), {"tensorize macc_m macc_n macc_k macc_k"}, parse_target("x86-64-v3")),
            "target x86-64-v3 has no matrix unit");
  EXPECT_EQ(after({"tensorize macc_by macc_n macc_g macc_e"}),
            "loop macc_n is not directly inside loop macc_by");
  EXPECT_EQ(after({"tensorize macc_n macc_g macc_e macc_row"}),
            "loop macc_row is not directly inside loop macc_e");
  EXPECT_EQ(after({"tensorize macc_by macc_row macc_n macc_g"}),
            "loop macc_g is not the innermost loop of one statement");
  EXPECT_EQ(after({"vectorize macc_e", "tensorize macc_row macc_n macc_g macc_e"}),
            "loop macc_e is vectorized already; marks come last");
  EXPECT_EQ(after({"tensorize macc_row macc_n macc_g macc_e", "unroll macc_row"}),
            "loop macc_row is tensorized already; marks come last");
  // A product as the unit takes it, with parts of it replaced.
  auto changed = [&](const Changes& changes) {
    const std::string all = R"(kernel "unit"
  input A bf16[16, 32]
  input B bf16[16, 16, 2]
  input F f32[16, 32]
  input N i64[16]
  output O f32[16, 16]
  zero[i:16, j:16]: O[i, j] = 0
  dot[i:16, j:16, g:16, e:2]: O[i, j] += f32(A[i, 2*g + e]) * f32(B[g, j, e])
)";
    return refusal(replaced(all, changes), {"tensorize dot_i dot_j dot_g dot_e"});
  };
  EXPECT_EQ(changed({}), "accepted");
  EXPECT_EQ(changed({{"O[i, j] += f32(A[i, 2*g + e]) * f32(B[g, j, e])", "O[i, j] += f32(A[i, 2*g + e])"}}),
            "its value is no sum of products");
  EXPECT_EQ(changed({{"O[i, j] += f32(A[i, 2*g + e])", "O[i, j] = f32(A[i, 2*g + e])"}}),
            "statement dot is no sum");
  EXPECT_EQ(changed({{"e:2]", "e:2] where i - g >= 0"}}), "statement dot has the condition -g + i >= 0");
  EXPECT_EQ(changed({{"O[i, j] +=", "O[j, i] +="}}), "statement dot does not write rows of columns");
  EXPECT_EQ(changed({{"A[i, 2*g + e]", "A[i, g + 16*e]"}}),
            "operand A of dot does not have the depth of 16 x 2 next to each other");
  EXPECT_EQ(changed({{"A[i, 2*g + e]", "A[{min(max(N[i], 0), 15)}, 2*g + e]"}}),
            "buffer A is not read at fixed steps");
  EXPECT_EQ(changed({{"B[g, j, e]", "B[j, g, e]"}}),
            "operand B of dot is not packed as [groups][columns][packed elements]");
  EXPECT_EQ(changed({{"f32(A[i, 2*g + e])", "F[i, 2*g + e]"}}),
            "statement dot multiplies f32, which the unit does not");
  EXPECT_EQ(changed({{"f32(B[g, j, e])", "F[g, j]"}}), "an operand of dot is not read and cast to f32");
  EXPECT_EQ(changed({{"output O f32", "output O f64"},
                     {"O[i, j] += f32(A[i, 2*g + e]) * f32(B[g, j, e])",
                      "O[i, j] += f64(A[i, 2*g + e]) * f64(B[g, j, e])"}}),
            "buffer O is f64, but the unit takes f32");
  EXPECT_EQ(refusal(R"(kernel "parts"
  input A bf16[32, 32]
  input B bf16[16, 16, 2]
  output O f32[32, 16]
  zero[i:32, j:16]: O[i, j] = 0
  dot[i:32, j:16, g:16, e:2]: O[i, j] += f32(A[i, 2*g + e]) * f32(B[g, j, e])
)",
                    {"split dot_i 16 as o i", "tensorize i dot_j dot_g dot_e"}),
            "loop i counts a part of i only: strip it");
}

}  // namespace
}  // namespace tc::testing
