// parallel: a loop that the threads share.
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {.word = marks::kParallel,
                       .adjective = "parallel",
                       .needs = MarkRow::Needs::Independence,
                       .in_tile = false,
                       .scheduled = true,
                       .joins = {marks::kIsolate, marks::kPrefetch, marks::kAlternate}};

}  // namespace

Primitive parallel_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"parallel",
                   PrimitiveKind::Mark,
                   {loop("LOOP"), optional(loop("INNER"))},
                   "The threads share the loop's iterations. Only the outermost loop of the whole "
                   "kernel, and INNER, the one directly inside it."};
  primitive.row.mark = kMark;
  primitive.row.last = true;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    TreeNode* expected = &state.tree;
    std::vector<TreeNode*> loops = given.loops("INNER");
    loops.insert(loops.begin(), &given.loop("LOOP"));
    for (TreeNode* loop : loops) {
      refuse_mark(state, *loop, kMark);
      if (loop != expected) {
        refuse(
            "loop ", loop->name, " is not ",
            loop == loops[0] ? "the outermost loop of the whole kernel" : "directly inside a parallel loop");
      }
      loop->marks.push_back({kMark.word, 0, {}});
      expected = &loop->children[0];
    }
  };
  return primitive;
}

}  // namespace tc
