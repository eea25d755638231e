// order: loops directly inside each other in a new order.
#include <algorithm>

#include "scheduler/core/primitive.h"

namespace tc {

Primitive order_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"order",
                   PrimitiveKind::Order,
                   {permuted(list(loop("LOOP"), 2))},
                   "for i: for j: S  ->  for j: for i: S, for loops that are directly inside each "
                   "other; they end up as listed, outermost first."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    std::vector<std::string> names;
    for (const TreeNode* loop : given.loops("LOOP")) names.push_back(loop->name);
    for (const std::string& name : names) {
      if (std::count(names.begin(), names.end(), name) > 1) refuse("loop '", name, "' is named twice");
      refuse_marked(loop_or_refuse(state, name));
    }
    auto listed = [&](const TreeNode& node) {
      return node.kind == TreeNode::Kind::Loop && std::count(names.begin(), names.end(), node.name) > 0;
    };
    TreeNode* top = nullptr;
    for (const std::string& name : names) {
      TreeNode* loop = find_loop(state.tree, name);
      TreeNode* parent = parent_of(state.tree, loop);
      if (parent == nullptr || !listed(*parent)) {
        if (top != nullptr) {
          refuse("loops ", top->name, " and ", name, " are not in one chain of loops");
        }
        top = loop;
      }
    }
    std::vector<TreeNode*> chain;
    for (TreeNode* node = top; listed(*node); node = &node->children[0]) chain.push_back(node);
    std::vector<std::pair<std::string, std::map<int, LoopPart>>> contents;
    for (const std::string& name : names) {
      TreeNode* loop = find_loop(state.tree, name);
      if (std::find(chain.begin(), chain.end(), loop) == chain.end()) {
        refuse("loops ", top->name, " and ", name, " are not in one chain of loops");
      }
      contents.emplace_back(name, loop->iterator_parts);
    }
    for (size_t i = 0; i < chain.size(); ++i) {
      chain[i]->name = contents[i].first;
      chain[i]->iterator_parts = contents[i].second;
    }
    refuse_illegal(state, *top);
  };
  return primitive;
}

}  // namespace tc
