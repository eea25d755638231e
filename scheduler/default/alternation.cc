// Which loop of a kernel that runs again and again goes backwards in every other run.
#include <algorithm>

#include "scheduler/core/rewriting.h"
#include "scheduler/scheduler.h"

namespace tc {
namespace {

// The largest constant, where it has more than `least` bytes; -1 where there is none or sizes are not known.
int largest_constant(const Kernel& kernel, int64_t least) {
  int largest = -1;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    const Buffer& buffer = kernel.buffers[i];
    if (buffer.scope != Scope::Constant) continue;
    int64_t size = size_of(buffer.dtype);
    for (const Affine& extent : buffer.shape) size *= extent.is_constant() ? extent.constant() : 0;
    if (size <= least) continue;
    least = size;
    largest = static_cast<int>(i);
  }
  return largest;
}

}  // namespace

// Where each run reads the constant from the same end, a cache that is smaller than the constant and keeps
// what was read last holds nothing of what the next run reads first. Where the next run reads backwards, the
// part that was read last is still there. Constants up to half of the second cache stay there anyway.
std::optional<std::string> alternation(const Schedule& schedule) {
  const ScheduleState& state = ScheduleAccess::state(schedule);
  const Kernel& kernel = state.kernel->kernel;
  const int constant = largest_constant(kernel, state.target.l2_bytes / 2);
  if (constant < 0) return std::nullopt;
  std::optional<std::string> line;
  visit_tree(state.tree, [&](const TreeNode& node, const std::vector<const TreeNode*>&) {
    if (line || node.kind != TreeNode::Kind::Loop || constant_extent(state, node) == 1) return;
    const bool moves = std::any_of(
        node.iterator_parts.begin(), node.iterator_parts.end(),
        [&](const auto& member) { return moves_along(kernel, constant, member.first, member.second); });
    if (moves) line = "alternate " + node.name;
  });
  if (!line) return std::nullopt;
  Schedule alternating = schedule;
  if (alternating.apply(*line) || alternating.check()) return std::nullopt;
  return line;
}

}  // namespace tc
