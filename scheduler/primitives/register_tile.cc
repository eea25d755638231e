// register_tile: a part of the tree becomes one leaf.
#include <algorithm>

#include "scheduler/core/primitive.h"

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

// The outermost loop that holds this statement and no other.
TreeNode& own_loops(TreeNode& tree, int statement) {
  TreeNode* node = &tree;
  while (statements_below(*node) != std::vector<int>{statement}) {
    for (TreeNode& child : node->children) {
      const std::vector<int> below = statements_below(child);
      if (std::find(below.begin(), below.end(), statement) == below.end()) continue;
      node = &child;
      break;
    }
  }
  return *node;
}

}  // namespace

Primitive register_tile_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"register_tile",
                   PrimitiveKind::Order,
                   {part("LOOP")},
                   "All that LOOP holds (or one STATEMENT with its own loops, or the whole kernel) "
                   "becomes one leaf: unrolled and vector loops are copies and lanes in registers, "
                   "the others loops around them."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    TreeNode* body = &state.tree;
    const std::string& name = given.word("LOOP");
    if (name != "root") {
      const Statement* statement = state.kernel->kernel.find(name);
      if (statement != nullptr && find_loop(state.tree, name) == nullptr) {
        body = &own_loops(state.tree, static_cast<int>(statement - state.kernel->kernel.statements.data()));
      } else {
        TreeNode& loop = loop_or_refuse(state, name);
        if (inside_tile(state.tree, loop)) refuse("loop ", loop.name, " is inside a register tile");
        body = &loop.children[0];
      }
    }
    refuse_unless_tile(*body, true);
    visit_tree(*body, [&](const TreeNode& node, const auto&) {
      for (const LoopMark& mark : node.marks) {
        const MarkRow& row = row_of(mark);
        if (!row.in_tile)
          refuse("loop ", node.name, " is ", row.adjective, ": it cannot be inside a register tile");
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
