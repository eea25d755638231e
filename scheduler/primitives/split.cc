// split: one loop becomes two.
#include "scheduler/core/state.h"

namespace tc {

Primitive split_primitive() {
  Primitive primitive;
  primitive.row = {"split", "order", "split LOOP SIZE as OUTER INNER",
                   "for i in 0..N: S  ->  for OUTER in 0..ceil(N/SIZE): for INNER in 0..SIZE: S. "
                   "Where SIZE does not divide N the last trip is shorter."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    const std::string name = words.name("a loop");
    const int64_t size = words.number("the size", 1);
    words.expect("as");
    const std::string outer_name = words.name("the outer loop's name");
    const std::string inner_name = words.name("the inner loop's name");
    TreeNode& loop = loop_or_refuse(state, name);
    refuse_marked(loop);
    refuse_taken(state, outer_name, {name});
    refuse_taken(state, inner_name, {name});
    if (outer_name == inner_name) refuse("both loops would be called '", outer_name, "'");
    TreeNode inner;
    inner.kind = TreeNode::Kind::Loop;
    inner.name = inner_name;
    inner.members = loop.members;
    inner.children = std::move(loop.children);
    for (auto& [statement, part] : inner.members) part.steps.push_back({true, size});
    for (auto& [statement, part] : loop.members) part.steps.push_back({false, size});
    loop.name = outer_name;
    loop.children.clear();
    loop.children.push_back(std::move(inner));
  };
  return primitive;
}

}  // namespace tc
