// Kernels that change parts of a tensor, and how to drop the copy of the whole tensor with which they begin.
#pragma once

#include <functional>
#include <vector>

#include "frontend/pipeline/attention.h"

namespace tc {

// A copy of one whole argument of a kernel to another, which is an output of the same shape.
struct WholeCopy {
  ValueId from = kNoValue, to = kNoValue;
};

// What the kernel's first statement copies, where further statements write to the same output; kNoValue where
// the kernel does not begin so.
WholeCopy first_copy(const KernelPart& part);
// Drops that statement: the output holds the copy when the kernel begins.
void drop_first_copy(KernelPart& part);

// Reorders the groups: before a group that makes an output by changing parts of an input of the model come
// all other groups that read that input, where dependences allow it. `copied(group)` tells which input the
// group changes, or kNoValue.
std::vector<Group> readers_first(const Graph& graph, const std::vector<Group>& groups,
                                 const std::function<ValueId(const Group&)>& copied);

}  // namespace tc
