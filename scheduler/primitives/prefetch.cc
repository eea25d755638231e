// prefetch: what the next trip reads is brought into the cache while this trip computes.
#include <algorithm>

#include "scheduler/core/rewriting.h"
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {.word = marks::kPrefetch,
                       .adjective = "prefetching",
                       .in_tile = false,
                       .joins = {marks::kParallel, marks::kIsolate, marks::kUnroll, marks::kPrefetch}};

}  // namespace

Primitive prefetch_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "prefetch",
      PrimitiveKind::Mark,
      {buffer("BUFFER"), loop("LOOP")},
      "While a trip of LOOP computes, the part of BUFFER that the next trip reads comes near, a share "
      "of it in each run of the leaves below. Changes no value. RISC-V vector "
      "targets load into the register that is always zero; where there is no such instruction either, nothing is done."};
  primitive.row.mark = kMark;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    const Kernel& kernel = state.kernel->kernel;
    const size_t index = given.buffer("BUFFER");
    const Buffer& buffer = kernel.buffers[index];
    if (buffer.scope != Scope::Constant && buffer.scope != Scope::Input) {
      refuse("'", buffer.name, "' is neither a constant nor an input");
    }
    TreeNode& loop = given.loop("LOOP");
    refuse_mark(state, loop, kMark);
    if (loop.copies() == 0) refuse_marked(loop);
    LoopMark* set = loop.find_mark(kMark.word);
    if (set != nullptr && std::count(set->buffers.begin(), set->buffers.end(), buffer.name) > 0) {
      refuse("'", buffer.name, "' is prefetched by loop ", loop.name, " already");
    }
    const bool moves =
        std::any_of(loop.iterator_parts.begin(), loop.iterator_parts.end(), [&](const auto& member) {
          return moves_along(kernel, static_cast<int>(index), member.first, member.second);
        });
    if (!moves)
      refuse("no statement in loop ", loop.name, " reads other parts of '", buffer.name,
             "' in its next trip");
    if (set == nullptr) set = &loop.marks.emplace_back(LoopMark{kMark.word, 0, {}});
    set->buffers.push_back(buffer.name);
  };
  return primitive;
}

}  // namespace tc
