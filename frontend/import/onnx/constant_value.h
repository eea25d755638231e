// The tensor that an ONNX node `Constant` stands for.
#pragma once

#include "ir/graph.h"

namespace tc {

// `attribute` is the node's only one: a tensor, a number (f32 or i64, rank 0) or a list of numbers (rank 1).
// Unsupported error for others.
TensorPtr tensor_of(const Node& node, const Attribute& attribute);

}  // namespace tc
