// Sizes of a node's results that a run computes: the elements of the operand that decides them become data
// symbols.
#pragma once

#include <map>

#include "ir/graph.h"

namespace tc {

// For each value of a graph whose elements got symbols: the value with the same content whose elements are
// these symbols.
using SizesOfValues = std::map<ValueId, ValueId>;

// Makes the elements of an operand of `node`, a small integer tensor, known as expressions. Values on which
// the operand depends by shape arithmetic, but which nodes compute in another way, get a data symbol without
// a bound for each element; the rest follows from these. Where the operand itself got symbols, the node reads
// another value from then on. False where the operand has more elements than a shape, or an unknown number of
// them. `sizes` belongs to the graph.
bool know_elements(Graph& graph, Node& node, ValueId operand, SizesOfValues& sizes);

// If a run chooses the shape operand of a Reshape, it may also choose whether there is a -1 or a 0 in it.
// Adds nodes that replace these by the sizes which they stand for; those become known as above. False for
// other nodes and operands.
bool resolve_shape(Graph& graph, Node& node, ValueId operand, SizesOfValues& sizes);

// For two sizes that have to be equal, though nothing proves it: operands of the node that have one size
// become views with the other, and a run checks that both are equal. False where no operand has one of them.
bool make_equal(Graph& graph, Node& node, const Dim& left, const Dim& right);

}  // namespace tc
