// unroll: copies of a loop's body.
#include "scheduler/core/state.h"

namespace tc {
namespace {

constexpr int64_t kMostCopies = 256;

}  // namespace

Primitive unroll_primitive() {
  Primitive primitive;
  primitive.row = {"unroll", "order", "unroll LOOP [COPIES]",
                   "for i in 0..N: S  ->  S(0); ...; S(N-1), or COPIES of S per trip."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    TreeNode& loop = loop_or_refuse(state, words.name("a loop"));
    refuse_marked(loop);
    if (!words.at_end()) {
      loop.unroll = words.number("the number of copies", 1);
      if (loop.unroll > kMostCopies) refuse("more than ", kMostCopies, " copies");
      return;
    }
    const auto extent = constant_extent(state, loop);
    if (!extent) refuse("loop ", loop.name, " has no constant number of trips: say how many copies");
    if (*extent > kMostCopies) refuse("loop ", loop.name, " has ", *extent, " trips, more than ", kMostCopies);
    loop.unroll = 0;
  };
  return primitive;
}

}  // namespace tc
