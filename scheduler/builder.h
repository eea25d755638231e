// What the analytic default is built with: applying lines, asking about accesses and loops.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/access.h"
#include "scheduler/state.h"

namespace tc {

// A way of scheduling that does not fit the kernel; the next simpler one is tried.
struct Abandon {
  std::string why;
};

// A state with the lines that led to it.
class Builder {
 public:
  Builder(ScheduleState start, int threads) : threads_(threads), state_(std::move(start)) {}

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

// Extent of an iterator, or `fallback` where it is symbolic.
int64_t extent_or(const Statement& statement, const std::string& iterator, int64_t fallback);
// The term with coefficient 1: the outer part of a blocked index `8*g + f_o`; empty where there is none.
std::string outer_part(const Affine& affine);
// The one statement of the kernel that reduces; abandons where there is none, or several.
const Statement& only_reduction(const Kernel& kernel);
// Lays the constants that other statements than `sum` read by parts of blocks out in blocks of so many, so
// that padded lanes need no conditions.
void pad_constants(Builder& builder, const std::string& sum, int64_t block);
// All loads of the statement's value, equal ones once.
std::vector<Access> loads_of(const Statement& statement);
bool same_access(const Access& a, const Access& b);

// Vector instructions that the expression takes, roughly.
int weight_of(const ExprPtr& expr);

// " a b c": the names, each after a space.
std::string joined(const std::vector<std::string>& names);

// What of the ways of scheduling can be chosen otherwise. As they stand here they give the default: 0
// leaves the choice to the closed forms.
struct ReductionKnobs {
  int64_t choice = 0;            // number of the choice of iterators, from 1
  int64_t vectors = 0, columns = 0;  // of the register tile
  int64_t rows = 0;              // of one more iterator in the tile
  int64_t sum_order = 0;         // a move, see `moved`, of the loops that sum
  int64_t sum_block = 0;         // a loop that sums is divided into blocks of so many trips
  int64_t unroll = 0;            // copies of the innermost loop that sums; 1: none
  int64_t windows = 0;           // loops over windows: 1 rolled, 2 unrolled
  int64_t outer_order = 0;       // a move of the loops around the tile
  int64_t outer_block = 0;       // so many trips of the innermost of them stay inside of all others
  int64_t apart = 0;             // the epilogue: 1 in the tile, 2 in loops of its own
  int64_t outside = 0;           // 1: the outermost loop that sums is outside of the tile
  int64_t isolate = 0;           // 1: loops are not isolated
  int64_t parallel = 0;          // 1 or 2 loops
};
struct StatementKnobs {
  int64_t lane = 0;              // 1: the lanes run along the second best iterator
  int64_t copies = 0;            // of vectors per trip; 1: none
  int64_t order = 0;             // a move of the loops around the vectors
};
struct RowKnobs {
  int64_t rows = 0;              // that one trip computes together; 1: none
  int64_t isolate = 0;           // 1: loops are not isolated
  int64_t parallel = 0;          // 1 or 2 loops
  std::vector<StatementKnobs> statements;  // by number; the default for those that are not listed
};

struct WinogradKnobs {
  int64_t outputs = 0;           // of a tile, in each direction
  int64_t rows = 0, columns = 0;     // of tiles, in a block
  int64_t vectors = 0, tile = 0;     // of the products' register tile: blocks of features, tiles
};
struct MatrixKnobs {
  int64_t algorithm = 0;         // number in kTermsAlgorithms, from 1
  int64_t bands = 0, panels = 0;     // how many
  int64_t blocks = 0, tiles = 0;     // accumulators at a time: blocks of features, tiles of rows
};
// What an algorithm's knobs can be, and the cycles that its closed forms predict for them; infinite where they
// are of no use.
template <class Knobs>
struct AlgorithmChoices {
  Knobs chosen;                  // by the closed forms
  std::vector<int64_t> kinds;    // that the tolerance allows: outputs of Winograd's tiles, numbers of algorithms by terms
  std::function<double(const Knobs&)> cycles;
};

// The list after a move: 0 none, k <= n the k-th to the front, n < k <= 2n the (k-n)-th to the end.
std::vector<std::string> moved(std::vector<std::string> list, int64_t move);

// Lanes along the best iterator of the statement's own loops, reductions inside one leaf.
void schedule_statement(Builder& builder, const std::string& statement,
                        const StatementKnobs& knobs = {}, bool isolate = true);

// Ways of scheduling, most special first; each throws Abandon where the kernel is not of its kind.
// A convolution whose error may grow to the tolerance.
void schedule_winograd(Builder& builder, double tolerance, bool always = false, const WinogradKnobs& knobs = {});
AlgorithmChoices<WinogradKnobs> winograd_choices(const Builder& builder, double tolerance);
// What the closed forms predict for it; infinite where it is not of that kind.
double winograd_cycles(Builder builder, double tolerance);
// A sum of products on the target's matrix unit, whose error may grow to the tolerance, where the closed
// forms predict fewer cycles than for the others, or always.
void schedule_matrix(Builder& builder, double tolerance, bool always = false, const MatrixKnobs& knobs = {});
AlgorithmChoices<MatrixKnobs> matrix_choices(const Builder& builder, double tolerance);
// One reduction into a private buffer, with an initialisation and elementwise statements after it. Returns the knobs
// with the choice that it took.
ReductionKnobs schedule_reduction(Builder& builder, const ReductionKnobs& knobs = {});
// Statements that share outer iterators: rows.
void schedule_rows(Builder& builder, const RowKnobs& knobs = {});
// Every statement for itself.
void schedule_separately(Builder& builder, const RowKnobs& knobs = {});

}  // namespace tc
