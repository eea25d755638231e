// Constants in fewer bytes, for models whose read-only memory is short.
#pragma once

#include <map>
#include <string>

#include "frontend/pipeline/attention.h"

namespace tc {

// Takes constants of one number out of the kernel, whose statements get the number instead, and stores
// integers in the shortest type that holds all of them. Returns the tensors of buffers whose type has
// changed, by the buffer's name.
std::map<std::string, TensorPtr> shrink_constants(const Graph& graph, KernelPart& part);

}  // namespace tc
