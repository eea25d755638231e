// isolate: the trips without conditions in a loop of their own.
#include "scheduler/core/state.h"

namespace tc {

Primitive isolate_primitive() {
  Primitive primitive;
  primitive.row = {"isolate", "order", "isolate LOOP",
                   "for i: S where C(i)  ->  the first and last trips with the condition, those "
                   "between, where it always holds, without."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    TreeNode& loop = loop_or_refuse(state, words.name("a loop"));
    refuse_marked(loop);
    if (inside_tile(state.tree, loop)) refuse("loop ", loop.name, " is inside a register tile");
    loop.isolate = true;
  };
  return primitive;
}

}  // namespace tc
