// vectorize: the iterations of a loop become the lanes of one vector.
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {
    .word = marks::kVector, .adjective = "vectorized", .needs = MarkRow::Needs::IndependenceButSums};

constexpr int64_t kMaxLanes = 256;

}  // namespace

Primitive vectorize_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"vectorize",
                   PrimitiveKind::Mark,
                   {loop("LOOP")},
                   "The iterations of the innermost loop of a statement become the lanes of one "
                   "vector. Over a reduction the lanes are partial results."};
  primitive.row.mark = kMark;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    TreeNode& loop = given.loop("LOOP");
    refuse_mark(state, loop, kMark);
    if (loop.children[0].kind != TreeNode::Kind::Leaf) {
      refuse("loop ", loop.name, " is not the innermost loop of one statement");
    }
    const auto extent = constant_extent(state, loop);
    if (!extent) refuse("loop ", loop.name, " has no constant number of trips: split it first");
    if (*extent > kMaxLanes) {
      refuse("loop ", loop.name, " has ", *extent, " trips, more than ", kMaxLanes, ": split it first");
    }
    loop.marks.push_back({kMark.word, 0, {}});
  };
  return primitive;
}

}  // namespace tc
