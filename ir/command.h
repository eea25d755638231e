// Statements as commands of an accelerator: which operands an instruction would have, and which numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/accelerator.h"

namespace tc {

struct CommandOperands {
  std::vector<Access> accesses;  // for each buffer of the instruction's meaning, in the statement's terms
  std::vector<int64_t> numbers;  // for each parameter of the meaning behind the extents
};

// The operands with which the instruction computes what the statement does, whatever its iterators; operands
// of commutative operators may be exchanged. Nothing, and why, where it computes something else. With
// `anywhere`, operands need not be in the instruction's memories yet.
std::optional<CommandOperands> operands_of_command(const Kernel& kernel, const Statement& statement,
                                                   const AcceleratorInstruction& instruction,
                                                   std::string* why, bool anywhere = false);

// The access of a buffer of the meaning there.
const Access& access_in_meaning(const AcceleratorInstruction& instruction, size_t buffer);

// Whether one of the subscripts of an operand of the meaning is the iterator.
bool mentions(const Access& meaning, const std::string& iterator);

// By how many elements an access of the statement moves with each of a command's loops, given the steps of
// the kernel's iterators. `steps[i]` belongs to loop i. Why the loops are not those of the instruction, where
// they are not: its iterators in order, and loops beyond these continue the last one. A loop of one trip fits
// everywhere.
struct CommandLoop {
  int64_t extent = 1;
  std::vector<int64_t> steps;  // for each buffer of the meaning
};
std::optional<std::string> wrong_loops(const AcceleratorInstruction& instruction,
                                       const std::vector<CommandLoop>& loops);

// Whether a command may move so many elements along an iterator that the operand of this number has in a
// subscript, but not in the last one: whole rows of its memory, and what the instruction fixes.
bool may_step(const AcceleratorInstruction& instruction, size_t buffer, const std::string& iterator,
              int64_t elements);
// The name of an operand that does not begin at a row of its memory wherever the loops of the host are; empty
// where all do.
std::string operand_off_rows(const Kernel& kernel, const AcceleratorInstruction& instruction,
                             const TileStatement& tile);

// The trips of a command's loops: those from `begin` up to before `end`, where each is the largest or the
// smallest of the expressions, in outer variables. Loops that continue the last iterator are part of it.
struct CommandRange {
  std::vector<Affine> begin = {Affine(0)}, end;
  int64_t inside = 1;  // trips of the loops that continue it, which are always all executed
};
// A range for each of the instruction's iterators, and in `conditions` what has to be at least 0 for there to
// be a command. Nothing, and why, where one condition is on several of the loops.
struct CommandRanges {
  std::vector<CommandRange> iterators;
  std::vector<Affine> conditions;
};
std::optional<CommandRanges> command_ranges(const AcceleratorInstruction& instruction,
                                            const TileStatement& tile, std::string* why);

}  // namespace tc
