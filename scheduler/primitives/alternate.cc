// alternate: a loop that every other run of the kernel goes through backwards.
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {.word = marks::kAlternate,
                       .adjective = "alternating",
                       .needs = MarkRow::Needs::Independence,
                       .in_tile = false,
                       .scheduled = true,
                       .joins = {marks::kParallel, marks::kIsolate}};

}  // namespace

Primitive alternate_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "alternate",
      PrimitiveKind::Mark,
      {loop("LOOP")},
      "Where a loop of the plan runs the kernel again and again, every other run goes through LOOP from its last trip "
      "to its first, and so begins with what the caches hold of the run before. Changes no value."};
  primitive.row.mark = kMark;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    set_mark(state, given.loop("LOOP"), kMark);
  };
  return primitive;
}

}  // namespace tc
