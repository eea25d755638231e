// One reduction with its initialisation and epilogue: convolution, products of matrices, depthwise, pooling,
// row sums. First facts, then a plan, then lines: no stage changes what an earlier one decided.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/default/plan.h"

namespace tc {

// A choice of iterators with its plan, and the kernel with all lines.
struct PlannedReduction {
  Choice choice;
  std::optional<IteratorPlan> iterators;  // none for partial sums
  LoopPlan loops;
  TraceBuilder result;
};
// All fields of both plans, a line each.
std::string str(const PlannedReduction& planned);

// A reduction after the rewrites that every choice begins with, and all its choices.
class PreparedReduction {
 public:
  // `least_error`: long sums are formed in blocks. `tolerance`: that of the network, which decides whether
  // constants may be stored as 21-bit numbers.
  explicit PreparedReduction(const TraceBuilder& start, bool least_error = false, double tolerance = 0);

  ReductionFacts facts() const { return ReductionFacts(reduction_); }
  const std::vector<ReductionChoice>& choices() const {
    return choices_;
  }  // `ReductionKnobs::choice` counts from 1
  const ReductionChoice& cheapest() const { return choices_[by_cycles_.front()]; }

  // The plan by this choice, whose tile the knobs may replace. Throws NotApplicable where a line is refused.
  PlannedReduction plan(const ReductionChoice& choice, const ReductionKnobs& knobs) const;
  // The schedule by the cheapest choice whose lines are accepted, or by the choice that the knobs name.
  // Writes into the knobs which one it is, and appends to `refused`, if not null, the cheaper choices that
  // were refused, with the reasons.
  TraceBuilder apply(ReductionKnobs& knobs, std::vector<std::string>* refused) const;

 private:
  ReductionKernel reduction_;
  std::vector<ReductionChoice> choices_;
  std::vector<size_t> by_cycles_;  // at least one
};

}  // namespace tc
