// The scheduler's legality against brute force: on kernels of a few hundred instances every instance
// and every pair that touches one element is enumerated, and random orders are judged by both.
// TC_SEED=N replays one walk.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ir/error.h"
#include "scheduler/legality/legality.h"
#include "tests/random_schedule.h"

namespace tc::testing {
namespace {

const std::vector<std::string>& tiny_kernels() {
  static const std::vector<std::string> kernels = {
      R"(kernel "padded convolution"
  input I f32[2, 5]
  constant K f32[3, 2, 3]
  output O f32[3, 5]
  local T f32[3, 5]
  init[f:3, x:5]: T[f, x] = 0
  macc[f:3, x:5, c:2, s:3] where s + x - 1 >= 0, 5 - s - x >= 0: T[f, x] += I[c, s + x - 1] * K[f, c, s]
  tail[f:3, x:5]: O[f, x] = max(T[f, x], 0)
)",
      R"(kernel "product"
  input A f32[3, 4]
  constant K f32[4, 3]
  output O f32[3, 3]
  init[m:3, n:3]: O[m, n] = 0
  macc[m:3, n:3, k:4]: O[m, n] += A[m, k] * K[k, n]
)",
      R"(kernel "running sums"
  input A f32[3, 5]
  output O f32[3, 5]
  first[i:3]: O[i, 0] = A[i, 0]
  next[i:3, j:4]: O[i, j + 1] = O[i, j] + A[i, j + 1]
)",
      R"(kernel "steps in time"
  input A f32[6]
  output O f32[6]
  local T f32[4, 6]
  first[x:6]: T[0, x] = A[x]
  left[t:3]: T[t + 1, 0] = T[t, 0]
  right[t:3]: T[t + 1, 5] = T[t, 5]
  step[t:3, x:4]: T[t + 1, x + 1] = T[t, x] + T[t, x + 2]
  store[x:6]: O[x] = T[3, x]
)",
      R"(kernel "diagonal"
  input A f32[5]
  output O f32[5, 5]
  first[x:5]: O[0, x] = A[x]
  side[y:4]: O[y + 1, 4] = 1
  next[y:4, x:4]: O[y + 1, x] = O[y, x + 1] + 1
)",
      R"(kernel "shift in place"
  output O f32[4, 4]
  edge[i:4]: O[i, 0] = O[i, 0] + O[i, 1]
  move[i:4, j:3]: O[i, j + 1] = O[3 - i, 2 - j]
)",
      R"(kernel "softmax"
  input I f32[3, 4]
  output O f32[3, 4]
  local M f32[3]
  local E f32[3, 4]
  local S f32[3]
  top_init[i:3]: M[i] = -inf
  top[i:3, k:4]: M[i] max= I[i, k]
  power[i:3, k:4]: E[i, k] = exp(I[i, k] - M[i])
  sum_init[i:3]: S[i] = 0
  sum[i:3, k:4]: S[i] += E[i, k]
  divide[i:3, k:4]: O[i, k] = E[i, k] / S[i]
)",
      R"(kernel "sum that reads itself"
  input A f32[4]
  output O f32[4]
  init[i:4]: O[i] = A[i]
  sum[k:3, i:4]: O[i] += O[k + 1] * 0.5
)",
      R"(kernel "two sums in one"
  input A f32[3, 4]
  input B f32[3, 4]
  output O f32[3]
  init[i:3]: O[i] = 0
  one[i:3, k:4]: O[i] += A[i, k]
  two[i:3, k:4]: O[i] += B[i, k]
)",
      R"(kernel "scattered"
  input A f32[3, 2]
  input N i64[3]
  output O f32[4, 2]
  init[j:4, k:2]: O[j, k] = 0
  put[i:3, k:2]: O[{min(max(N[i], 0), 3)}, k] = A[i, k]
)",
      R"(kernel "overlapping writes"
  input A f32[3, 4]
  output O f32[6]
  put[i:3, j:4]: O[i + j] = A[i, j]
)",
      R"(kernel "reused memory"
  input A f32[5]
  output P f32[5]
  output Q f32[5]
  local T f32[5]
  one[i:5]: T[i] = A[i]
  read[i:5]: P[i] = T[i]
  two[i:5]: T[i] = A[4 - i]
  read2[i:5]: Q[i] = T[4 - i] + P[i]
)",
      R"(kernel "symbolic rows"
  parameter p0 = n in [1, 3]
  input A f32[p0, p0]
  output O f32[p0]
  local S f32[p0]
  init[i:p0]: S[i] = 0
  sum[i:p0, k:p0]: S[i] += A[i, k]
  store[i:p0]: O[i] = S[i] + S[0]
)",
      R"(kernel "transposed convolution"
  input I f32[2, 3]
  constant K f32[2, 3]
  output O f32[7]
  local T f32[7]
  init[x:7]: T[x] = 0
  add[x:3, c:2, r:3]: T[2*x + r] += I[c, x] * K[c, r]
  tail[x:7]: O[x] = T[x]
)",
      R"(kernel "pairs"
  input A f32[3, 8]
  output O f32[3, 4]
  local T f32[3, 8]
  copy[i:3, j:8]: T[i, j] = A[i, j] * 2
  add[i:3, j:4]: O[i, j] = T[i, 2*j] + T[i, 2*j + 1]
)",
      R"(kernel "two products"
  input A f32[2, 3]
  constant K f32[3, 3]
  constant L f32[3, 2]
  output O f32[2, 2]
  local T f32[2, 3]
  i1[m:2, n:3]: T[m, n] = 0
  m1[m:2, n:3, k:3]: T[m, n] += A[m, k] * K[k, n]
  i2[m:2, n:2]: O[m, n] = 0
  m2[m:2, n:2, k:3]: O[m, n] += T[m, k] * L[k, n]
)"};
  return kernels;
}

