// register_tile: what becomes one leaf.
#include "scheduler/state.h"

namespace tc {
namespace {

// Refuses where the subtree is not a chain of loops, or a sequence of such chains.
void refuse_unless_tile(const TreeNode& node, bool top) {
  if (node.kind == TreeNode::Kind::Tile) refuse("there is a register tile below already");
  if (node.kind == TreeNode::Kind::Sequence && !top) {
    refuse("below a register tile each statement has its own loops, but several share one");
  }
  for (const TreeNode& child : node.children) {
    refuse_unless_tile(child, node.kind == TreeNode::Kind::Sequence);
    if (node.kind == TreeNode::Kind::Loop && child.kind == TreeNode::Kind::Sequence) {
      refuse("below a register tile each statement has its own loops, but loop ", node.name,
             " holds several statements");
    }
  }
}

}  // namespace

Primitive register_tile_primitive() {
  Primitive primitive;
  primitive.row = {"register_tile", "order", "register_tile LOOP|root",
                   "All that LOOP holds (or the whole kernel) becomes one leaf: unrolled and vector "
                   "loops are copies and lanes in registers, the others loops around them."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    TreeNode* body = &state.tree;
    if (!words.accept("root")) {
      TreeNode& loop = loop_or_refuse(state, words.name("a loop"));
      if (inside_tile(state.tree, loop)) refuse("loop ", loop.name, " is inside a register tile");
      body = &loop.children[0];
    }
    refuse_unless_tile(*body, true);
    visit_tree(*body, [&](const TreeNode& node, const auto&) {
      if (node.parallel || node.isolate) {
        refuse("loop ", node.name, " is ", node.parallel ? "parallel" : "isolated",
               ": it cannot be inside a register tile");
      }
    });
    TreeNode tile;
    tile.kind = TreeNode::Kind::Tile;
    tile.children.push_back(std::move(*body));
    *body = std::move(tile);
  };
  return primitive;
}

}  // namespace tc
