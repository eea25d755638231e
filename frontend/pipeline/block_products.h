// Products by packed weights as sums of products of whole numbers, where the tolerance allows them.
#pragma once

#include "ir/graph.h"
#include "ir/target/target.h"

namespace tc {

// Replaces products of floats by weights in blocks (BlockMatMul) by a quantisation of the operand, group by
// group, and a product of whole numbers (BlockQuantize, BlockDot). Products of one operand share its
// quantisation. Nothing changes where the target has no sums of products of bytes or the tolerance is too
// small.
void multiply_codes(Graph& graph, const Target& target, double tolerance);

}  // namespace tc
