// The state of a Schedule, and the functions by which primitives query and change it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/target/target.h"
#include "scheduler/core/refusal.h"
#include "scheduler/core/tree.h"
#include "scheduler/legality/model.h"
#include "scheduler/scheduler.h"

namespace tc {

// Two dimensions of a buffer that together hold one of `extent` elements in blocks; where the block
// does not divide the extent, the last block has padded lanes.
struct BlockedDim {
  std::string buffer;
  size_t outer = 0, inner = 0;  // positions in the buffer's shape
  int64_t block = 1;
  Affine extent;
};

struct ScheduleState {
  Target target;
  std::vector<std::string> trace;
  KernelPtr kernel;
  TreeNode tree;
  std::vector<BlockedDim> blocked;
  bool ordered = false;  // an order or a mark was applied: no more rewrites
  bool judged = true;    // false: orders are not checked (for tests of legality)
  // What check() found for the current state, if it was asked.
  mutable std::optional<std::optional<std::string>> checked;
};

// Access to the state of a schedule, for the scheduler's own code and for tests.
struct ScheduleAccess {
  static const ScheduleState& state(const Schedule& schedule);
  static Schedule schedule(ScheduleState state);
};

// Applies one line; returns why it is refused (the state is then unchanged).
std::optional<std::string> apply_line(ScheduleState& state, const std::string& line);

// Ends the rewrites: settles the conditions of padded lanes (settle_padding) and refuses rewrites from then
// on.
void end_rewrites(ScheduleState& state);

// Replaces the kernel by a changed one and starts a fresh tree.
void replace_kernel(ScheduleState& state, Kernel kernel);

// The whole check of a state: order and marks.
std::optional<std::string> check_state(const ScheduleState& state);

// Refuses where the tree runs a dependence backwards. The caller has moved no instances but those below
// `changed`.
void refuse_illegal(const ScheduleState& state, const TreeNode& changed);

// Helpers of primitives. The loop of that name, or a Refusal that lists the loops.
TreeNode& loop_or_refuse(ScheduleState& state, const std::string& name);
// Refuses a name that is in use in the tree (other than the `freed` ones) or as a parameter.
void refuse_taken(const ScheduleState& state, const std::string& name, const std::vector<std::string>& freed);
// Refuses a loop that has a mark already, other than those that `joined` lists.
void refuse_marked(const TreeNode& loop, const std::vector<std::string>& joined = {});
// Refuses a loop that the mark can't be set on: because of marks that it has already, or inside of a register
// tile.
void refuse_mark(const ScheduleState& state, const TreeNode& loop, const MarkRow& mark);
// Sets the mark, or refuses as refuse_mark() does. For marks that have neither a number nor buffers.
void set_mark(const ScheduleState& state, TreeNode& loop, const MarkRow& mark);
// Whether the node is below a tile mark.
bool inside_tile(const TreeNode& tree, const TreeNode& node);
// The loop's number of trips, where it is constant and the same for all statements below; else nothing.
std::optional<int64_t> constant_extent(const ScheduleState& state, const TreeNode& loop);
// The statement and iterator that a handle STATEMENT_ITERATOR means.
std::pair<size_t, size_t> iterator_or_refuse(const Kernel& kernel, const std::string& handle);
size_t statement_or_refuse(const Kernel& kernel, const std::string& name);
size_t buffer_or_refuse(const Kernel& kernel, const std::string& name);

}  // namespace tc
