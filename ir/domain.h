// Proofs about affine expressions over boxes with constraints.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/affine.h"

namespace tc {

// The integer points of a box where all constraints are >= 0. Every variable of a constraint, and of an
// expression that is asked about, has a range in the box.
class Domain {
 public:
  Domain(std::map<std::string, Interval> box, std::vector<Affine> constraints);

  // True where intervals show that there is no point; false may mean either.
  bool is_empty() const { return empty_; }

  enum class Answer { Yes, No, Unknown };
  // Whether the expression is >= 0 at every point. It tries intervals, then combinations with the
  // constraints, then the enumeration of the points of the variables concerned where those are few. After No,
  // `counterexample` (if given) holds a point at which the expression is negative.
  Answer is_nonnegative(const Affine& affine, std::map<std::string, int64_t>* counterexample) const;

 private:
  void tighten();
  bool follows_from_constraints(const Affine& affine) const;
  Answer enumerate(const Affine& affine, std::map<std::string, int64_t>* counterexample) const;

  std::map<std::string, Interval> box_;  // tightened by the constraints
  std::vector<Affine> constraints_;
  bool empty_ = false;
};

}  // namespace tc
