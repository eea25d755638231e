// Kernels that change parts of a tensor: without the copy of all of it that they begin with.
#pragma once

#include <functional>
#include <vector>

#include "frontend/pipeline/attention.h"

namespace tc {

// A copy of one whole argument of a kernel to another, which is an output of the same shape.
struct WholeCopy {
  ValueId from = kNoValue, to = kNoValue;
};

// What the kernel's first statement copies, where further statements follow that write to the same output;
// kNoValue where that is not how it begins.
WholeCopy first_copy(const KernelPart& part);
// Drops that statement: the output holds the copy when the kernel begins.
void drop_first_copy(KernelPart& part);

// The groups in an order in which, where dependences allow it, all others that read an input of the model
// come before the one that makes an output of it by changing parts. `copied(group)` tells which input that
// is, or kNoValue.
std::vector<Group> readers_first(const Graph& graph, const std::vector<Group>& groups,
                                 const std::function<ValueId(const Group&)>& copied);

}  // namespace tc
