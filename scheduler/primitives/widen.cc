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
      "Each trip of LOOP prepares, once for all register tiles below, the bytes that their sums of "
      "products read again and again. Words that blocks of channels share, or rows under a window of "
      "three columns, are widened to 16 bits where code for the target multiplies pairs of such "
      "numbers on general-purpose registers. Where one instruction adds up the products of two vectors "
      "of bytes, a channel's map is copied with its borders. Changes no value. On other targets "
      "nothing is done."};
  primitive.row.mark = kMark;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    set_mark(state, given.loop("LOOP"), kMark);
  };
  return primitive;
}

}  // namespace tc
