// Applying primitives to schedule states.
#include "scheduler/core/state.h"

#include <algorithm>

#include "ir/access.h"
#include "ir/error.h"
#include "scheduler/core/primitive.h"
#include "scheduler/legality/legality.h"
#include "scheduler/legality/trust.h"

namespace tc {

std::string listed(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + name;
  return result.empty() ? "none" : result;
}

std::optional<std::string> apply_line(ScheduleState& state, const std::string& line) {
  try {
    std::string why;
    const std::optional<PrimitiveLine> read = read_line(line, &why);
    if (!read) refuse(why);
    if (read->row->matrix_unit && state.target.matrix.registers == 0) {
      refuse("target ", state.target.name, " has no matrix unit");
    }
    if (read->row->accelerator && state.target.accelerator == nullptr)
      refuse("target ", state.target.name, " has no accelerator");
    ScheduleState next = state;
    next.checked.reset();
    if (read->row->kind == PrimitiveKind::Rewrite) {
      if (next.ordered) refuse("rewrites come before the first order primitive");
    } else if (!next.ordered) {
      end_rewrites(next);
    }
    primitive_of(*read->row).apply(next, Arguments(next, *read));
    next.trace.push_back(line);
    state = std::move(next);
    return std::nullopt;
  } catch (const Refusal& refusal) {
    return line + ": " + refusal.why;
  } catch (const isl::exception_quota&) {
    return line + ": the schedule is too complex to be checked";
  } catch (const isl::exception& error) {
    fail(ErrorKind::Internal, "internal error: ", line, ": isl says ", error.what());
  }
}

void replace_kernel(ScheduleState& state, Kernel kernel) {
  state.kernel = std::make_shared<const KernelVersion>(std::move(kernel));
  state.tree = initial_tree(state.kernel->kernel);
}

namespace {

// What is wrong about the loops around a tensorized statement; nothing where all is right. The accumulators
// stay in the registers of the matrix unit while serial loops of the tile run. So serial loops have to be
// outside of all unrolled loops, and may not move on to other accumulators.
std::optional<std::string> wrong_unit_marks(const ScheduleState& state, const TreeNode& node,
                                            std::vector<const TreeNode*> in_tile, bool tile) {
  const TreeNode* above = node.kind == TreeNode::Kind::Loop && tile ? &node : nullptr;
  if (above != nullptr) in_tile.push_back(above);
  if (node.kind == TreeNode::Kind::Leaf) {
    const bool tensorized = !in_tile.empty() && in_tile.back()->is(marks::kMatrix);
    const Statement& statement = state.kernel->kernel.statements[static_cast<size_t>(node.statement)];
    bool copies = false;
    for (const TreeNode* loop : tensorized ? in_tile : std::vector<const TreeNode*>{}) {
      if (loop->is(marks::kMatrix)) break;
      const bool whole = loop->copies() == 0;
      copies = copies || whole;
      if (whole) continue;
      if (copies) {
        return text("loop ", loop->name, " is inside of unrolled loops around the unit of ", statement.name,
                    ": unroll it");
      }
      if (depends_on(statement.write, loop->iterator_parts.at(node.statement).iterator)) {
        return text("loop ", loop->name, " changes the accumulators of ", statement.name,
                    ": unroll it, or move it out of the tile");
      }
    }
    return std::nullopt;
  }
  for (const TreeNode& child : node.children) {
    if (auto wrong = wrong_unit_marks(state, child, in_tile, tile || node.kind == TreeNode::Kind::Tile))
      return wrong;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> check_state(const ScheduleState& state) {
  if (!state.ordered || Trust::on()) return std::nullopt;
  if (!state.checked) {
    // Each primitive that moves instances has checked their order; marks are checked here.
    state.checked = find_wrong_mark(state.kernel, state.tree);
    if (!*state.checked) state.checked = wrong_unit_marks(state, state.tree, {}, false);
  }
  return *state.checked;
}

void refuse_illegal(const ScheduleState& state, const TreeNode& changed) {
  if (!state.judged || Trust::on()) return;
  if (auto found = find_violation_below(state.kernel, state.tree, changed)) refuse(*found);
}

TreeNode& loop_or_refuse(ScheduleState& state, const std::string& name) {
  TreeNode* loop = find_loop(state.tree, name);
  if (loop == nullptr) refuse("no loop '", name, "'; there are: ", listed(loop_names(state.tree)));
  return *loop;
}

void refuse_taken(const ScheduleState& state, const std::string& name,
                  const std::vector<std::string>& freed) {
  for (const Parameter& parameter : state.kernel->kernel.parameters) {
    if (parameter.name == name) refuse("'", name, "' is a parameter of the kernel");
  }
  for (const std::string& other : freed) {
    if (other == name) return;
  }
  if (find_loop(state.tree, name) != nullptr) refuse("there is a loop '", name, "' already");
}

void refuse_marked(const TreeNode& loop, const std::vector<std::string>& joined) {
  for (const LoopMark& mark : loop.marks) {
    if (std::find(joined.begin(), joined.end(), mark.word) != joined.end()) continue;
    refuse("loop ", loop.name, " is ", row_of(mark).adjective, " already; marks come last");
  }
}

void refuse_mark(const ScheduleState& state, const TreeNode& loop, const MarkRow& mark) {
  refuse_marked(loop, mark.joins);
  if (!mark.in_tile && inside_tile(state.tree, loop))
    refuse("loop ", loop.name, " is inside a register tile");
}

void set_mark(const ScheduleState& state, TreeNode& loop, const MarkRow& mark) {
  refuse_mark(state, loop, mark);
  loop.marks.push_back({mark.word, 0, {}});
}

bool inside_tile(const TreeNode& tree, const TreeNode& node) {
  bool inside = false;
  visit_tree(tree, [&](const TreeNode& tile, const auto&) {
    if (tile.kind != TreeNode::Kind::Tile) return;
    visit_tree(tile, [&](const TreeNode& below, const auto&) {
      inside = inside || (&below == &node && &below != &tile);
    });
  });
  return inside;
}

std::optional<int64_t> constant_extent(const ScheduleState& state, const TreeNode& loop) {
  std::optional<int64_t> result;
  for (const auto& [statement, part] : loop.iterator_parts) {
    const Statement& what = state.kernel->kernel.statements[static_cast<size_t>(statement)];
    auto extent = part.extent(iterator_extent(what, part.iterator));
    if (!extent || (result && *result != *extent)) return std::nullopt;
    result = extent;
  }
  return result;
}

std::pair<size_t, size_t> iterator_or_refuse(const Kernel& kernel, const std::string& handle) {
  std::vector<std::string> known;
  for (size_t s = 0; s < kernel.statements.size(); ++s) {
    for (size_t i = 0; i < kernel.statements[s].iterators.size(); ++i) {
      known.push_back(kernel.statements[s].name + "_" + kernel.statements[s].iterators[i].name);
      if (known.back() == handle) return {s, i};
    }
  }
  refuse("no iterator '", handle, "'; there are: ", listed(known));
}

size_t statement_or_refuse(const Kernel& kernel, const std::string& name) {
  const Statement* found = kernel.find(name);
  if (found != nullptr) return static_cast<size_t>(found - kernel.statements.data());
  std::vector<std::string> known;
  for (const Statement& statement : kernel.statements) known.push_back(statement.name);
  refuse("no statement '", name, "'; there are: ", listed(known));
}

size_t buffer_or_refuse(const Kernel& kernel, const std::string& name) {
  const int index = kernel.buffer_index(name);
  if (index >= 0) return static_cast<size_t>(index);
  std::vector<std::string> known;
  for (const Buffer& buffer : kernel.buffers) known.push_back(buffer.name);
  refuse("no buffer '", name, "'; there are: ", listed(known));
}

}  // namespace tc
