// sum_blocks: a long sum as the sum of the sums of its parts.
#include "ir/access.h"
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {
    .word = marks::kSumBlocks, .adjective = "in blocks of a sum", .joins = {marks::kUnroll}};

}  // namespace

Primitive sum_blocks_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "sum_blocks",
      PrimitiveKind::Mark,
      {loop("LOOP"), number("TRIPS", "the number of trips", 1)},
      "for k in 0..N: s += S(k)  ->  for each TRIPS trips { t = 0; t += S(k); s += t }: blocked summation, whose error "
      "grows with the terms of a block and with the number of blocks (Higham, Accuracy and Stability of Numerical "
      "Algorithms, section 4.2). LOOP sums up floats in registers of a tile."};
  primitive.row.mark = kMark;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    TreeNode& loop = given.loop("LOOP");
    refuse_mark(state, loop, kMark);
    if (loop.copies() == 0) refuse_marked(loop);
    if (!inside_tile(state.tree, loop)) refuse("loop ", loop.name, " is not inside a register tile");
    for (const auto& [number, part] : loop.iterator_parts) {
      const Statement& statement = state.kernel->kernel.statements[static_cast<size_t>(number)];
      const Buffer& sums = state.kernel->kernel.buffers[static_cast<size_t>(statement.write.buffer)];
      if (statement.reduction != Reduction::Sum || !is_float(sums.dtype) ||
          depends_on(statement.write, part.iterator)) {
        refuse("loop ", loop.name, " sums up no floats in statement ", statement.name);
      }
    }
    loop.marks.push_back({kMark.word, given.number("TRIPS"), {}});
  };
  return primitive;
}

}  // namespace tc
