// Sums of products on a matrix unit: what the choice of sizes hands on to the lines that make use of it.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "scheduler/algebra/algorithms.h"
#include "scheduler/default/builder.h"

namespace tc {

struct BandPlan {
  int64_t band = 1, panel = 1, blocks = 1, tiles = 1, rows = 1;
  double cycles = INFINITY;
  bool prefetch = true;
  MatrixKnobs knobs;  // that say the same

  // That rewrites the sum.
  std::string line(const std::string& sum, const TermsAlgorithm& algorithm) const;
};

// Images come before bands in all statements that the rewrite makes.
size_t band_position(const Statement& start);
// Over the orders of products, whose sums are apart.
inline size_t loops_over_orders(const TermsAlgorithm& algorithm) { return algorithm.sums() > 1; }

// Rewrites the sum, orders the loops of all statements and marks them; whether that is legal is not asked.
void apply_plan(TraceBuilder& builder, const std::string& sum, const TermsAlgorithm& algorithm,
                const BandPlan& plan);

}  // namespace tc
