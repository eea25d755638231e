// widen: bytes that register tiles read again and again are widened to 16 bits once.
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {.word = marks::kWiden,
                       .adjective = "widening",
                       .in_tile = false,
                       .scheduled = true,
                       .joins = {marks::kIsolate}};

}  // namespace

Primitive widen_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "widen",
      PrimitiveKind::Mark,
      {loop("LOOP")},
      "Each trip of LOOP widens to 16 bits, once for all register tiles below, the bytes that their sums of products "
      "read again and again: words that blocks of channels share, or rows under a window of three columns. Changes "
      "no value. Only where code for the target multiplies pairs of numbers of 16 bits "
      "on general-purpose registers; elsewhere nothing is done."};
  primitive.row.mark = kMark;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    set_mark(state, given.loop("LOOP"), kMark);
  };
  return primitive;
}

}  // namespace tc
