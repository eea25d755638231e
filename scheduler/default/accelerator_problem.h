// What the default asks about a reduction that the target's accelerator might compute: which of its iterators
// an instruction executes, and how large tiles of the others may be. Nothing here changes the kernel.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/command.h"
#include "scheduler/default/prepare.h"

namespace tc {

// Iterators of a statement, outermost first: those that become loops of the host around the commands, and,
// for each of the instruction's iterators, those that it executes, mostly one; none where it executes one
// trip.
struct CommandLoops {
  std::vector<std::string> host;
  std::vector<std::vector<std::string>> instruction;
  // Of iterators with more trips than a command may have: how many each command has.
  std::map<std::string, int64_t> divided;
};
// For the iterators of the statement that are not in `counters`. Each of the instruction's iterators gets the
// longest one that moves the same operands and, where the instruction wants it, adjacent elements; the last
// one also gets those that continue it.
CommandLoops command_loops(const Kernel& kernel, const Statement& statement,
                           const AcceleratorInstruction& instruction, const CommandOperands& operands,
                           const std::vector<std::string>& counters);

// The first instruction that computes the statement with its result in `memory`; null where there is none.
// With `anywhere`, operands need not be in the instruction's memories yet.
const AcceleratorInstruction* instruction_for(const Accelerator& accelerator, const Kernel& kernel,
                                              const Statement& statement,
                                              const std::optional<std::string>& memory, bool anywhere);
// The instruction that copies elements of the type between two memories, where "" is the host's; null where
// there is none.
const AcceleratorInstruction* copy_instruction(const Accelerator& accelerator, DType dtype,
                                               const std::string& from, const std::string& to);

// An iterator of the sum that the instruction's iterator of this number executes.
struct ExecutedIterator {
  size_t number = 0;
  std::string iterator;
  int64_t trips = 1;  // of a command
};

// A reduction and the instruction that sums it up.
struct AcceleratorProblem {
  ReductionKernel reduction;
  const AcceleratorInstruction *init = nullptr, *sum = nullptr;
  const AcceleratorInstruction* epilogue = nullptr;  // null: the host executes it
  std::string sums_memory;                           // that holds the sums
  std::vector<ExecutedIterator> executed;
  std::vector<std::string> free;  // the sum's other iterators
  bool has_single_trips = false;  // a command has one trip of an iterator of which it could have several
};

// For an iterator of the sum's result: that of another statement which accesses the sums at the same place.
// Empty where there is none.
std::string counterpart(const Kernel& kernel, const Statement& sum, const Statement& other,
                        const std::string& iterator);
// Divides an iterator of the sum, and its counterparts, into parts of `size` trips; the name of the one that
// counts parts.
std::string divide(AcceleratorProblem& problem, const std::string& iterator, int64_t size);

// Throws NotApplicable with the reason where the accelerator does not have what the kernel needs. Iterators
// that have more trips than a command are divided already.
//
// A command has as many trips of each iterator as the instruction allows, or of the result's iterators that
// are not adjacent one part of `parts`: for smaller tiles.
AcceleratorProblem accelerator_problem(const TraceBuilder& start, int64_t parts = 1);
// The cycles of a command of the instruction with so many trips of each of its iterators.
double cycles_of_command(const AcceleratorInstruction& instruction, const std::vector<int64_t>& trips);
// The core's cycles for a statement without a sum, an operation of a vector after the other.
double elementwise_cycles(const Statement& statement, const Target& target);

}  // namespace tc
