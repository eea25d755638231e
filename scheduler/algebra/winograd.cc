// The algebra of Winograd's convolutions.
#include "scheduler/algebra/winograd.h"

#include <cmath>

namespace tc {
namespace {

// The value, or the multiple of a half that it would be without the rounding errors of the square roots in
// the points.
double settled(double value) {
  const double twice = std::round(value * 2);
  return std::abs(value * 2 - twice) < 1e-12 ? twice / 2 : value;
}

// sum + factor * term, without multiplications by 1 and -1; `sum` may be null.
ExprPtr plus(const ExprPtr& sum, double factor, const ExprPtr& term) {
  if (factor == 0) return sum;
  const double size = std::abs(factor);
  const ExprPtr scaled = size == 1 ? term : binary(BinaryOp::Mul, constant(term->dtype, size), term);
  if (sum) return binary(factor > 0 ? BinaryOp::Add : BinaryOp::Sub, sum, scaled);
  return factor > 0 ? scaled : unary(UnaryOp::Neg, scaled);
}

// Coefficients, lowest power first, of the product of (x - p) over all points but `skipped`.
std::vector<double> polynomial(const std::vector<double>& points, size_t skipped) {
  std::vector<double> result = {1};
  for (size_t i = 0; i < points.size(); ++i) {
    if (i == skipped) continue;
    std::vector<double> next(result.size() + 1, 0.0);
    for (size_t k = 0; k < result.size(); ++k) {
      next[k + 1] += result[k];
      next[k] -= points[i] * result[k];
    }
    result = next;
  }
  for (double& each : result) each = settled(each);
  return result;
}

}  // namespace

std::vector<std::vector<double>> Winograd::filter_rows() const {
  std::vector<std::vector<double>> rows;
  for (size_t i = 0; i < points.size(); ++i) {
    double divisor = 1;
    for (size_t k = 0; k < points.size(); ++k) {
      if (k != i) divisor *= points[i] - points[k];
    }
    std::vector<double> row;
    double power = 1;
    for (int64_t k = 0; k < taps; ++k, power *= points[i]) row.push_back(power / divisor);
    rows.push_back(std::move(row));
  }
  std::vector<double> last(static_cast<size_t>(taps), 0.0);  // the point at infinity
  last.back() = 1;
  rows.push_back(std::move(last));
  return rows;
}

ExprPtr Winograd::input_row(int64_t row, const std::vector<ExprPtr>& inputs) const {
  const auto i = static_cast<size_t>(row);
  const std::vector<double> factors = polynomial(points, i);
  const bool paired = i > 0 && i < points.size();
  // The parts of a row that are the same for both points of a pair, and that have the sign of the point.
  ExprPtr even, odd;
  for (size_t k = factors.size(); k-- > 0;) {
    const bool with_point = paired && k % 2 == factors.size() % 2;
    if (with_point) odd = plus(odd, settled(factors[k] / points[i]), inputs.at(k));
    else even = plus(even, factors[k], inputs.at(k));
  }
  return odd ? plus(even, points[i], odd) : even;
}

ExprPtr Winograd::output_row(int64_t row, const std::vector<ExprPtr>& products) const {
  ExprPtr sum = row == 0 ? products.at(0) : nullptr;
  for (size_t i = 1; i < points.size(); i += 2) {
    const ExprPtr pair = plus(products.at(i), row % 2 == 0 ? 1 : -1, products.at(i + 1));
    double power = 1;
    for (int64_t k = 0; k < row; ++k) power *= points[i];
    sum = plus(sum, settled(power), pair);
  }
  return row == outputs - 1 ? plus(sum, 1, products.at(points.size())) : sum;
}

const std::vector<Winograd>& winograd_rows() {
  static const std::vector<double> two_pairs = {0, std::sqrt(0.5), -std::sqrt(0.5), std::sqrt(2.0),
                                                -std::sqrt(2.0)};
  static const std::vector<double> three_pairs = {0, 0.5, -0.5, 1, -1, 2, -2};
  static const std::vector<Winograd> rows = {
      {2, 3, {0, 1, -1}, 1e-6},  {4, 3, two_pairs, 5e-6},   {2, 5, two_pairs, 4e-6},
      {6, 3, three_pairs, 2e-5}, {4, 5, three_pairs, 2e-5},
  };
  return rows;
}

const Winograd* find_winograd(int64_t outputs, int64_t taps) {
  for (const Winograd& row : winograd_rows()) {
    if (row.outputs == outputs && row.taps == taps) return &row;
  }
  return nullptr;
}

}  // namespace tc
