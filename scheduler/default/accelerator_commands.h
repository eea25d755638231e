// Statements as commands of an accelerator: which loops around them the core executes, in which order, and
// the lines that say so.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/default/accelerator_problem.h"

namespace tc {

class CommandWriter {
 public:
  explicit CommandWriter(TraceBuilder& builder) : builder_(builder) {}

  // Decides which iterators of a statement its command executes; of the others, `outer` are around all. Those
  // of the instruction that find none get one of one trip.
  void choose_loops(const std::string& statement, const AcceleratorInstruction& instruction,
                    const std::vector<std::string>& outer);
  // Orders the loops of a statement: `outer`, then those of the core around its commands, then those of a
  // command. With `host`, these are the core's.
  void order(const std::string& statement, const std::vector<std::string>& outer,
             const std::vector<std::string>* host = nullptr);
  // The line of the statement's command, whose loops are ordered first if they are not yet. A statement that
  // has no command must not use a memory of the accelerator; throws NotApplicable.
  void write(const std::string& statement);

 private:
  // A statement's loops inside of those that count tiles, in the order of its command.
  struct Inside {
    const AcceleratorInstruction* instruction = nullptr;
    std::vector<std::string> host, command;
    std::map<std::string, int64_t> divided;  // as CommandLoops has them
    bool is_ordered = false;
  };

  TraceBuilder& builder_;
  std::map<std::string, Inside> inside_;  // by statement
};

// Throws NotApplicable, with the reason, where the schedule with its commands is not legal.
void check_commands(const TraceBuilder& builder);

}  // namespace tc