struct Instance {
  int statement;
  std::vector<int64_t> iterators;
};

// All instances for one value of the parameters, in the original order, and what may not be changed.
class BruteForce {
 public:
  BruteForce(const Kernel& kernel, std::map<std::string, int64_t> parameters)
      : kernel_(kernel), values_(std::move(parameters)) {
    for (size_t s = 0; s < kernel.statements.size(); ++s) {
      std::vector<int64_t> iterators;
      enumerate(static_cast<int>(s), iterators);
    }
    relate();
  }

  size_t pairs() const { return ordered_.size() + commuting_.size(); }

  // Whether the tree runs all dependences forwards.
  bool order_is_legal(const TreeNode& tree) const {
    const auto times = times_of(tree);
    return std::all_of(ordered_.begin(), ordered_.end(),
                       [&](const auto& pair) { return times[pair.first] < times[pair.second]; });
  }

  // Whether the iterations of loops that threads share, and the lanes of vectors, are independent.
  bool marks_are_legal(const TreeNode& tree) const {
    const auto times = times_of(tree);
    size_t depth = 0;
    for (const TreeNode* node = &tree; node->is(marks::kParallel); node = &node->children[0], ++depth) {
      for (const auto* pairs : {&ordered_, &commuting_}) {
        for (const auto& [a, b] : *pairs) {
          if (times[a][depth] != times[b][depth]) return false;
        }
      }
    }
    return vectors_are_legal(tree, 0, times);
  }

 private:
  struct Touch {
    size_t instance;
    bool writes = false, loads = false, accumulates = false;
  };
  using Element = std::pair<int, std::vector<int64_t>>;

  void enumerate(int s, std::vector<int64_t>& iterators) {
    const Statement& statement = kernel_.statements[static_cast<size_t>(s)];
    if (iterators.size() < statement.iterators.size()) {
      const int64_t extent = statement.iterators[iterators.size()].extent.evaluate(values_);
      for (int64_t i = 0; i < extent; ++i) {
        iterators.push_back(i);
        enumerate(s, iterators);
        iterators.pop_back();
      }
      return;
    }
    auto values = values_;
    for (size_t i = 0; i < iterators.size(); ++i) values[statement.iterators[i].name] = iterators[i];
    for (const Affine& constraint : statement.constraints) {
      if (constraint.evaluate(values) < 0) return;
    }
    instances_.push_back({s, iterators});
    touch(statement.write, values, [&](Touch& touch) {
      touch.writes = true;
      touch.accumulates = statement.reduction != Reduction::None;
    });
    auto loads = [&](const ExprPtr& expr) {
      for_each_load(expr, [&](const Expr& load) {
        touch(load.access, values, [](Touch& touch) { touch.loads = true; });
      });
    };
    loads(statement.value);
    for (const Subscript& subscript : statement.write.index) loads(subscript.dynamic);
  }

  // Marks the elements of an access by the last instance; a subscript that depends on data may be any.
  template <class Mark>
  void touch(const Access& access, const std::map<std::string, int64_t>& values, const Mark& mark) {
    const Buffer& buffer = kernel_.buffers[static_cast<size_t>(access.buffer)];
    std::vector<Element> elements{{access.buffer, {}}};
    for (size_t d = 0; d < access.index.size(); ++d) {
      std::vector<Element> longer;
      for (const Element& element : elements) {
        int64_t first = access.index[d].affine.evaluate(values), last = first;
        if (access.index[d].dynamic) first = 0, last = buffer.shape[d].evaluate(values_) - 1;
        for (int64_t i = first; i <= last; ++i) {
          longer.push_back(element);
          longer.back().second.push_back(i);
        }
      }
      elements = longer;
    }
    for (const Element& element : elements) {
      auto& touches = touches_[element];
      const size_t instance = instances_.size() - 1;
      if (touches.empty() || touches.back().instance != instance) touches.push_back({instance});
      mark(touches.back());
    }
  }

