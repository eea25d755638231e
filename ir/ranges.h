// Interval analysis of loop bounds and affine expressions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/affine.h"
#include "ir/scheduled.h"

namespace tc {

using Ranges = std::map<std::string, Interval>;

// The range of a loop expression where each variable moves in its interval; conditions give 0..1.
// Variables without an interval make the result unbounded.
Interval range_of(const LoopExpr& expr, const Ranges& ranges);

// True where `affine >= 0` holds for all values of the variables: by its range, or because one of
// the `known` expressions, each of which is known to be >= 0, is not larger.
bool proves_nonnegative(const Affine& affine, const Ranges& ranges, const std::vector<Affine>& known);

// True where `affine >= 0` holds for no value of the variables in their ranges.
bool refutes_nonnegative(const Affine& affine, const Ranges& ranges);

// The first of `variables` that occurs in the expression, or the empty string.
bool mentions(const Affine& affine, const std::string& variable);

// The value of an affine expression where it is the same for all values of the variables that a
// loop of the kernel calls one thing: variables whose range is a single value become that value.
Affine fold_single_values(const Affine& affine, const Ranges& ranges);

}  // namespace tc
