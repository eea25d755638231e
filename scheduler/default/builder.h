// What the analytic default is built with: applying lines, asking about accesses and loops.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/state.h"
#include "scheduler/core/statements.h"
#include "scheduler/default/knobs.h"

namespace tc {

// A strategy that does not fit the kernel, and why.
struct NotApplicable {
  std::string why;
};

// A state with the lines that led to it.
class TraceBuilder {
 public:
  TraceBuilder(ScheduleState start, int threads) : threads_(threads), state_(std::move(start)) {}

  // Applies a line made of the parts; false where it is refused, which changes nothing.
  template <class... Parts>
  bool attempt(const Parts&... parts) {
    return !apply_line(state_, text(parts...));
  }
  // The same; throws NotApplicable where it is refused.
  template <class... Parts>
  void apply(const Parts&... parts) {
    if (auto refused = apply_line(state_, text(parts...))) throw NotApplicable{*refused};
  }

  const ScheduleState& state() const { return state_; }
  const Kernel& kernel() const { return state_.kernel->kernel; }
  const Target& target() const { return state_.target; }
  int threads() const { return threads_; }
  const Statement& statement(const std::string& name) const;
  int index_of(const std::string& statement) const;

  // A loop around a statement, and the iterator of the statement that it counts.
  struct Loop {
    std::string name, iterator;
    bool own = false;  // holds no other statement
    std::optional<int64_t> extent;
  };
  // Loops around the statement, outermost first; those that hold it alone.
  std::vector<Loop> all_loops(const std::string& statement) const;
  std::vector<Loop> own_loops(const std::string& statement) const;
  // `parallel` for the outermost loops of the whole kernel, where there are threads: two where one has
  // too few trips or parts that differ by more than a hundredth, or as many as `depth` says.
  void parallelise(int64_t depth = 0);
  // Lanes of the vectors that a statement computes in: of the target's block in f32, fewer for wider
  // types.
  int64_t lanes(const Statement& statement) const;
  // The block of `16*f_o + f_i` where a layout of some buffer made it so; else 0.
  int64_t block_in(const Statement& statement, const Affine& index) const;
  // That by which a dimension of a buffer is read; 0 where there is none.
  int64_t block_read(int buffer, size_t dim) const;

 private:
  int threads_;
  ScheduleState state_;
};

// The one statement of the kernel that reduces; throws NotApplicable where there is none, or several.
const Statement& only_reduction(const Kernel& kernel);
// Lays the constants that other statements than `sum` read by parts of blocks out in blocks of so many, so
// that padded lanes need no conditions.
void pad_constants(TraceBuilder& builder, const std::string& sum, int64_t block);
// The list after a move: 0 none, k <= n the k-th to the front, n < k <= 2n the (k-n)-th to the end.
std::vector<std::string> moved(std::vector<std::string> list, int64_t move);

// The part of a long sum that is summed up apart (`sum_blocks`): so many trips of a loop.
struct SumBlock {
  std::string loop;
  int64_t trips = 1;
};
// For loops that add up one term a trip, outermost first: about as many terms in a block as there are blocks,
// which has the least error. None where the sum is short or its length is not known.
std::optional<SumBlock> block_of_long_sum(const std::vector<TraceBuilder::Loop>& loops);

// Lanes along the best iterator of the statement's own loops, reductions inside one leaf.
void schedule_statement(TraceBuilder& builder, const std::string& statement, const StatementKnobs& knobs = {},
                        bool isolate = true);

// What a strategy's cost function predicts for a kernel. An algorithm's form is compared with another one for
// the same sums without the algorithm, which makes the same assumptions, so that their common errors cancel
// out.
struct Prediction {
  double cycles = INFINITY;  // by the analytic cost model; infinite where nothing fits
  double plain = INFINITY;   // of the same sums without the algorithm
  double gain = 1;           // share of `plain` that cycles have to stay within: what the form leaves out
  double factor = 1;         // of cycles where algorithms are compared with each other: the same
  std::string unless;        // why it is not taken in spite of its cycles; mostly empty

  bool pays() const { return unless.empty() && cycles <= gain * plain; }
  double compared() const { return factor * cycles; }
};

// What an algorithm's knobs can be, and what follows from them.
template <class Knobs>
struct AlgorithmChoices {
  Knobs chosen;           // by the analytic cost model
  Prediction prediction;  // of these
  // That the tolerance allows: outputs of Winograd's tiles, numbers of algorithms by terms.
  std::vector<int64_t> kinds;
  std::function<double(const Knobs&)> cycles;  // predicted; infinite where the knobs are of no use
  // All lines; those of knobs that are 0 by the analytic cost model.
  std::function<TraceBuilder(const Knobs&)> apply;
  std::string plan;  // the chosen one in words
};

// The implementations of the strategies (scheduler/default/strategy.h); each throws NotApplicable with the
// reason where the kernel is not of its kind. A convolution by Winograd's algorithm, whose error may grow to
// the tolerance.
AlgorithmChoices<WinogradKnobs> winograd_choices(const TraceBuilder& start, double tolerance);
// A sum of products on the target's matrix unit, whose error may grow to the tolerance. Those algorithms that
// cannot be the cheapest are left out unless `all` are asked for.
AlgorithmChoices<MatrixKnobs> matrix_choices(const TraceBuilder& start, double tolerance, bool all);
// Statements that share outer iterators: rows.
void schedule_rows(TraceBuilder& builder, const RowKnobs& knobs = {});
// Every statement for itself.
void schedule_separately(TraceBuilder& builder, const RowKnobs& knobs = {});

}  // namespace tc
