// The algebra of Winograd's convolutions F(m, r): points, transforms, error.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/loop.h"

namespace tc {

// One algorithm F(m, r): m outputs of a filter of r taps, from m + r - 1 inputs with as many products, by y =
// A' ((G g) * (B' d)). The matrices follow from interpolation at the points and at infinity.
struct Winograd {
  int64_t outputs = 0, taps = 0;
  // 0, then pairs p, -p; together with infinity as many points as products. Of all choices of two pairs,
  // +-sqrt(1/2) and +-sqrt(2) lose the fewest digits; of three pairs, +-1/2, +-1 and +-2 do.
  std::vector<double> points;
  // The error of one layer in f32, relative to its largest output: a bound for sensible data.
  double error = 0;

  int64_t products() const { return outputs + taps - 1; }
  // G: a row per product.
  std::vector<std::vector<double>> filter_rows() const;
  // Element `row` of B' d and of A' m. What both points of a pair have in common occurs once per expression.
  ExprPtr input_row(int64_t row, const std::vector<ExprPtr>& inputs) const;
  ExprPtr output_row(int64_t row, const std::vector<ExprPtr>& products) const;
};

// All rows.
const std::vector<Winograd>& winograd_rows();
// The row with this many outputs and taps; null where there is none.
const Winograd* find_winograd(int64_t outputs, int64_t taps);

}  // namespace tc
