// What operators are made of that choose elements: positions of those chosen, orders, small helpers.
#pragma once

#include "ir/ops/rows.h"

namespace tc {

// A name for a size that the node computes, which is no identifier of another size in sight.
std::string fresh_symbol(const Graph& graph, const Node& node);
// Whether a node makes the value, so that neither the model nor its caller gives it.
bool is_computed(const Graph& graph, ValueId value);
// A size as a value, i64.
ValueId value_of(NodeBuilder& build, const Dim& size);

// The value as a vector.
ValueId flat_view(NodeBuilder& build, ValueId value);
// Integers: all 0, and 0, 1, … up to the count.
ValueId zeros(NodeBuilder& build, const Shape& shape);
ValueId numbers_to(NodeBuilder& build, const Dim& count);

// The positions of the elements of each row (the last axis) in ascending order, or in descending order; equal
// elements keep theirs.
ValueId sorted_order(NodeBuilder& build, ValueId keys, bool largest);
// The same where how many elements come before each is known.
ValueId order_of_ranks(NodeBuilder& build, ValueId ranks);
// The rows that sorting is made of beside those of sorting.cc.
void register_merge_rows(OpTable& table);

// The positions in row-major order of the elements of `mask`, a vector of bools, that are true, as a vector
// of as many as the size that `model` declares, which they bind. Each position is stored at the number of
// chosen ones before it: it is overwritten by those after it until one is chosen. So one more place is
// written than there are chosen ones.
ValueId chosen_positions(NodeBuilder& build, const Node& model, ValueId mask);

}  // namespace tc
