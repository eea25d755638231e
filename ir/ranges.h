// Interval analysis of loop bounds and affine expressions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/affine.h"
#include "ir/scheduled.h"

namespace tc {

using Ranges = std::map<std::string, Interval>;

// The range of a loop expression where each variable moves in its interval; conditions are 0 or 1. Variables
// without an interval make the result unbounded.
Interval range_of(const LoopExpr& expr, const Ranges& ranges);

// True where `affine >= 0` is proved for all values of the variables: by its range, or because one of the
// `known` expressions, all of which are >= 0, is never larger than `affine`.
bool proves_nonnegative(const Affine& affine, const Ranges& ranges, const std::vector<Affine>& known);

// True where `affine >= 0` holds for no value of the variables in their ranges.
bool refutes_nonnegative(const Affine& affine, const Ranges& ranges);

// Whether the variable occurs in the expression.
bool mentions(const Affine& affine, const std::string& variable);

// The expression with every variable whose range is a single value replaced by that value.
Affine fold_single_values(const Affine& affine, const Ranges& ranges);

}  // namespace tc
