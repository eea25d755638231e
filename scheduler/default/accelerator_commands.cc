#include "scheduler/default/accelerator_commands.h"

#include <algorithm>

#include "ir/error.h"
#include "scheduler/core/rewriting.h"
#include "scheduler/core/statements.h"

namespace tc {
namespace {

std::string listed(const std::string& statement, const std::vector<std::string>& iterators) {
  std::string result;
  for (const std::string& each : iterators) result += " " + statement + "_" + each;
  return result;
}

}  // namespace

void CommandWriter::choose_loops(const std::string& statement, const AcceleratorInstruction& instruction,
                                 const std::vector<std::string>& outer) {
  const Kernel& kernel = builder_.kernel();
  const auto operands = operands_of_command(kernel, builder_.statement(statement), instruction, nullptr);
  CommandLoops loops = command_loops(kernel, builder_.statement(statement), instruction, *operands, outer);
  Inside inside{&instruction, loops.host, {}, loops.divided, false};
  for (size_t i = 0; i < loops.instruction.size(); ++i) {
    if (loops.instruction[i].empty()) {
      loops.instruction[i] = {
          fresh_iterator(builder_.kernel(), builder_.statement(statement), text("unit", i))};
      builder_.apply("unit ", statement, " as ", loops.instruction[i][0]);
    }
    inside.command.insert(inside.command.end(), loops.instruction[i].begin(), loops.instruction[i].end());
  }
  inside_[statement] = inside;
}

void CommandWriter::order(const std::string& statement, const std::vector<std::string>& outer,
                          const std::vector<std::string>* host) {
  Inside& inside = inside_.at(statement);
  std::vector<std::string> all = outer;
  const std::vector<std::string>& around = host != nullptr ? *host : inside.host;
  all.insert(all.end(), around.begin(), around.end());
  for (const auto& [iterator, size] : inside.divided) {
    builder_.apply("split ", statement, "_", iterator, " ", size, " as ", statement, "_", iterator, "_parts ",
                   statement, "_", iterator, "_part");
    all.push_back(iterator + "_parts");
    std::replace(inside.command.begin(), inside.command.end(), iterator, iterator + "_part");
  }
  all.insert(all.end(), inside.command.begin(), inside.command.end());
  if (all.size() > 1) builder_.apply("order", listed(statement, all));
  inside.is_ordered = true;
}

void CommandWriter::write(const std::string& statement) {
  const auto found = inside_.find(statement);
  if (found == inside_.end()) {
    visit_accesses(builder_.statement(statement), [&](const Access& access, bool) {
      const Buffer& buffer = builder_.kernel().buffers[static_cast<size_t>(access.buffer)];
      if (!buffer.memory.empty())
        throw NotApplicable{text("no instruction computes statement ", statement, " in ", buffer.memory)};
    });
    return;
  }
  if (!found->second.is_ordered) order(statement, {});
  builder_.apply("command ", found->second.instruction->name, listed(statement, found->second.command));
}

void check_commands(const TraceBuilder& builder) {
  try {
    ScheduleAccess::schedule(builder.state()).finish();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Schedule) throw;
    throw NotApplicable{error.what()};
  }
}

}  // namespace tc
