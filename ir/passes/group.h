// Fusion: which nodes of a graph become one kernel.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace tc {

// Nodes that one kernel computes, in graph order, and the values that it must store.
struct Group {
  // View: the output is another shape of the input's memory. Control: If, Scan, Loop (one node).
  enum class Kind { Compute, View, Control };
  Kind kind = Kind::Compute;
  std::vector<int> nodes;
  std::vector<ValueId> outputs;
};

// Partitions the nodes into groups in an order that respects all dependences:
//   an anchor (an op that is neither elementwise nor movement) takes its elementwise consumers as
//   epilogue, and if it is a matrix product a transpose after it; it takes elementwise or movement
//   producers that nothing else reads as prologue where they cost nothing there;
//   elementwise chains become one group;
//   every other node is a group of its own.
// A group stores exactly one value unless one op has several outputs. With `recompute_bytes`, a matrix
// product also takes what changes the bytes that it multiplies (as signed bytes into unsigned ones) and
// computes it for each product anew: fewer kernels and no memory for the changed bytes, but slower. With
// `change_moved_bytes`, a transpose of bytes also takes what changes these, for targets whose code for it is
// no slower than that of a mere transpose.
std::vector<Group> fuse_groups(const Graph& graph, bool recompute_bytes = false,
                               bool change_moved_bytes = false);

std::string str(const Graph& graph, const std::vector<Group>& groups);

}  // namespace tc