  void relate() {
    for (const auto& [element, touches] : touches_) {
      for (size_t b = 0; b < touches.size(); ++b) {
        for (size_t a = 0; a < b; ++a) {
          const Touch &first = touches[a], &second = touches[b];
          if (!first.writes && !second.writes) continue;
          // Terms of one reduction may be added in any order.
          const bool commute = first.accumulates && second.accumulates && !first.loads && !second.loads &&
                               instances_[first.instance].statement == instances_[second.instance].statement;
          (commute ? commuting_ : ordered_).push_back({first.instance, second.instance});
        }
      }
    }
  }

  std::vector<std::vector<int64_t>> times_of(const TreeNode& tree) const {
    std::vector<std::vector<int64_t>> result;
    for (const Instance& instance : instances_) {
      result.push_back(time_of(tree, kernel_, instance.statement, instance.iterators));
    }
    return result;
  }

  bool vectors_are_legal(const TreeNode& node, size_t depth,
                         const std::vector<std::vector<int64_t>>& times) const {
    if (node.kind == TreeNode::Kind::Loop && node.is(marks::kVector)) {
      const int statement = statements_below(node).at(0);
      for (const auto& [a, b] : ordered_) {
        if (instances_[a].statement != statement || instances_[b].statement != statement) continue;
        const auto &from = times[a], &to = times[b];
        const auto end = from.begin() + static_cast<std::ptrdiff_t>(depth);
        if (std::equal(from.begin(), end, to.begin()) && from[depth] != to[depth]) return false;
      }
    }
    const bool counts = node.kind == TreeNode::Kind::Loop || node.kind == TreeNode::Kind::Sequence;
    return std::all_of(node.children.begin(), node.children.end(), [&](const TreeNode& child) {
      return vectors_are_legal(child, depth + counts, times);
    });
  }

  const Kernel& kernel_;
  const std::map<std::string, int64_t> values_;
  std::vector<Instance> instances_;
  std::map<Element, std::vector<Touch>> touches_;
  std::vector<std::pair<size_t, size_t>> ordered_, commuting_;
};

// Brute force for each value that the parameter can have.
std::vector<BruteForce> all_values(const Kernel& kernel) {
  std::vector<BruteForce> result;
  if (kernel.parameters.empty()) {
    result.emplace_back(kernel, std::map<std::string, int64_t>());
    return result;
  }
  const Parameter& parameter = kernel.parameters.at(0);
  for (int64_t value = parameter.minimum; value <= parameter.maximum; ++value) {
    result.emplace_back(kernel, std::map<std::string, int64_t>{{parameter.name, value}});
  }
  return result;
}

// How both judged: [legal by brute force][accepted by the scheduler].
struct Tally {
  int counts[2][2] = {};

  int all() const { return counts[0][0] + counts[0][1] + counts[1][0] + counts[1][1]; }
  int legal() const { return counts[1][0] + counts[1][1]; }
  int illegal() const { return counts[0][0] + counts[0][1]; }
  void print(const char* what) const {
    std::printf("%s: %d judged; %d legal, of which %d refused; %d illegal, of which %d accepted\n", what,
                all(), legal(), counts[1][0], illegal(), counts[0][1]);
  }
};

// A walk from the initial tree of a kernel: each step is judged by both, and made where it is legal.
class Walk {
 public:
  Walk(uint32_t seed, Tally& orders, Tally& marks)
      : kernel_(parse_kernel(tiny_kernels()[seed % tiny_kernels().size()])),
        force_(all_values(kernel_)),
        lines_(seed),
        state_(ScheduleAccess::state(Schedule(kernel_, parse_target("x86-64-v3")))),
        orders_(orders),
        marks_(marks) {
    end_rewrites(state_);
  }

  void go() {
    static const std::vector<std::string> structure = {"split", "order", "order", "fuse", "compute_at"};
    for (int step = 0; step < 12; ++step) {
      if (lines_.chance(5)) shuffle();
      else if (lines_.chance(3)) mark(lines_.chance(3) ? "parallel" : "vectorize");
      else rearrange(lines_.one_of(structure));
    }
  }

 private:
  bool legal(const TreeNode& tree) const {
    return std::all_of(force_.begin(), force_.end(),
                       [&](const BruteForce& force) { return force.order_is_legal(tree); });
  }

