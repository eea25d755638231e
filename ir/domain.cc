// Proofs about affine expressions over boxes with constraints.
#include "ir/domain.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "ir/error.h"

namespace tc {
namespace {

// More points than this are not enumerated.
constexpr int64_t kMaxPoints = 200000;

int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

}  // namespace

Domain::Domain(std::map<std::string, Interval> box, std::vector<Affine> constraints)
    : box_(std::move(box)), constraints_(std::move(constraints)) {
  for (const auto& [name, range] : box_) empty_ = empty_ || range.low > range.high;
  tighten();
}

void Domain::tighten() {
  bool changed = true;
  for (int round = 0; round < 8 && changed && !empty_; ++round) {
    changed = false;
    for (const Affine& constraint : constraints_) {
      if (range_of(constraint, box_).high < 0) empty_ = true;
      for (const auto& [name, coefficient] : constraint.terms()) {
        // coefficient * name >= -rest, where the other terms are as large as they can be.
        Interval rest = range_of(constraint - Affine::variable(name, coefficient), box_);
        if (rest.high > (int64_t{1} << 60)) continue;
        auto found = box_.find(name);
        TC_CHECK(found != box_.end(), "a range of variable '", name, "'");
        Interval& range = found->second;
        if (coefficient > 0) {
          int64_t low = -floor_divide(rest.high, coefficient);
          if (low > range.low) range.low = low, changed = true;
        } else {
          int64_t high = floor_divide(rest.high, -coefficient);
          if (high < range.high) range.high = high, changed = true;
        }
        if (range.low > range.high) empty_ = true;
      }
    }
  }
}

// True where some m * affine - k * constraint (m, k > 0) is >= 0 by intervals, with m and k such
// that a variable cancels.
bool Domain::follows_from_constraints(const Affine& affine) const {
  for (const Affine& constraint : constraints_) {
    for (const auto& [name, coefficient] : affine.terms()) {
      int64_t other = constraint.coefficient(name);
      if (other == 0 || (other < 0) != (coefficient < 0)) continue;
      int64_t common = std::gcd(other, coefficient);
      int64_t m = std::abs(other / common), k = std::abs(coefficient / common);
      // m * affine >= k * constraint + low > -m, and integers above -1 are not negative.
      if (range_of(affine * m - constraint * k, box_).low > -m) return true;
    }
  }
  return false;
}

Domain::Answer Domain::enumerate(const Affine& affine, std::map<std::string, int64_t>* counterexample) const {
  // The variables that the constraints connect with the expression.
  std::set<std::string> names;
  for (const auto& term : affine.terms()) names.insert(term.first);
  std::vector<const Affine*> relevant;
  std::vector<bool> taken(constraints_.size(), false);
  for (bool grown = true; grown;) {
    grown = false;
    for (size_t i = 0; i < constraints_.size(); ++i) {
      const auto& terms = constraints_[i].terms();
      bool touches = std::any_of(terms.begin(), terms.end(),
                                 [&](const auto& term) { return names.count(term.first) > 0; });
      if (taken[i] || !touches) continue;
      taken[i] = grown = true;
      relevant.push_back(&constraints_[i]);
      for (const auto& term : terms) names.insert(term.first);
    }
  }
  int64_t points = 1;
  std::map<std::string, int64_t> point;
  for (const std::string& name : names) {
    const Interval& range = box_.at(name);
    int64_t extent = range.high - range.low + 1;
    if (extent > kMaxPoints / points) return Answer::Unknown;
    points *= extent;
    point[name] = range.low;
  }
  while (true) {
    bool inside = std::all_of(relevant.begin(), relevant.end(),
                              [&](const Affine* constraint) { return constraint->evaluate(point) >= 0; });
    if (inside && affine.evaluate(point) < 0) {
      if (counterexample) *counterexample = point;
      return Answer::No;
    }
    auto digit = point.begin();
    while (digit != point.end() && ++digit->second > box_.at(digit->first).high) {
      digit->second = box_.at(digit->first).low;
      ++digit;
    }
    if (digit == point.end()) return Answer::Yes;
  }
}

Domain::Answer Domain::is_nonnegative(const Affine& affine,
                                      std::map<std::string, int64_t>* counterexample) const {
  if (empty_ || range_of(affine, box_).low >= 0) return Answer::Yes;
  if (follows_from_constraints(affine)) return Answer::Yes;
  return enumerate(affine, counterexample);
}

}  // namespace tc
