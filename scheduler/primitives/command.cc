// command: the innermost loops of a statement are an instruction of the target's accelerator.
#include "ir/access.h"
#include "ir/command.h"
#include "scheduler/core/primitive.h"

namespace tc {
namespace {

const MarkRow kMark = {.word = marks::kCommand, .adjective = "run by an instruction"};

// The loop's trips and the steps of the operands.
CommandLoop described(const ScheduleState& state, const TreeNode& loop, int statement,
                      const CommandOperands& operands) {
  const auto extent = constant_extent(state, loop);
  if (!extent) refuse("loop ", loop.name, " has no constant number of trips");
  CommandLoop result{*extent, {}};
  const LoopPart& part = loop.iterator_parts.at(statement);
  for (const Access& access : operands.accesses) {
    const auto step = element_stride(state.kernel->kernel, access, part.iterator);
    if (!step) refuse("loop ", loop.name, " does not move at fixed steps");
    result.steps.push_back(*step * part.multiplier());
  }
  return result;
}

}  // namespace

Primitive command_primitive() {
  using namespace argument;
  Primitive primitive;
  primitive.row = {
      "command",
      PrimitiveKind::Mark,
      {name("INSTRUCTION", "an instruction of the accelerator"), list(loop("LOOP"), 1)},
      "The innermost loops of one statement are one command for the target's accelerator: INSTRUCTION, whose "
      "iterators they are, in order; loops beyond these continue the last iterator. What the statement "
      "computes has to be the instruction's meaning, and its operands have to be in the instruction's "
      "memories."};
  primitive.row.mark = kMark;
  primitive.row.accelerator = true;
  primitive.apply = [](ScheduleState& state, const Arguments& given) {
    const std::string& name = given.word("INSTRUCTION");
    const AcceleratorInstruction* instruction = state.target.accelerator->find(name);
    if (instruction == nullptr) {
      std::vector<std::string> names;
      for (const AcceleratorInstruction& each : state.target.accelerator->instructions)
        names.push_back(each.name);
      refuse("accelerator ", state.target.accelerator->name, " has no instruction '", name,
             "'; there are: ", listed(names));
    }
    const std::vector<TreeNode*> loops = given.loops("LOOP");
    for (size_t i = 0; i < loops.size(); ++i) {
      refuse_mark(state, *loops[i], kMark);
      if (i > 0 && &loops[i - 1]->children[0] != loops[i])
        refuse("loop ", loops[i]->name, " is not directly inside loop ", loops[i - 1]->name);
    }
    const TreeNode& leaf = loops.back()->children[0];
    if (leaf.kind != TreeNode::Kind::Leaf)
      refuse("loop ", loops.back()->name, " is not the innermost loop of one statement");
    const Kernel& kernel = state.kernel->kernel;
    const Statement& statement = kernel.statements[static_cast<size_t>(leaf.statement)];
    std::string why;
    const auto operands = operands_of_command(kernel, statement, *instruction, &why);
    if (!operands) refuse("statement ", statement.name, " is not what ", name, " computes: ", why);
    std::vector<CommandLoop> described_loops;
    for (const TreeNode* loop : loops)
      described_loops.push_back(described(state, *loop, leaf.statement, *operands));
    if (const auto wrong = wrong_loops(*instruction, described_loops)) refuse(*wrong);
    for (TreeNode* loop : loops) loop->marks.push_back({kMark.word, 0, {}, name});
  };
  return primitive;
}

}  // namespace tc
