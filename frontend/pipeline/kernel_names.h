// What kernels and their buffers are called.
#pragma once

#include <string>

#include "ir/graph.h"
#include "ir/loop.h"
#include "ir/passes/group.h"

namespace tc {

// The model's nodes that the group computes.
std::string label_of(const Graph& graph, const Group& group);

// Names by role, so that traces of equal kernels are equal: in0, const0, out0, tmp0, …
void rename_buffers(Kernel& kernel);

}  // namespace tc
