// unroll: copies of a loop's body.
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {.word = marks::kUnroll, .adjective = "unrolled", .scheduled = true};

constexpr int64_t kMaxCopies = 256;

}  // namespace

Primitive unroll_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {"unroll",
                   PrimitiveKind::Mark,
                   {loop("LOOP"), tuned(optional(number("COPIES", "the number of copies", 1)))},
                   "for i in 0..N: S  ->  S(0); ...; S(N-1), or COPIES of S per trip."};
  primitive.row.mark = kMark;
  primitive.row.tuned = true;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    TreeNode& loop = given.loop("LOOP");
    refuse_mark(state, loop, kMark);
    if (const auto copies = given.number_if_given("COPIES")) {
      if (*copies > kMaxCopies) refuse("more than ", kMaxCopies, " copies");
      if (*copies > 1) loop.marks.push_back({kMark.word, *copies, {}});
      return;
    }
    const auto extent = constant_extent(state, loop);
    if (!extent) refuse("loop ", loop.name, " has no constant number of trips: say how many copies");
    if (*extent > kMaxCopies) refuse("loop ", loop.name, " has ", *extent, " trips, more than ", kMaxCopies);
    loop.marks.push_back({kMark.word, 0, {}});
  };
  return primitive;
}

}  // namespace tc
