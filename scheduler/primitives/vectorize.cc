// vectorize: the lanes of one vector.
#include "scheduler/core/state.h"

namespace tc {
namespace {

constexpr int64_t kMostLanes = 256;

}  // namespace

Primitive vectorize_primitive() {
  Primitive primitive;
  primitive.row = {"vectorize", "order", "vectorize LOOP",
                   "The iterations of the innermost loop of a statement become the lanes of one "
                   "vector. Over a reduction the lanes are partial results."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    TreeNode& loop = loop_or_refuse(state, words.name("a loop"));
    refuse_marked(loop);
    if (loop.children[0].kind != TreeNode::Kind::Leaf) {
      refuse("loop ", loop.name, " is not the innermost loop of one statement");
    }
    const auto extent = constant_extent(state, loop);
    if (!extent) refuse("loop ", loop.name, " has no constant number of trips: split it first");
    if (*extent > kMostLanes) {
      refuse("loop ", loop.name, " has ", *extent, " trips, more than ", kMostLanes, ": split it first");
    }
    loop.vector = true;
  };
  return primitive;
}

}  // namespace tc
