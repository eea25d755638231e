// Questions about statements that all parts of the scheduler ask: extents, loads, blocked indices, how much
// they compute.
#pragma once

#include <string>
#include <vector>

#include "ir/access.h"
#include "ir/loop.h"
#include "scheduler/core/tree.h"

namespace tc {

// Extent of an iterator, or `fallback` where it is symbolic.
int64_t extent_or(const Statement& statement, const std::string& iterator, int64_t fallback);
// The iterator with coefficient 1, such as `f_o` in the blocked index `8*g + f_o`; empty where there is none.
std::string outer_part(const Affine& affine);
// All distinct loads of the statement's value.
std::vector<Access> loads_of(const Statement& statement);
// Whether the statement is no reduction but computes its result from its own earlier results, as a recurrence
// or the walk through a decision tree does: each step waits for the one before.
bool continues_itself(const Statement& statement);
bool same_access(const Access& a, const Access& b);

// Vector instructions that the expression takes, roughly.
int weight_of(const ExprPtr& expr);

// " a b c": the names, each after a space.
std::string joined(const std::vector<std::string>& names);

}  // namespace tc
