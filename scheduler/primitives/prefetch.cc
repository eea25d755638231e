// prefetch: what the next trip reads comes near while this trip computes.
#include <algorithm>

#include "scheduler/core/rewriting.h"
#include "scheduler/core/state.h"

namespace tc {
namespace {

// Whether the loop moves the statement along the buffer.
bool moves_along(const Kernel& kernel, int buffer, int statement, const LoopPart& part) {
  bool moves = false;
  visit_accesses(kernel.statements[static_cast<size_t>(statement)], [&](const Access& access, bool) {
    if (access.buffer != buffer) return;
    for (const Subscript& subscript : access.index) {
      moves = moves || subscript.affine.coefficient(part.iterator) != 0;
    }
  });
  return moves;
}

}  // namespace

Primitive prefetch_primitive() {
  Primitive primitive;
  primitive.row = {"prefetch", "order", "prefetch BUFFER LOOP",
                   "While a trip of LOOP computes, the part of BUFFER that the next trip reads comes near, a share "
                   "of it in each run of the leaves below. Changes no value. Where the target has no such instruction it does nothing."};
  primitive.apply = [](ScheduleState& state, Words& words) {
    const Kernel& kernel = state.kernel->kernel;
    const size_t index = buffer_or_refuse(kernel, words.name("a buffer"));
    const Buffer& buffer = kernel.buffers[index];
    if (buffer.scope != Scope::Constant && buffer.scope != Scope::Input) {
      refuse("'", buffer.name, "' is neither a constant nor an input");
    }
    TreeNode& loop = loop_or_refuse(state, words.name("a loop"));
    if (inside_tile(state.tree, loop)) refuse("loop ", loop.name, " is inside a register tile");
    if (loop.vector || loop.matrix || loop.unroll == 0) refuse_marked(loop);
    if (std::count(loop.prefetched.begin(), loop.prefetched.end(), buffer.name) > 0) {
      refuse("'", buffer.name, "' is prefetched by loop ", loop.name, " already");
    }
    const bool moves = std::any_of(loop.members.begin(), loop.members.end(), [&](const auto& member) {
      return moves_along(kernel, static_cast<int>(index), member.first, member.second);
    });
    if (!moves) refuse("no statement in loop ", loop.name, " reads other parts of '", buffer.name,
                       "' in its next trip");
    loop.prefetched.push_back(buffer.name);
  };
  return primitive;
}

}  // namespace tc
