// hold: sums in memory that stay in registers while a loop adds to them.
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {.word = marks::kHold, .adjective = "holding", .in_tile = false, .scheduled = true};

}  // namespace

Primitive hold_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "hold",
      PrimitiveKind::Mark,
      {loop("LOOP")},
      "Elements that the register tile below adds to in each trip of LOOP, and that LOOP does not move, are "
      "loaded before LOOP and stored behind it. They take registers of their own beside those of the tile. "
      "Changes no value."};
  primitive.row.mark = kMark;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    set_mark(state, given.loop("LOOP"), kMark);
  };
  return primitive;
}

}  // namespace tc
