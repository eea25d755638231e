// From plans to lines: each function applies what a plan says, in the order in which the primitives need it,
// and decides nothing.
#pragma once

#include "scheduler/default/plan.h"

namespace tc {

// Stores the accumulators' buffer, and the constants that the epilogue reads, in blocks of lanes, so that
// padded lanes need no conditions there.
LaneLayout lay_out_lanes(ReductionKernel& reduction, const Choice& choice);
// Divides the iterators.
void write(ReductionKernel& reduction, const IteratorPlan& plan);
// Makes copies of all loops of the initialisation and of the epilogue.
void unroll_results(ReductionKernel& reduction);
// Makes vectors of the innermost loops of the initialisation and of the epilogue, and copies of the others.
void vectorize_results(ReductionKernel& reduction);
// Everything else: vectors of `lanes`. Throws NotApplicable with the reason where a line is refused.
void write(ReductionKernel& reduction, const LoopPlan& plan, int64_t lanes);

}  // namespace tc
