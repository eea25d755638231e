// fuse: the outermost loops of adjacent statements become one.
#include <algorithm>

#include "scheduler/core/primitive.h"

namespace tc {

Primitive fuse_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"fuse",
                   PrimitiveKind::Order,
                   {list(loop("LOOP"), 2), keyword("as"), name("NAME", "the fused loop's name")},
                   "{ for i: S; for j: T }  ->  for NAME: { S; T }, for outermost loops of "
                   "neighbours in one sequence."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    const std::vector<TreeNode*> loops = given.loops("LOOP");
    std::vector<std::string> names;
    for (const TreeNode* loop : loops) names.push_back(loop->name);
    const std::string name = given.word("NAME");
    refuse_taken(state, name, names);
    TreeNode* sequence = nullptr;
    std::vector<size_t> positions;
    for (TreeNode* loop : loops) {
      refuse_marked(*loop);
      if (inside_tile(state.tree, *loop)) refuse("loop ", loop->name, " is inside a register tile");
      TreeNode* parent = parent_of(state.tree, loop);
      if (parent == nullptr || parent->kind != TreeNode::Kind::Sequence ||
          (sequence != nullptr && sequence != parent)) {
        refuse("loops ", names[0], " and ", loop->name, " are not the outermost loops of neighbours");
      }
      sequence = parent;
      positions.push_back(static_cast<size_t>(loop - parent->children.data()));
    }
    std::sort(positions.begin(), positions.end());
    if (std::adjacent_find(positions.begin(), positions.end()) != positions.end()) {
      refuse("a loop is named twice");
    }
    if (positions.back() - positions.front() + 1 != positions.size()) {
      refuse("there are other statements between the loops");
    }
    TreeNode fused, body;
    fused.kind = TreeNode::Kind::Loop;
    fused.name = name;
    body.kind = TreeNode::Kind::Sequence;
    for (size_t position : positions) {
      TreeNode& loop = sequence->children[position];
      fused.iterator_parts.insert(loop.iterator_parts.begin(), loop.iterator_parts.end());
      body.children.push_back(std::move(loop.children[0]));
    }
    fused.children.push_back(std::move(body));
    const auto first = sequence->children.begin() + static_cast<std::ptrdiff_t>(positions.front());
    sequence->children.erase(first + 1, first + static_cast<std::ptrdiff_t>(positions.size()));
    *first = std::move(fused);
    tidy(state.tree);
    refuse_illegal(state, *find_loop(state.tree, name));
  };
  return primitive;
}

}  // namespace tc
