// The algebra of Winograd's convolutions F(m, 3): points, transforms, error.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/loop.h"

namespace tc {

// One row of algebra: m outputs of a 3-tap filter from m + 2 inputs with m + 2 products, which is
// y = A' ((G g) * (B' d)), each matrix from interpolation at the points and infinity.
struct Winograd {
  int64_t outputs = 0;
  // 0, then pairs p, -p. Those of F(4, 3), +-sqrt(1/2) and +-sqrt(2), lose fewest digits.
  std::vector<double> points;
  // Of one layer in f32, relative to its largest output: a bound for sensible data.
  double error = 0;

  int64_t taps() const { return 3; }
  int64_t products() const { return outputs + 2; }
  // G: a row per product.
  std::vector<std::vector<double>> filter_rows() const;
  // Element `row` of B' d and of A' m: sums in which what a pair of points shares stands once per
  // expression.
  ExprPtr input_row(int64_t row, const std::vector<ExprPtr>& inputs) const;
  ExprPtr output_row(int64_t row, const std::vector<ExprPtr>& products) const;
};

// The row for m outputs, 2 or 4; null where there is none.
const Winograd* find_winograd(int64_t outputs);

}  // namespace tc
