// From a legal schedule tree to the loops that codegen gets.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ir/scheduled.h"
#include "scheduler/core/tree.h"
#include "scheduler/legality/model.h"

namespace tc {

// A part of the tree that becomes one leaf of the loop tree: what is below a tile mark, or one
// statement with its innermost unrolled and vector loops.
struct Region {
  const TreeNode* node = nullptr;      // its top; a loop, a leaf, or what a tile mark holds
  std::vector<const TreeNode*> outer;  // loops around it, outermost first
  struct Member {
    int statement = -1;
    std::vector<const TreeNode*> loops;  // inside the region, outermost first
  };
  std::vector<Member> statements;  // in order
};
std::vector<Region> regions_of(const TreeNode& tree);

// Loops around the regions, written by isl: For, If and Block nodes with leaves. Each leaf stands for a call
// of a region with the arguments that isl computes: the values of the region's outer loops.
struct OuterLoops {
  struct Call {
    int region = -1;
    std::vector<LoopExprPtr> arguments;  // values of the region's outer loops
  };
  LoopNodePtr root;
  std::vector<Call> calls;  // one per leaf, whose `name` is the index into this list
};
OuterLoops outer_loops(const KernelPtr& kernel, const TreeNode& tree, const std::vector<Region>& regions);
// The isl schedule tree as text in block form.
std::string tree_text(const KernelPtr& kernel, const TreeNode& tree);

// The leaf of a region for given values of its outer loops, with all conditions on its instances.
void fill_leaf(const Kernel& kernel, const Region& region, const std::vector<Affine>& outer_values,
               LoopNode& leaf);

// The expression as an affine function, where it is one.
std::optional<Affine> as_affine(const LoopExpr& expr);

// Divides loops marked `isolate`, drops conditions that the loops imply and loops of one trip.
// `isolated` holds the names of variables whose loops are to be divided.
LoopNodePtr simplify_loops(const Kernel& kernel, const LoopNodePtr& root,
                           const std::set<std::string>& isolated);

// Decides between Register and Stack for buffers that are Local, and removes from Stack buffers what the
// loops around all their uses fix.
void decide_scopes(Kernel& kernel, const std::vector<Region>& regions);

ScheduledKernel generate(const KernelPtr& kernel, const TreeNode& tree);

}  // namespace tc
