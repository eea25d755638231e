// parallel: a loop that the threads share.
#include "scheduler/core/state.h"

namespace tc {

Primitive parallel_primitive() {
  Primitive primitive;
  primitive.row = {"parallel", "order", "parallel LOOP [LOOP]",
                   "The threads share the loop's iterations. Only the outermost loop of the whole "
                   "kernel, and the one directly inside it."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    TreeNode* expected = &state.tree;
    int count = 0;
    do {
      TreeNode& loop = loop_or_refuse(state, words.name("a loop"));
      if (loop.parallel || loop.vector || loop.matrix || loop.unroll != 1) refuse_marked(loop);
      if (&loop != expected) {
        refuse("loop ", loop.name, " is not ",
               count == 0 ? "the outermost loop of the whole kernel" : "directly inside a parallel loop");
      }
      if (++count > 2) refuse("at most two loops are parallel");
      loop.parallel = true;
      expected = &loop.children[0];
    } while (!words.at_end());
  };
  return primitive;
}

}  // namespace tc
