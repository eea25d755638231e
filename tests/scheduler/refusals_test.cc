// Every refusal of the schedule primitives, in full: tests/golden/schedule_refusals.txt lists the
// lines of a trace and what the last of them is answered.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "ir/error.h"
#include "ir/loop.h"
#include "ir/target/target.h"
#include "scheduler/scheduler.h"
#include "tests/golden_file.h"

namespace tc {
namespace {

const std::map<std::string, std::string> kKernels = {
    {"product", R"(kernel "product"
  input A f32[8, 6]
  constant B f32[6, 16]
  output C f32[8, 16]
  local T f32[8, 16]
  init[i:8, j:16]: T[i, j] = 0
  macc[i:8, j:16, k:6]: T[i, j] += A[i, k] * B[k, j]
  tail[i:8, j:16]: C[i, j] = max(T[i, j], 0)
)"},
    {"symbolic", R"(kernel "symbolic"
  parameter n = seq in [1, 1000]
  input A f32[n, 16]
  constant B f32[16, n]
  output C f32[n, 16]
  copy[i:n, j:16]: C[i, j] = A[i, j] + B[j, i]
)"},
    {"scan", R"(kernel "scan"
  input A f32[8, 8]
  output C f32[8, 8]
  copy[i:8, j:8]: C[i, j] = A[i, j]
  step[i:7, j:7]: C[i + 1, j] = C[i, j + 1]
)"},
    {"gather", R"(kernel "gather"
  input N i64[8]
  constant B f32[100, 6]
  output C f32[8, 6]
  output D f32[100]
  take[i:8, j:6]: C[i, j] = B[{min(max(N[i], 0), 99)}, j]
  put[i:8]: D[{min(max(N[i], 0), 99)}] = 1
)"},
    {"odd", R"(kernel "odd"
  input A f32[4, 10]
  constant K f32[64]
  output C f32[4, 10]
  output D f32[40]
  output E f32[4, 10]
  ends[i:4, j:9] where j - i >= 0: C[i, j] = A[i, j + 1] * K[i]
  flat[i:4, j:10]: D[10*i + j] = A[i, j] * K[j]
  count[i:4, j:10]: E[i, j] = f32(index(i))
  more[i:4, j:10]: E[i, j] += A[i, j] * K[i + j]
)"},
    {"big", R"(kernel "big"
  constant K f32[2]
  output C f32[5000, 300]
  output S f32[4, 4]
  output Z f32[2]
  fill[i:5000, j:300]: C[i, j] = K[0]
  add[i:4, j:4]: S[i, j] += 1
)"},
    {"twice", R"(kernel "twice"
  input A f32[3]
  output C f32[6]
  twice[i:3, j:2]: C[2*i + j] = A[i]
)"},
    {"counts", R"(kernel "counts"
  parameter n = seq in [1, 1000]
  output C f32[20]
  output D f32[4, n]
  number[i:4, j:5]: C[5*i + j] = f32(index(i))
  whole[i:4, j:n]: D[i, j] = 1
)"},
    {"running", R"(kernel "running"
  output C f32[9]
  step[i:8]: C[i + 1] = C[i] + 1
)"},
    {"table", R"(kernel "table"
  parameter n = seq in [16, 1000]
  constant B f32[n]
  output C f32[16, 4]
  output D f32[4, n]
  copy[i:16, j:4]: C[i, j] = B[i]
  fill[i:4, j:n]: D[i, j] = 1
)"},
    {"uneven", R"(kernel "uneven"
  parameter n = seq in [1, 1000]
  output D f32[n, n + 1]
  fill[i:n, j:n + 1]: D[i, j] = 1
)"},
    {"pairs", R"(kernel "pairs"
  input A f32[4, 4]
  output C f32[4, 4, 4]
  output D f32[10]
  both[i:4, j:4, k:4]: C[i, j, k] = A[i, j] + A[j, k]
  some[i:3, j:2]: D[4*i + j] = 1
)"},
    {"products", R"(kernel "products"
  input A f32[8, 6]
  input B f32[6, 16]
  output C f32[8, 16]
  init[i:8, j:16]: C[i, j] = 0
  macc[i:8, j:16, k:6]: C[i, j] += A[i, k] * B[k, j]
)"},
    {"window", R"(kernel "window"
  input I f32[1, 8, 10, 10]
  constant K f32[8, 8, 3, 3]
  output O f32[1, 8, 8, 8]
  local T f32[1, 8, 8, 8]
  init[f:8, y:8, x:8]: T[0, f, y, x] = 0
  macc[f:8, y:8, x:8, c:8, r:3, s:3]: T[0, f, y, x] += I[0, c, y + r, x + s] * K[f, c, r, s]
  tail[f:8, y:8, x:8]: O[0, f, y, x] = max(T[0, f, y, x], 0)
)"},
    {"wide", R"(kernel "wide"
  input I f32[1, 8, 10, 10]
  constant K f32[8, 8, 5, 3]
  output O f32[1, 8, 6, 8]
  init[f:8, y:6, x:8]: O[0, f, y, x] = 0
  macc[f:8, y:6, x:8, c:8, r:5, s:3]: O[0, f, y, x] += I[0, c, y + r, x + s] * K[f, c, r, s]
)"},
    {"strided", R"(kernel "strided"
  input I f32[1, 8, 9, 9]
  constant K f32[8, 8, 3, 3]
  output O f32[1, 8, 4, 4]
  init[f:8, y:4, x:4]: O[0, f, y, x] = 0
  macc[f:8, y:4, x:4, c:8, r:3, s:3]: O[0, f, y, x] += I[0, c, 2*y + r, 2*x + s] * K[f, c, r, s]
)"},
    {"dilated", R"(kernel "dilated"
  input I f32[1, 8, 9, 9]
  constant K f32[8, 8, 3, 3]
  output O f32[1, 8, 5, 5]
  init[f:8, y:5, x:5]: O[0, f, y, x] = 0
  macc[f:8, y:5, x:5, c:8, r:3, s:3]: O[0, f, y, x] += I[0, c, y + 2*r, x + 2*s] * K[f, c, r, s]
)"},
    {"grouped", R"(kernel "grouped"
  input I f32[1, 16, 9, 9]
  constant K f32[16, 8, 3, 3]
  output O f32[1, 16, 7, 7]
  init[g:2, f:8, y:7, x:7]: O[0, 8*g + f, y, x] = 0
  macc[g:2, f:8, y:7, x:7, c:8, r:3, s:3]: O[0, 8*g + f, y, x] += I[0, 8*g + c, y + r, x + s] * K[8*g + f, c, r, s]
)"},
    {"partial", R"(kernel "partial"
  input I f32[1, 8, 9, 9]
  constant K f32[8, 8, 3, 3]
  output O f32[1, 8, 7, 7]
  init[f:8, y:7, x:7]: O[0, f, y, x] = 0
  macc[f:8, y:7, x:7, c:8, r:3, s:3] where y - r >= 0: O[0, f, y, x] += I[0, c, y + r, x + s] * K[f, c, r, s]
)"},
    {"scaled", R"(kernel "scaled"
  input I f32[1, 8, 9, 9]
  constant K f32[8, 8, 3, 3]
  output O f32[1, 8, 7, 7]
  init[f:8, y:7, x:7]: O[0, f, y, x] = 0
  first[f:8, y:7, x:7]: O[0, f, y, x] = 1
  macc[f:8, y:7, x:7, c:8, r:3, s:3]: O[0, f, y, x] += I[0, c, y + r, x + s] * K[f, c, r, s]
)"},
    {"repeated", R"(kernel "repeated"
  input I f32[1, 8, 9, 9]
  constant K f32[8, 8, 3, 3]
  output O f32[1, 8, 7, 7]
  init[f:8, y:7, x:7]: O[0, f, y, x] = 0
  macc[f:8, y:7, x:7, c:8, r:3, s:3, q:2]: O[0, f, y, x] += I[0, c, y + r, x + s] * K[f, c, r, s]
)"},
    {"spread", R"(kernel "spread"
  input I f32[1, 8, 9, 9]
  constant K f32[8, 8, 3, 3]
  output O f32[2, 8, 7, 7]
  init[n:2, f:8, y:7, x:7]: O[n, f, y, x] = 0
  macc[n:2, f:8, y:7, x:7, c:8, r:3, s:3]: O[n, f, y, x] += I[0, c, y + r, x + s] * K[f, c, r, s]
)"},
    {"shifted", R"(kernel "shifted"
  input I f32[1, 8, 10, 10]
  constant K f32[8, 8, 3, 3]
  output O f32[1, 8, 7, 8]
  local T f32[1, 8, 8, 8]
  init[f:8, y:8, x:8]: T[0, f, y, x] = 0
  macc[f:8, y:8, x:8, c:8, r:3, s:3]: T[0, f, y, x] += I[0, c, y + r, x + s] * K[f, c, r, s]
  tail[f:8, y:7, x:8]: O[0, f, y, x] = max(T[0, f, y, x], T[0, f, y + 1, x])
)"},
    {"cube", R"(kernel "cube"
  input A f32[4, 4, 8]
  output C f32[4, 4, 8]
  copy[i:4, j:4, k:8]: C[i, j, k] = A[i, j, k]
)"},
};

struct Case {
  std::string kernel;
  std::vector<std::string> lines;  // the last one is refused
};

const std::vector<Case> kCases = {
    // Words.
    {"product", {""}},
    {"product", {"split"}},
    {"product", {"split 7up 4 as a b"}},
    {"product", {"split init_i four as a b"}},
    {"product", {"split init_i"}},
    {"product", {"split init_i 0 as a b"}},
    {"product", {"split init_i 4"}},
    {"product", {"split init_i 4 to a b"}},
    {"product", {"split init_i 4 as a b c"}},
    {"product", {"7up init_i"}},
    {"product", {"fuse init_i"}},
    {"product", {"fuse init_i macc_i"}},
    {"product", {"unroll init_i 4 4"}},
    {"product", {"unroll init_i 0"}},
    {"product", {"algorithm"}},
    {"product", {"algorithm macc"}},
    {"product", {"algorithm macc winograd 4"}},
    {"product", {"algorithm macc bf16 1 1 1 1 1"}},
    {"product", {"tensorize macc_i macc_j macc_k macc_k"}},
    // Loops and marks.
    {"product", {"split init_z 4 as a b"}},
    {"product", {"split init_i 4 as a a"}},
    {"product", {"split init_i 4 as init_j b"}},
    {"symbolic", {"split copy_i 4 as n b"}},
    {"product", {"vectorize init_j", "split init_j 4 as a b"}},
    {"product", {"unroll init_j", "split init_j 4 as a b"}},
    {"product", {"isolate init_j", "split init_j 4 as a b"}},
    {"symbolic", {"parallel copy_i", "split copy_i 4 as a b"}},
    {"product", {"split init_i 4 as a b", "stage C"}},
    // order
    {"product", {"order macc_i"}},
    {"product", {"order macc_i macc_i"}},
    {"product", {"order macc_i init_i"}},
    {"product", {"order macc_i macc_k"}},
    {"scan", {"order step_j step_i"}},
    // fuse
    {"product", {"fuse init_i as i"}},
    {"product", {"fuse init_i init_i as i"}},
    {"product", {"fuse init_i macc_j as i"}},
    {"product", {"fuse init_i tail_i as i"}},
    {"scan", {"fuse copy_i step_i as i"}},
    // compute_at
    {"product", {"compute_at at macc_i"}},
    {"product", {"compute_at gone at macc_i"}},
    {"product", {"compute_at init at macc_z"}},
    {"product", {"compute_at init at macc_k"}},
    {"product", {"compute_at init at init_i"}},
    {"product", {"fuse init_i macc_i as i", "compute_at tail at macc_j"}},
    {"product", {"split macc_i 3 as a b", "split tail_i 2 as c d", "compute_at tail at b"}},
    {"product", {"compute_at tail at macc_k"}},
    {"product", {"compute_at tail at macc_j", "compute_at init at macc_k"}},
    {"product", {"order macc_k macc_i macc_j", "compute_at tail at macc_i"}},
    {"product", {"vectorize tail_j", "compute_at tail at macc_i"}},
    {"symbolic", {"compute_at copy at copy_i"}},
    {"product", {"register_tile macc_j", "compute_at macc at init_j"}},
    {"product", {"register_tile root", "compute_at init at macc_i"}},
    {"product", {"register_tile root", "fuse init_i macc_i as i"}},
    // register_tile
    {"product", {"register_tile macc_j", "register_tile macc_i"}},
    {"product", {"register_tile macc_j", "register_tile macc_k"}},
    {"product", {"fuse init_i macc_i tail_i as i", "fuse init_j macc_j as j", "register_tile root"}},
    {"product", {"fuse init_i macc_i tail_i as i", "fuse init_j macc_j as j", "register_tile i"}},
    {"product", {"isolate macc_k", "register_tile macc_i"}},
    {"symbolic", {"parallel copy_i", "register_tile root"}},
    // isolate, vectorize, unroll, parallel
    {"product", {"register_tile macc_j", "isolate macc_k"}},
    {"product", {"prefetch Z macc_i"}},
    {"product", {"prefetch C macc_i"}},
    {"product", {"prefetch B"}},
    {"product", {"prefetch B macc_z"}},
    {"product", {"prefetch B macc_i"}},
    {"product", {"prefetch B macc_j", "prefetch B macc_j"}},
    {"product", {"prefetch B macc_j", "split macc_j 4 as a b"}},
    {"product", {"register_tile macc_j", "prefetch B macc_k"}},
    {"product", {"unroll macc_j", "prefetch B macc_j"}},
    {"product", {"alternate macc_z"}},
    {"product", {"register_tile macc_j", "alternate macc_k"}},
    {"product", {"unroll macc_j", "alternate macc_j"}},
    {"product", {"alternate macc_j", "alternate macc_j"}},
    {"product", {"vectorize macc_i"}},
    {"symbolic", {"order copy_j copy_i", "vectorize copy_i"}},
    {"big", {"vectorize fill_j"}},
    {"symbolic", {"unroll copy_i"}},
    {"symbolic", {"unroll copy_i 300"}},
    {"big", {"unroll fill_i"}},
    {"product", {"parallel macc_i"}},
    {"product", {"fuse init_i macc_i tail_i as i", "parallel i macc_j"}},
    {"odd", {"parallel flat_i"}},
    {"symbolic", {"split copy_i 4 as a b", "parallel a b copy_j"}},
    {"symbolic", {"parallel copy_j"}},
    // layout
    {"product", {"layout Z 0 4"}},
    {"product", {"layout A 2 4"}},
    {"product", {"layout A 0 1"}},
    {"product", {"layout A 0 2000"}},
    {"product", {"layout A 0 4", "layout A 1 2"}},
    {"product", {"pack B : k j", "layout B 0 2"}},
    {"product", {"layout B 0 2", "layout B 1 4"}},
    {"symbolic", {"layout A 0 4"}},
    {"symbolic", {"layout B 0 4"}},
    {"gather", {"layout B 0 4"}},
    {"odd", {"layout A 1 4"}},
    {"odd", {"layout D 0 16"}},
    {"odd", {"layout C 0 8"}},
    {"twice", {"layout A 0 4", "layout C 0 8"}},
    // strip
    {"product", {"strip macc_z 2 as a b"}},
    {"product", {"strip macc_k 2 as a a"}},
    {"product", {"strip macc_k 2 as i b"}},
    {"symbolic", {"strip copy_i 2 as a b"}},
    // join
    {"product", {"join macc_z macc_k as a"}},
    {"product", {"join macc_i macc_z as a"}},
    {"product", {"join macc_i macc_k as a"}},
    {"product", {"join macc_i init_j as a"}},
    {"product", {"join macc_i macc_j a"}},
    {"product", {"join macc_i macc_j as a"}},
    {"grouped", {"join macc_g macc_f as y"}},
    {"grouped", {"join macc_g macc_f as a b"}},
    {"odd", {"join flat_i flat_j as a", "join ends_i ends_j as a"}},
    {"odd", {"join count_i count_j as a"}},
    {"counts", {"join number_i number_j as a"}},
    {"counts", {"join whole_i whole_j as n"}},
    // pack
    {"product", {"pack T : i k"}},
    {"product", {"pack B : k k"}},
    {"product", {"pack B : k z"}},
    {"product", {"pack B : k"}},
    {"odd", {"pack K : i"}},
    {"symbolic", {"pack B : j i"}},
    {"big", {"pack K : i j"}},
    // merge
    {"product", {"merge macc_i macc_k as a"}},
    {"product", {"merge macc_j macc_k as a"}},
    {"product", {"merge init_i init_j as a"}},
    {"symbolic", {"merge copy_i copy_j as n"}},
    {"scan", {"merge copy_i copy_j as a"}},
    {"odd", {"merge ends_i ends_j as a"}},
    {"odd", {"merge count_i count_j as a"}},
    {"odd", {"merge flat_i flat_j as a"}},
    {"odd", {"merge more_i more_j as a"}},
    {"pairs", {"merge both_i both_j as a"}},
    {"pairs", {"layout D 0 4"}},
    {"uneven", {"merge fill_i fill_j as a"}},
    {"table", {"pack B : i"}},
    {"cube", {"merge copy_i copy_j as k"}},
    {"cube", {"layout A 1 2", "merge copy_i copy_j_o as a"}},
    {"cube", {"layout C 2 4", "merge copy_j copy_k_o as a"}},
    // stage
    {"big", {"stage Z"}},
    {"product", {"stage A"}},
    {"gather", {"stage D"}},
    {"big", {"stage S"}},
    // algorithm
    {"product", {"algorithm macc fft"}},
    {"product", {"algorithm gone winograd 4 3 1 1"}},
    {"product", {"algorithm macc winograd 3 3 1 1"}},
    {"product", {"algorithm macc winograd 6 5 1 1"}},
    {"product", {"algorithm macc winograd 4 3 0 1"}},
    {"symbolic", {"algorithm copy winograd 4 3 1 1"}},
    {"product", {"algorithm tail winograd 4 3 1 1"}},
    {"product", {"algorithm macc winograd 4 3 1 1"}},
    {"pairs", {"algorithm both winograd 4 3 1 1"}},
    {"products", {"algorithm macc winograd 4 3 1 1"}},
    {"window", {"algorithm macc winograd 4 3 1 1"}},
    {"window", {"layout I 1 4", "algorithm macc winograd 4 3 1 1"}},
    {"window",
     {"layout I 1 4", "layout T 1 4", "pack K : f_o f_i c_o c_i r s", "algorithm macc winograd 4 3 1 1"}},
    {"window", {"layout I 1 4", "layout T 1 4", "layout O 1 4", "algorithm macc winograd 4 3 2 1"}},
    {"wide", {"layout I 1 4", "layout O 1 4", "algorithm macc winograd 4 3 1 1"}},
    {"wide", {"layout I 1 4", "layout O 1 4", "algorithm macc winograd 2 5 1 1"}},
    {"strided", {"layout I 1 4", "layout O 1 4", "algorithm macc winograd 4 3 1 1"}},
    {"dilated", {"layout I 1 4", "layout O 1 4", "algorithm macc winograd 4 3 1 1"}},
    {"grouped", {"layout I 1 4", "layout O 1 4", "algorithm macc winograd 4 3 1 1"}},
    {"repeated", {"layout I 1 4", "layout O 1 4", "algorithm macc winograd 4 3 1 1"}},
    {"spread", {"layout I 1 4", "layout O 1 4", "algorithm macc winograd 4 3 1 1"}},
    {"partial", {"layout I 1 4", "layout O 1 4", "algorithm macc winograd 4 3 1 1"}},
    {"scaled", {"layout I 1 4", "layout O 1 4", "algorithm macc winograd 4 3 1 1"}},
    {"shifted", {"layout I 1 4", "layout O 1 4", "layout T 1 4", "algorithm macc winograd 4 3 1 1"}},
    // Marks are judged when all are set.
    {"running", {"vectorize step_i", "finish"}},
    {"running", {"parallel step_i", "finish"}},
};

// What the last line is answered, behind "refused: ", or "accepted".
std::string answer(const Case& given) {
  try {
    Schedule schedule(parse_kernel(kKernels.at(given.kernel)), parse_target("x86-64-v3"));
    for (size_t i = 0; i < given.lines.size(); ++i) {
      const bool last = i + 1 == given.lines.size();
      if (given.lines[i] == "finish") {
        schedule.finish();
        return "accepted";
      }
      const auto refused = schedule.apply(given.lines[i]);
      if (refused && !last) return "refused too early: " + *refused;
      if (refused) return "refused: " + *refused;
    }
  } catch (const Error& error) {
    return text(error.kind() == ErrorKind::Schedule ? "schedule error: " : "error: ", error.what());
  }
  return "accepted";
}

TEST(ScheduleRefusals, SayWhy) {
  std::ostringstream list;
  for (const Case& each : kCases) {
    list << each.kernel << ":";
    for (const std::string& line : each.lines)
      list << " " << line << (&line == &each.lines.back() ? "" : ";");
    const std::string told = answer(each);
    EXPECT_TRUE(told.rfind("refused: ", 0) == 0 || told.rfind("schedule error: ", 0) == 0)
        << each.kernel << ": " << each.lines.back() << ": " << told;
    list << "\n  " << told << "\n";
  }
  expect_golden("tests/golden/schedule_refusals.txt", list.str());
}

TEST(ScheduleRefusals, TellWhichPrimitivesThereAre) {
  Schedule schedule(parse_kernel(kKernels.at("product")), parse_target("x86-64-v3"));
  std::string known;
  for (const PrimitiveRow& row : primitive_table()) {
    const std::string word = (known.empty() ? "" : ", ") + row.first_word();
    if (known.size() < word.size() || known.substr(known.size() - word.size()) != word) known += word;
  }
  EXPECT_EQ(schedule.apply("chop init_i 4 as a b"),
            "chop init_i 4 as a b: no primitive 'chop'; there are: " + known);
}

TEST(ScheduleRefusals, DefaultsSayWhy) {
  const Target target = parse_target("x86-64-v3");
  try {
    default_schedule(parse_kernel(kKernels.at("product")), target, 1, {"layout A 0 4", "layout Q 0 4"});
    FAIL() << "a layout of no buffer was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Schedule);
    EXPECT_STREQ(error.what(), "layout Q 0 4: no buffer 'Q'; there are: A, B, C, T");
  }
  Schedule ordered(parse_kernel(kKernels.at("product")), target);
  ASSERT_EQ(ordered.apply("split macc_i 4 as a b"), std::nullopt);
  try {
    default_trace(ordered, 1);
    FAIL() << "a default was given for an ordered schedule";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Schedule);
    EXPECT_NE(std::string(error.what()).find("the default follows on rewrites only"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tc
