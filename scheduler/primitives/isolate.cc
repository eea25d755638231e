// isolate: the trips without conditions in a loop of their own.
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {.word = marks::kIsolate, .adjective = "isolated", .in_tile = false};

}  // namespace

Primitive isolate_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"isolate",
                   PrimitiveKind::Mark,
                   {loop("LOOP")},
                   "for i: S where C(i)  ->  the first and last trips with the condition, those "
                   "between, where it always holds, without."};
  primitive.row.mark = kMark;
  primitive.row.tuned = true;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    set_mark(state, given.loop("LOOP"), kMark);
  };
  return primitive;
}

}  // namespace tc
