// Building blocks of operators that choose elements: the positions of the chosen ones, sorted orders, small
// helpers.
#pragma once

#include "ir/ops/rows.h"

namespace tc {

// A name for a size that the node computes; no other size visible in the graph has it.
std::string fresh_symbol(const Graph& graph, const Node& node);
// Whether a node computes the value, i.e. it is neither a constant nor an input.
bool is_computed(const Graph& graph, ValueId value);
// A size as a value, i64.
ValueId value_of(NodeBuilder& build, const Dim& size);

// The value as a vector.
ValueId flat_view(NodeBuilder& build, ValueId value);
// Tensors of integers: zeros, and 0, 1, … below the count.
ValueId zeros(NodeBuilder& build, const Shape& shape);
ValueId numbers_to(NodeBuilder& build, const Dim& count);

// The positions of the elements of each row (the last axis) in ascending order, or in descending order; equal
// elements keep their order.
ValueId sorted_order(NodeBuilder& build, ValueId keys, bool largest);
// The same from the elements' ranks, i.e. how many elements come before each.
ValueId order_of_ranks(NodeBuilder& build, ValueId ranks);
// The rows for merge sort, in addition to those of sorting.cc.
void register_merge_rows(OpTable& table);

// The positions of the true elements of `mask`, a vector of bools, as a vector. Its length is the size that
// `model` declares, and this binds it. Each position p is stored at index (number of true elements before p),
// so a position that is not chosen is overwritten by the next ones. Hence one more place is written than
// there are chosen elements.
ValueId chosen_positions(NodeBuilder& build, const Node& model, ValueId mask);

}  // namespace tc
