// Two products of matrices with a program over rows between them, as in an attention: in bands of rows.
#pragma once

#include <string>
#include <vector>

#include "scheduler/default/builder.h"

namespace tc {

// The best height of a band, and its schedule.
struct BandChoice {
  int64_t rows = 0;   // of a band
  double cycles = 0;  // predicted, of both products
  std::string plan;   // in words
};

// For a kernel whose first product computes rows, which a row program turns into the left operand of a second
// product. For one band of rows at a time, all three run one after the other, and what they pass on stays in
// scratch memory of the size of the band. Throws NotApplicable with the reason where the kernel is not of
// this kind.
BandChoice choose_bands(const TraceBuilder& start, bool least_error);
// The schedule with all lines of that choice. Each product is scheduled as if a band of it were a kernel of
// its own.
TraceBuilder schedule_bands(const TraceBuilder& start, const BandChoice& choice, bool least_error);

}  // namespace tc
