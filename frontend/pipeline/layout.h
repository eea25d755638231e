// Chooses the layout of activations over the whole graph: which values have blocked channels.
#pragma once

#include <map>
#include <set>
#include <string>

#include "ir/graph.h"
#include "ir/target/target.h"

namespace tc {

// Values stored with their channels in blocks, [n, ceil(c/block), y, x, block], by block size.
// All other values are plain, row-major.
using Layouts = std::map<ValueId, int>;

// Chooses layouts for the values of one graph and inserts the Reorder nodes between producers and
// readers that disagree. Graph inputs, outputs and what subgraphs capture stay plain.
Layouts choose_layouts(Graph& graph, const Target& target);

}  // namespace tc
