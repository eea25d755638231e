// Sums of products on a matrix unit: the sizes that are chosen, from which the lines of the schedule are
// made.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "scheduler/algebra/algorithms.h"
#include "scheduler/default/builder.h"

namespace tc {

struct MatrixUnitPlan {
  int64_t band = 1, panel = 1, blocks = 1, tiles = 1, rows = 1;
  double cycles = INFINITY;
  bool prefetch = true;
  MatrixKnobs knobs;  // from which the same plan follows

  // The line that rewrites the sum.
  std::string line(const std::string& sum, const TermsAlgorithm& algorithm) const;
};

// The position of the iterator over bands; only iterators over images come before it in all statements that
// the rewrite makes.
size_t band_position(const Statement& start);
// How many loops run over the orders of products: one where each order has sums of its own, else none.
inline size_t loops_over_orders(const TermsAlgorithm& algorithm) { return algorithm.sums() > 1; }

// Rewrites the sum, orders the loops of all statements and marks them; does not check legality.
void apply_plan(TraceBuilder& builder, const std::string& sum, const TermsAlgorithm& algorithm,
                const MatrixUnitPlan& plan);

}  // namespace tc
