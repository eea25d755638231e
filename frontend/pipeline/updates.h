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

// The values that groups compute and that only one other group reads, which copies them and changes parts of
// the copy.
std::vector<WholeCopy> changed_alone(const Graph& graph, const std::vector<Group>& groups,
                                     const LowersGroup& kernel_of);

// Reorders the groups: before a group that makes an output by changing parts of an input of the model come
// all other groups that read that input, where dependences allow it.
std::vector<Group> readers_first(const Graph& graph, const std::vector<Group>& groups,
                                 const LowersGroup& kernel_of);

}  // namespace tc
