// Closed forms of sums of products on a matrix unit.
#pragma once

#include <algorithm>

#include "scheduler/cost/tile_cost.h"
#include "scheduler/default/matrix_problem.h"

namespace tc {

// A view of a problem, in cycles of one thread's clock.
class MatrixCost {
 public:
  explicit MatrixCost(const MatrixProblem& problem) : problem_(problem) {}

  // Of all threads together; infinite where the rewrite is refused or a band does not fit the second cache.
  double cycles(const BandPlan& plan) const;
  // Cycles of the products alone, with accumulators that are all full: no plan has fewer.
  double least_cycles() const;
  // The same sums in f32, by vectors.
  double direct_cycles() const;
  // Several products on vectors take longer than those in f32 and gain where fewer bytes come from afar. (Of
  // several rows they are for instructions that take less time.)
  bool stays_in_cache() const {
    return problem_.unit().vectors && problem_.algorithm().sums() > 1 && problem_.is_row() &&
           direct_stream() == 0;
  }
  // Sums by order, of two accumulators at a time: the constant's tiles are loaded once for both, but each
  // operand has one register. That pays where the constant comes from the second cache each time and the
  // input does not, as taps read it again, or where so little is summed up that results to be stored hold up
  // the next accumulator.
  bool pays_in_pairs(const BandSizes& sizes) const;
  // Of the weights that a pair of blocks and a depth have in all.
  double pair_bytes(const BandPlan& plan, const BandSizes& sizes) const;

 private:
  // Of direct_cycles(), those in which weights come from beyond the second cache.
  double direct_stream() const;
  // Bytes of the second caches that weights may stay in. One row's features are divided among all threads.
  double caches() const;
  // Whether the constant's part of a block stays in the first cache from one accumulator to the next.
  bool stays_near(const BandSizes& sizes) const;
  bool reads_weights_once(const BandSizes& sizes) const {
    return sizes.digits_are_rows || (problem_.unit().vectors && problem_.is_row());
  }
  // What vectors do takes so often the cycles stated, which are of cores with two multiply-adds a cycle.
  double turns() const { return problem_.unit().vectors ? 2 / problem_.target().multiply_adds : 1; }
  double vectors(double elements) const {
    return elements * 32 / std::max(32, problem_.target().vector_bits);
  }
  // Cycles in which so many bytes of all weights come from beyond the second cache.
  double far(double bytes, double weights) const {
    return cycles_from_afar(problem_.target(), bytes, weights);
  }

  const MatrixProblem& problem_;
};

}  // namespace tc
