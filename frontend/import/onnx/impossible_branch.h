// Branches that the bound shapes contradict.
#pragma once

#include "ir/error.h"
#include "ir/graph.h"

namespace tc {

// A branch that gives outputs of the same types and shapes as `other`, all NaN (0 for integers): what a run
// gets that takes a branch which the bound shapes contradict. Throws `refusal`, why the branch is impossible,
// where the shapes of `other` are not known.
GraphPtr poison_like(const Graph& other, const Error& refusal);

}  // namespace tc