  void judge(Tally& tally, bool legal, const std::optional<std::string>& refused, const std::string& line,
             const TreeNode& tree) {
    ++tally.counts[legal][!refused];
    if (legal != !refused && std::getenv("TC_SEED") != nullptr) {
      std::printf("%s: brute force says %s, the scheduler %s\n", line.c_str(), legal ? "legal" : "illegal",
                  refused ? refused->c_str() : "accepts");
    }
    if (legal || refused) return;
    std::string trace;
    for (const std::string& each : state_.trace) trace += "\n    \"" + each + "\",";
    Schedule shown = ScheduleAccess::schedule(state_);
    ADD_FAILURE() << "accepted though illegal: " << line << "\nafter" << trace << "\n"
                  << str(kernel_) << shown.tree() << str_of(tree);
  }

  static std::string str_of(const TreeNode& tree) {
    std::string result = "loops:";
    for (const std::string& name : loop_names(tree)) result += " " + name;
    return result;
  }

  void rearrange(const std::string& primitive) {
    const std::string line = lines_.line(primitive, state_);
    if (line.empty()) return;
    ScheduleState free = state_, next = state_;
    free.judged = false;
    if (apply_line(free, line)) return;  // not a change of order at all
    const auto refused = apply_line(next, line);
    judge(orders_, legal(free.tree), refused, line, free.tree);
    if (!refused) state_ = next;
  }

  // Statements of a sequence in another order.
  void shuffle() {
    ScheduleState next = state_;
    std::vector<TreeNode*> sequences;
    visit_tree(next.tree, [&](const TreeNode& node, const auto&) {
      if (node.kind == TreeNode::Kind::Sequence) sequences.push_back(const_cast<TreeNode*>(&node));
    });
    if (sequences.empty()) return;
    std::vector<TreeNode>& children = lines_.one_of(sequences)->children;
    std::shuffle(children.begin(), children.end(), lines_.random());
    const auto refused = find_violation(next.kernel, next.tree);
    judge(orders_, legal(next.tree), refused, "another sequence", next.tree);
    if (!refused) state_ = next;
  }

  void mark(const std::string& primitive) {
    const std::string line = lines_.line(primitive, state_);
    ScheduleState next = state_;
    if (line.empty() || apply_line(next, line)) return;
    const auto refused = check_state(next);
    const bool fits = std::all_of(force_.begin(), force_.end(),
                                  [&](const BruteForce& force) { return force.marks_are_legal(next.tree); });
    judge(marks_, fits, refused, line, next.tree);
  }

  Kernel kernel_;
  std::vector<BruteForce> force_;
  LineGenerator lines_;
  ScheduleState state_;
  Tally &orders_, &marks_;
};

TEST(LegalityOracle, AgreesWithBruteForce) {
  const char* only = std::getenv("TC_SEED");
  const uint32_t first = only != nullptr ? static_cast<uint32_t>(std::atoll(only)) : 0;
  const uint32_t end = only != nullptr ? first + 1 : static_cast<uint32_t>(25 * tiny_kernels().size());
  Tally orders, marks;
  for (uint32_t seed = first; seed < end; ++seed) {
    SCOPED_TRACE(::testing::Message() << "TC_SEED=" << seed);
    const Tally before = orders, before_marks = marks;
    Walk(seed, orders, marks).go();
    if (orders.counts[1][0] + marks.counts[1][0] > before.counts[1][0] + before_marks.counts[1][0]) {
      std::printf("a legal one refused in TC_SEED=%u\n", seed);
    }
  }
  orders.print("orders");
  marks.print("parallel and vector marks");
  EXPECT_EQ(orders.counts[0][1] + marks.counts[0][1], 0) << "illegal ones accepted";
  EXPECT_LE(100 * orders.counts[1][0], orders.legal()) << "legal orders refused";
  EXPECT_LE(100 * marks.counts[1][0], marks.legal()) << "legal marks refused";
  if (only != nullptr) return;
  EXPECT_GE(orders.all(), 1000);
  EXPECT_GE(orders.legal(), 400);
  EXPECT_GE(orders.illegal(), 400);
  EXPECT_GE(marks.legal(), 100);
  EXPECT_GE(marks.illegal(), 100);
}

// What brute force relates, counted by hand.
TEST(LegalityOracle, RelatesWhatTouchesOneElement) {
  const Kernel kernel = parse_kernel(R"(kernel "sum"
  input A f32[3]
  output O f32[1]
  init[]: O[0] = 0
  sum[k:3]: O[0] += A[k]
)");
  // Three pairs of the initialisation with a term, three pairs of terms.
  EXPECT_EQ(BruteForce(kernel, {}).pairs(), 6u);
}

}  // namespace
}  // namespace tc::testing
