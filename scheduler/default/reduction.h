// The way of scheduling one reduction with its initialisation and epilogue: what it knows of the
// kernel, and what of it can be chosen otherwise than the closed forms choose.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/cost/tile_cost.h"
#include "scheduler/default/builder.h"
#include "scheduler/default/classify.h"

namespace tc {

constexpr int64_t kAssumedSymbolic = 64;   // of extents that are not known
constexpr double kHeavyEpilogue = 250;     // operations of the epilogue of a tile, as straight-line code

// How the reduction is computed: which iterators become lanes and columns.
struct Choice {
  bool over_reduction = false;   // the lanes are parts of one sum
  std::string vector, columns;   // iterators of the reduction statement; columns may be empty
  int64_t lanes = 1;
  TileChoice tile;
};

// A choice that the kernel has, and what the closed forms need to judge its tiles.
struct ReductionChoice {
  Choice choice;                 // with the tile of the least cycles, `preference` among them
  TileProblem problem;
  double preference = 1;         // factor on the predicted cycles
  int64_t rows = 1;              // extent of the iterator that `ReductionKnobs::rows` would tile
  size_t loops = 0;              // around the tile
};

class ReductionScheduler {
 public:
  // Applies the rewrites that every choice begins with; throws Abandon where the kernel is no such reduction.
  explicit ReductionScheduler(const TraceBuilder& start);
  // All lines of a schedule with this choice; to be asked once.
  TraceBuilder run(const ReductionChoice& choice, const ReductionKnobs& knobs);
  // The choice with the tile that run() takes without knobs: the cheapest one, or a smaller one where that is known to
  // be better than the closed forms have it.
  Choice with_tile(const ReductionChoice& choice) const;
  // All choices of iterators.
  std::vector<ReductionChoice> choices() const;
  // What its tile of outputs computes, by its subscripts.
  ReductionClass reduction_class() const { return classify(macc()); }
  // Number of iterators that are summed over.
  size_t reductions() const;
  // After the rewrites.
  const Kernel& kernel() const;

