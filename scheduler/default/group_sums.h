// The default for sums of groups: products of bytes that are summed up in whole numbers group by group,
// scaled and added up.
#pragma once

#include <string>

#include "scheduler/default/builder.h"

namespace tc {

// A plan for such a kernel. Tiles have `rows` rows by `vectors` vectors of results, each with a sum for each
// digit.
struct GroupSums {
  std::string start, init, dot, add;  // statements: results and sums at 0, the products, the scaled sums
  std::string lanes;                  // iterator of `dot`: results side by side
  int64_t rows = 1, vectors = 1;
  int64_t panels = 1;  // vectors whose weights are packed side by side; a tile takes one of them or all
  int64_t width = 1;   // lanes of a vector
  bool holds = false;  // results stay in registers from group to group
  double cycles = 0;

  std::string in_words() const;
};

// Throws NotApplicable where the kernel is not of this kind.
GroupSums find_group_sums(const TraceBuilder& builder);
TraceBuilder schedule_group_sums(TraceBuilder builder, const GroupSums& plan);

}  // namespace tc
