#include "scheduler/core/accelerator_memory.h"

#include "ir/command.h"
#include "ir/error.h"
#include "scheduler/core/refusal.h"
#include "scheduler/core/rewriting.h"

namespace tc {

void put_in_memory(const Target& target, Buffer& buffer, const std::string& memory, int64_t copies) {
  if (target.accelerator->find_memory(memory) == nullptr) {
    std::vector<std::string> names;
    for (const AcceleratorMemory& each : target.accelerator->memories) names.push_back(each.name);
    refuse("accelerator ", target.accelerator->name, " has no memory '", memory,
           "'; there are: ", listed(names));
  }
  if (copies > 2) refuse("buffer ", buffer.name, " would have ", copies, " copies; it may have 2");
  // Rows of the buffer's elements begin at rows of the memory.
  if (!buffer.shape.empty() && buffer.shape.back().is_constant()) {
    const AcceleratorMemory& own = *target.accelerator->find_memory(memory);
    buffer.shape.back() = Affine(in_rows(own, buffer.dtype, buffer.shape.back().constant()));
  }
  buffer.memory = memory;
  buffer.copies = static_cast<int>(copies);
}

namespace {

void check_leaf(const ScheduledKernel& scheduled, const LoopNode& node, bool& has_commands) {
  for (const LoopNodePtr& child : node.children) check_leaf(scheduled, *child, has_commands);
  if (node.kind != LoopNode::Kind::Leaf) return;
  const Kernel& kernel = scheduled.kernel;
  const auto wrong = [&](const auto&... parts) {
    fail(ErrorKind::Schedule, "schedule of kernel '", kernel.name, "': ", parts...);
  };
  if (!node.command.empty()) {
    has_commands = true;
    std::string why;
    if (node.statements.size() != 1) wrong("a command of several statements");
    const AcceleratorInstruction& instruction = *scheduled.accelerator->find(node.command);
    if (!command_ranges(instruction, node.statements[0], &why))
      wrong("command ", node.command, " of statement ", node.name, ": ", why);
    if (const std::string off = operand_off_rows(kernel, instruction, node.statements[0]); !off.empty())
      wrong("command ", node.command, " of statement ", node.name, ": operand ", off,
            " does not begin at a row of its memory");
    return;
  }
  for (const TileStatement& tile : node.statements) {
    visit_accesses(kernel.statements[static_cast<size_t>(tile.statement)], [&](const Access& access, bool) {
      const Buffer& buffer = kernel.buffers[static_cast<size_t>(access.buffer)];
      if (!buffer.memory.empty())
        wrong("statement ", kernel.statements[static_cast<size_t>(tile.statement)].name,
              " is executed by the host, which does not reach buffer ", buffer.name, " in ", buffer.memory);
    });
  }
}

}  // namespace

void refuse_wrong_commands(ScheduledKernel& scheduled) {
  if (scheduled.accelerator == nullptr) return;
  bool has_commands = false;
  check_leaf(scheduled, *scheduled.root, has_commands);
  if (!has_commands) {
    scheduled.accelerator = nullptr;
    return;
  }
  if (!accelerator_layout(scheduled.kernel, *scheduled.accelerator)) {
    fail(ErrorKind::Schedule, "schedule of kernel '", scheduled.kernel.name,
         "': its buffers do not fit the memories of accelerator '", scheduled.accelerator->name, "'");
  }
}

}  // namespace tc
