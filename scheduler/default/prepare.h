// A reduction with its initialisation and its epilogue, and the rewrites that all of its schedules begin
// with.
#pragma once

#include <string>
#include <vector>

#include "scheduler/default/builder.h"

namespace tc {

struct ReductionKernel {
  TraceBuilder builder;   // with the lines applied so far
  std::string init, sum;  // names of the statements that set the accumulators and that add to them
  std::vector<std::string> epilogue;  // elementwise statements, in their order
  bool least_error = false;           // long sums of floats are computed in blocks
  double tolerance = 0;               // for errors of algorithms, such as int21

  const Statement& statement() const { return builder.statement(sum); }
  // A name that no iterator of the sum has: the base itself, or the base with a number from 2 on.
  std::string fresh(const std::string& base) const;
};

// The kernel with its result in a private buffer, groups of features joined over the lanes of a block,
// iterators divided as the epilogue counts them, and iterators over contiguous dimensions merged. Throws
// NotApplicable with the reason where the kernel is no single reduction between one initialisation and
// elementwise statements.
ReductionKernel prepare_reduction(const TraceBuilder& start);

// The block size that the dimension of the sum's buffer has, or should have to fit the surrounding layouts;
// else 0.
int64_t block_of(const ReductionKernel& reduction, size_t dim);

}  // namespace tc