 private:
  const Statement& macc() const;
  // One reduction; the statements before it initialise what it adds to, those after it are
  // elementwise.
  void find_statements();
  // What the reduction writes becomes private.
  void stage();
  // The block that the dimension of the private buffer has, or is to have to fit the layouts around.
  int64_t block_of(size_t dim) const;
  // An epilogue may read `64*h + d` where the reduction writes `n`: the reduction and its
  // initialisation count the same way then.
  void align();
  // Where a block of the layouts around has several groups, their iterator and the one of a group's
  // features become one, over the lanes of the block.
  void join_groups();
  bool join_along(const std::string& statement, size_t dim, int64_t block);
  // Iterators over contiguous dimensions become one, innermost pairs first.
  void merge();
  bool is_output(const std::string& iterator) const;
  std::vector<std::string> outputs() const;
  bool is_constant(const Access& access) const;
  int times_read(int buffer) const;
  bool packable(const Access& access) const;
  // Dimension of the accumulators' buffer that the iterator indexes alone, with coefficient 1 or as
  // the finest of several; nothing where there is none.
  std::optional<size_t> dimension_of(const std::string& iterator) const;
  const BlockedDim* blocked_dim(const Access& access, size_t inner) const;
  bool is_blocked(int buffer) const;
  // The last statement's write seen along the iterator of the reduction: 1 where it stores vectors.
  double store_cost(const std::string& vector, int64_t lanes) const;
  double epilogue_loads() const;
  // Instructions of the epilogue per accumulator, roughly.
  double epilogue_weight() const;
  TileProblem problem_for(const std::string& vector, const std::string& columns, int64_t lanes) const;
  // Whether it is an input that is packed first, so that lanes lie side by side.
  bool reads_packed(const Access& load, const std::string& vector, const std::string& columns) const;
  // Whether each step of a sum reads it on another page, and there are more of them than the processor keeps in mind.
  bool crosses_pages(const Access& load) const;
  TileProblem::Operand operand_for(const Access& load, const std::string& vector,
                                   const std::string& columns, int64_t lanes) const;
  // Lanes along `vector`, so many of them; `outer` counts blocks of them that exist already.
  ReductionChoice choice_for(const std::string& vector, const std::string& columns, const std::string& outer, int64_t width) const;
  void take(const ReductionChoice& choice);
  void shrink_tile();
  std::string fresh(const std::string& base) const;
  // Reduction iterators in the order in which they run: those along the innermost dimension of what
  // is read by columns come last, or windows along the columns where lanes read several groups.
  std::vector<std::string> reduction_order(const std::string& vector) const;
  // Whether some load has both iterators in one subscript: a window that slides along `columns`.
  bool is_window(const std::string& reduction, const std::string& columns) const;
  // Whether all that is reduced is a window of the one thing read, as in a pool.
  bool is_window_alone() const;
  bool constrained(const std::string& iterator) const;
  // Whether it moves along a row of which each lane reads an element of its own group.
  bool moves_groups(const std::string& iterator) const;
  // Whether conditions leave some lanes of each vector in its trips, of which copies know which.
  bool cuts_lanes(const std::string& iterator, const std::string& lane) const;
  double bytes_of(const Access& access) const;
  // Whether the loop over tiles of the vector iterator is outside of the other output loops: the
  // packed panel is then read again and again from a near cache, else the other operand is.
  bool vector_outermost(double vector_trips, double other_trips) const;
  // Lanes along an output: accumulators are vectors in blocks of the private buffer.
  void schedule_over_outputs();
  bool shares_dimension(const std::string& iterator, size_t dim) const;
  // Constants of the epilogue are padded along the vector, so that padded lanes need no conditions.
  void pad_constants(size_t dim);
  void pack_constants(const std::vector<std::string>& reductions, const std::string& vector_in,
                      const std::string& inner, bool no_columns);
  // An input that lanes read apart, and all columns alike.
  bool is_packable_input(const Access& access, const std::string& lane, const std::string& columns) const;
  // Such an input that is read again and again: a copy with lanes side by side, made where the loops begin that
  // read it again.
  void pack_input(const std::vector<std::string>& outer, const std::vector<std::string>& reductions,
                  const std::string& vector_in, const std::string& inner);
  // The loops of that copy: lanes along what lies side by side in the input, which registers transpose.
  void finish_packing();
  // The loops of an initialisation or epilogue inside the tile: copies, and lanes.
  void finish_copies(const std::string& name, bool unroll);
  // The iterator of the statement that runs along the lanes of the private buffer.
  std::string lane_iterator(const std::string& name) const;
  void unroll_reductions(const std::vector<std::string>& reductions, const std::string& columns,
                         int64_t tile);
  // The packed panel that comes next, of constants that are not in the cache from the last run.
  // Where parts of a panel come one after the other, the next part, counted by that iterator.
  void prefetch_panels(double uses, const std::string& part = "");
  // What the next tile of columns reads of the input.
  void prefetch_input(const std::string& columns);
  std::string divide_panel(int64_t panels);
  // What the knobs divide: the longest loop that sums, and the rows, whose number it returns.
  void divide_sum(const std::string& columns);
  int64_t divide_rows(const std::vector<std::string>& outer, std::vector<std::string>& order,
                      std::vector<std::string>& inside);
  // Whether the load along the window is a scalar that is broadcast to the lanes.
  bool shares_broadcasts(const std::string& window, const std::string& columns) const;
  // Lanes along the reduction: partial sums, added up at the end.
  void schedule_over_reduction();

  TraceBuilder b_;
  ReductionKnobs knobs_;
  std::string init_, macc_;
  std::vector<std::string> tails_;
  std::string packed_, packed_at_;  // the statement that packs an input, and the loop that holds it
  Choice choice_;
  std::string vector_outer_;       // counts the tiles along the vector; empty where there is one
  std::string group_;              // counts the groups where each has one such tile
};

// A reduction after the rewrites that every choice begins with, and all its choices.
struct PreparedReduction {
  explicit PreparedReduction(const TraceBuilder& start);

  // The schedule by the cheapest choice whose lines are accepted, or by the choice that the knobs name. Writes into the
  // knobs which one it is, and appends to `refused`, if there is one, what was refused before.
  TraceBuilder apply(ReductionKnobs& knobs, std::vector<std::string>* refused) const;
  const ReductionChoice& cheapest() const { return choices[by_cycles.front()]; }

  ReductionScheduler scheduler;
  std::vector<ReductionChoice> choices;    // `ReductionKnobs::choice` counts them from 1
  std::vector<size_t> by_cycles;           // at least one
};
// "16 lanes along f, tiles of 2 vectors by 14 columns along x".
std::string in_words(const Choice& choice);

}  // namespace tc
