// The analytic cost model of sums of products on a matrix unit.
#pragma once

#include <algorithm>

#include "scheduler/cost/tile_cost.h"
#include "scheduler/default/matrix_problem.h"

namespace tc {

// A view of a problem, which has to outlive it. Results are in cycles of one thread's clock.
class MatrixCost {
 public:
  explicit MatrixCost(const MatrixProblem& problem) : problem_(problem) {}

  // Cycles of all threads together; infinite where the rewrite is refused or a band does not fit the second
  // cache.
  double cycles(const MatrixUnitPlan& plan) const;
  // Cycles of the products alone, with accumulators that are all full: no plan has fewer.
  double least_cycles() const;
  // Cycles of the same sums in f32, on vectors.
  double direct_cycles() const;
  // Whether the weights stay in the caches, where several products on vectors for each product in f32 do not
  // pay: they take longer, and gain only where fewer bytes come from beyond the second cache. (With several
  // rows they are for instructions that take less time.)
  bool stays_in_cache() const {
    return problem_.unit().vectors && problem_.algorithm().sums() > 1 && problem_.is_row() &&
           direct_stream() == 0;
  }
  // Whether sums by order pay with two accumulators at a time: the constant's tiles are loaded once for both,
  // but each operand has only one register. That pays where the constant comes from the second cache each
  // time and the input does not, as taps read it again, or where sums are so short that storing results
  // delays the next accumulator.
  bool pays_in_pairs(const MatrixUnitSizes& sizes) const;
  // Bytes of all weights of a pair: the blocks of features that are computed at a time.
  double pair_bytes(const MatrixUnitPlan& plan, const MatrixUnitSizes& sizes) const;

 private:
  // The part of direct_cycles() in which weights come from beyond the second cache.
  double direct_stream() const;
  // Bytes of the second caches that weights may stay in. One row's features are divided among all threads.
  double caches() const;
  // Whether the constant's part of a block stays in the first cache from one accumulator to the next.
  bool stays_near(const MatrixUnitSizes& sizes) const;
  bool reads_weights_once(const MatrixUnitSizes& sizes) const {
    return sizes.digits_are_rows || (problem_.unit().vectors && problem_.is_row());
  }
  // Factor on the cycles stated for vector instructions, which are those of cores with two multiply-adds a
  // cycle.
  double turns() const { return problem_.unit().vectors ? 2 / problem_.target().multiply_adds : 1; }
  // Rows of vendors' instructions state the cycles of the core that has them.
  bool is_encoded() const {
    const NarrowProduct* row = problem_.format().instruction;
    return problem_.unit().vectors && row != nullptr && row->encoding.opcode != 0;
  }
  double turns_of_products() const { return is_encoded() ? 1 : turns(); }
  double vectors(double elements) const {
    return elements * 32 / std::max(32, problem_.target().vector_bits);
  }
  // Cycles in which `bytes` of all the weights come from beyond the second cache.
  double far(double bytes, double weights) const {
    return cycles_from_afar(problem_.target(), bytes, weights);
  }

  const MatrixProblem& problem_;
};

}  // namespace tc
