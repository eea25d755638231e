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
  // Marks the outermost loop of the whole kernel as `parallel`, where there are several threads; or the two
  // outermost ones, where one loop has too few trips or gives parts that differ by more than a hundredth. A
  // `depth` above 0 says how many loops.
  void parallelise(int64_t depth = 0);
  // Lanes of the vectors that a statement computes in: as many as the target's block has for f32, fewer for
  // wider types.
  int64_t lanes(const Statement& statement) const;
  // The block size of an index (16 for `16*f_o + f_i`), where the layout of some buffer has blocks of this
  // size; else 0.
  int64_t block_in(const Statement& statement, const Affine& index) const;
  // The block size by which a dimension of a buffer is read; 0 where it is not read by blocks.
  int64_t block_read(int buffer, size_t dim) const;

 private:
  int threads_;
  ScheduleState state_;
};

// The one statement of the kernel that reduces; throws NotApplicable where there is none, or several.
const Statement& only_reduction(const Kernel& kernel);
// Stores the constants that statements other than `sum` read by block and lane in blocks of `block` elements,
// so that padded lanes need no conditions.
void pad_constants(TraceBuilder& builder, const std::string& sum, int64_t block);
// The list after a move: 0 none, k <= n the k-th to the front, n < k <= 2n the (k-n)-th to the end.
std::vector<std::string> moved(std::vector<std::string> list, int64_t move);

// A block of a long sum (`sum_blocks`): this many trips of the loop are summed separately.
struct SumBlock {
  std::string loop;
  int64_t trips = 1;
};
// For loops, outermost first, of which each trip adds one term: blocks with about as many terms as there are
// blocks, which gives the least error. None where the sum is short or its length is not known.
std::optional<SumBlock> block_of_long_sum(const std::vector<TraceBuilder::Loop>& loops);

// Schedules one statement: lanes along the best iterator of its own loops, reductions inside of one leaf.
void schedule_statement(TraceBuilder& builder, const std::string& statement, const StatementKnobs& knobs = {},
                        bool isolate = true);

// What a strategy's cost function predicts for a kernel. An algorithm's cycles are compared with those of the
// same sums without the algorithm, predicted under the same assumptions, so that common errors cancel out.
struct Prediction {
  double cycles = INFINITY;  // by the analytic cost model; infinite where nothing fits
  double plain = INFINITY;   // of the same sums without the algorithm
  // The share of `plain` within which the cycles have to stay: for what the cost function leaves out.
  double gain = 1;
  // Factor on the cycles where algorithms are compared with each other, for the same reason.
  double factor = 1;
  std::string unless;  // why it is not taken in spite of its cycles; mostly empty
  double on_core = 0;  // of the cycles, those that the core takes beside an accelerator

  bool pays() const { return unless.empty() && cycles <= gain * plain; }
  double compared() const { return factor * cycles; }
};

// What an algorithm's knobs can be, and what follows from them.
template <class Knobs>
struct AlgorithmChoices {
  Knobs chosen;           // by the analytic cost model
  Prediction prediction;  // of these
  // The variants that the tolerance allows: outputs of Winograd's tiles, or numbers in kTermsAlgorithms.
  std::vector<int64_t> kinds;
  std::function<double(const Knobs&)> cycles;  // predicted; infinite where the knobs are of no use
  // The schedule with all lines. Knobs that are 0 are chosen by the analytic cost model.
  std::function<TraceBuilder(const Knobs&)> apply;
  std::string plan;  // the chosen one in words
};

// The implementations of the strategies (scheduler/default/strategy.h); each throws NotApplicable with the
// reason where the kernel is not of its kind. This one: a convolution by Winograd's algorithm, with an error
// within the tolerance.
AlgorithmChoices<WinogradKnobs> winograd_choices(const TraceBuilder& start, double tolerance);
// A sum of products on the target's matrix unit, with an error within the tolerance. Those algorithms that
// cannot be the cheapest are left out unless `all` are asked for.
AlgorithmChoices<MatrixKnobs> matrix_choices(const TraceBuilder& start, double tolerance, bool all);
// One reduction, an element of its result at a time.
TraceBuilder schedule_plain_loops(const TraceBuilder& start);
// Statements in common loops over the outer iterators that they share: rows.
void schedule_rows(TraceBuilder& builder, const RowKnobs& knobs = {});
// Each statement in loops of its own.
void schedule_separately(TraceBuilder& builder, const RowKnobs& knobs = {});

}  // namespace tc
