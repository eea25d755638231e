// What the analytic default is built with: applying lines, asking about accesses and loops.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/core/state.h"
#include "scheduler/core/statements.h"
#include "scheduler/default/knobs.h"

namespace tc {

// A way of scheduling that does not fit the kernel; the next simpler one is tried.
struct Abandon {
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
  // The same, abandoning where it is refused.
  template <class... Parts>
  void apply(const Parts&... parts) {
    if (auto refused = apply_line(state_, text(parts...))) throw Abandon{*refused};
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
    bool own = false;              // holds no other statement
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

// The one statement of the kernel that reduces; abandons where there is none, or several.
const Statement& only_reduction(const Kernel& kernel);
// Lays the constants that other statements than `sum` read by parts of blocks out in blocks of so many, so
// that padded lanes need no conditions.
void pad_constants(TraceBuilder& builder, const std::string& sum, int64_t block);
// The list after a move: 0 none, k <= n the k-th to the front, n < k <= 2n the (k-n)-th to the end.
std::vector<std::string> moved(std::vector<std::string> list, int64_t move);

// Lanes along the best iterator of the statement's own loops, reductions inside one leaf.
void schedule_statement(TraceBuilder& builder, const std::string& statement,
                        const StatementKnobs& knobs = {}, bool isolate = true);

// Ways of scheduling, most special first; each throws Abandon where the kernel is not of its kind.
// A convolution whose error may grow to the tolerance.
void schedule_winograd(TraceBuilder& builder, double tolerance, bool always = false, const WinogradKnobs& knobs = {});
AlgorithmChoices<WinogradKnobs> winograd_choices(const TraceBuilder& builder, double tolerance);
// What the closed forms predict for it; infinite where it is not of that kind.
double winograd_cycles(TraceBuilder builder, double tolerance);
// A sum of products on the target's matrix unit, whose error may grow to the tolerance, where the closed
// forms predict fewer cycles than for the others, or always.
void schedule_matrix(TraceBuilder& builder, double tolerance, bool always = false, const MatrixKnobs& knobs = {});
AlgorithmChoices<MatrixKnobs> matrix_choices(const TraceBuilder& builder, double tolerance);
// One reduction into a private buffer, with an initialisation and elementwise statements after it. Returns the knobs
// with the choice that it took.
ReductionKnobs schedule_reduction(TraceBuilder& builder, const ReductionKnobs& knobs = {});
// Statements that share outer iterators: rows.
void schedule_rows(TraceBuilder& builder, const RowKnobs& knobs = {});
// Every statement for itself.
void schedule_separately(TraceBuilder& builder, const RowKnobs& knobs = {});

}  // namespace tc
