// Branches that the bound shapes contradict.
#pragma once

#include "ir/error.h"
#include "ir/graph.h"

namespace tc {

// Stands for a branch that the bound shapes contradict. A run that takes it gets outputs with the types and
// shapes of `other`, which are all NaN (0 for integers). Throws `refusal`, which says why the branch is
// impossible, where the shapes of `other` are not known.
GraphPtr poison_like(const Graph& other, const Error& refusal);

}  // namespace tc
