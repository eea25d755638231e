// The tables of Resize for axes whose sizes are known only at run time.
#pragma once

#include <optional>
#include <string>

#include "ir/ops/rows.h"

namespace tc {

struct ResizedAxis {
  Dim in, out;
  std::optional<double> scale;  // given by the model; else the quotient of the sizes
  std::string mode, coordinates, nearest;
  double cubic = -0.75;
  bool exclude_outside = false;
};

// Source indices i64[out, taps] and weights f32[out, taps].
struct ResizeTables {
  ValueId index, weight;
};
ResizeTables computed_tables(NodeBuilder& build, const ResizedAxis& axis);

}  // namespace tc
