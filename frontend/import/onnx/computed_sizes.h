// Sizes of a node's results that a run computes: the operand that decides them becomes known by data symbols.
#pragma once

#include <map>

#include "ir/graph.h"

namespace tc {

// Values of a graph whose elements got symbols, each with the one of the same content whose elements they
// are.
using SizesOfValues = std::map<ValueId, ValueId>;

// Makes the elements of a small integer tensor, an operand of `node` in `graph`, known: what shape arithmetic
// makes of values that nodes compute follows from these, and each of them gets a data symbol without a bound.
// The node reads another value from then on where the operand itself got symbols. False where the operand has
// more than a shape's elements, or nobody knows how many. `sizes` is of the graph.
bool know_elements(Graph& graph, Node& node, ValueId operand, SizesOfValues& sizes);

// Where the shape that a Reshape takes is chosen by the run, a -1 in it or a 0 may be too: nodes before it
// put in the sizes that these stand for, which become known as above. False for other nodes and operands.
bool resolve_shape(Graph& graph, Node& node, ValueId operand, SizesOfValues& sizes);

// Gives operands of the node that have one of two sizes, which nothing proves equal, the other by views whose
// relation a run checks. False where no operand has one of them.
bool make_equal(Graph& graph, Node& node, const Dim& left, const Dim& right);

}  // namespace tc
