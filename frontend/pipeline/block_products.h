// Products with packed weights, computed as sums of products of integers where the tolerance allows it.
#pragma once

#include "ir/graph.h"
#include "ir/target/target.h"

namespace tc {

// Replaces each product of floats with weights in blocks (BlockMatMul) by a quantisation of the operand,
// group by group, and a product of integers (BlockQuantize, BlockDot). Products with the same operand share
// its quantisation. Nothing changes where the target has no instruction that sums products of bytes or the
// tolerance is too small.
void use_integer_products(Graph& graph, const Target& target, double tolerance);

}  // namespace tc
