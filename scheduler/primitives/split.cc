// split: one loop becomes two.
#include "scheduler/core/primitive.h"

namespace tc {

Primitive split_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"split",
                   PrimitiveKind::Order,
                   {loop("LOOP"), tuned(number("SIZE", "the size", 1)), keyword("as"),
                    name("OUTER", "the outer loop's name"), name("INNER", "the inner loop's name")},
                   "for i in 0..N: S  ->  for OUTER in 0..ceil(N/SIZE): for INNER in 0..SIZE: S. "
                   "Where SIZE does not divide N the last trip is shorter."};
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    TreeNode& loop = given.loop("LOOP");
    const int64_t size = given.number("SIZE");
    const std::string outer_name = given.word("OUTER"), inner_name = given.word("INNER");
    refuse_marked(loop);
    refuse_taken(state, outer_name, {loop.name});
    refuse_taken(state, inner_name, {loop.name});
    if (outer_name == inner_name) refuse("both loops would be called '", outer_name, "'");
    TreeNode inner;
    inner.kind = TreeNode::Kind::Loop;
    inner.name = inner_name;
    inner.iterator_parts = loop.iterator_parts;
    inner.children = std::move(loop.children);
    for (auto& [statement, part] : inner.iterator_parts) part.steps.push_back({true, size});
    for (auto& [statement, part] : loop.iterator_parts) part.steps.push_back({false, size});
    loop.name = outer_name;
    loop.children.clear();
    loop.children.push_back(std::move(inner));
  };
  return primitive;
}

}  // namespace tc
