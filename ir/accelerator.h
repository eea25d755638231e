// Accelerators: devices beside a core that execute tiles of kernels. The core writes commands, each of which
// is an instruction with its operands. The accelerator begins them in order; commands for different units
// overlap where no operand of one is written by the other.
//
// A user describes an accelerator in a file (docs/accelerators.md); frontend/tc/accelerator.py makes what is
// below of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/loop.h"
#include "ir/scheduled.h"

namespace tc {

// A memory that the accelerator's instructions address; the core reaches it by instructions that copy.
struct AcceleratorMemory {
  std::string name;
  int64_t bytes = 0;
  int64_t alignment = 1;  // of operands, in bytes
  // Bytes of a row, where addresses count rows. Then operands begin at rows, elements along their last
  // subscript are in one row, and their other steps are whole rows.
  int64_t row = 1;
};

// A word of the instructions that the core executes for a command, where it hands over no command but
// executes instructions of its own: in the language of its assembler, in which %0, %1 and so on are
// registers.
struct EncodedWord {
  // A number in a register, from this bit on.
  struct Field {
    int bit = 0;
    LoopExprPtr value;  // of what commands have: addresses, steps, trips and numbers
  };
  std::string assembly;
  std::vector<std::vector<Field>> registers;
};

struct AcceleratorInstruction {
  std::string name;  // a C identifier
  std::string unit;  // executes one command at a time
  // What a command computes, as one statement. The extent of each iterator is a parameter of its own, whose
  // range is what the instruction can do. Further parameters are numbers that are part of the command. Each
  // subscript of an operand is one iterator. A command says where an operand begins, and for each iterator of
  // its subscripts how many bytes one step is; along the last subscript elements are adjacent.
  Kernel meaning;
  std::vector<std::string> memories;  // of each buffer of `meaning`; empty: the core's memory
  // For how many cycles a command occupies the unit: a formula of its trips, by the names of the iterators,
  // and of its numbers.
  LoopExprPtr cycles;
  // Steps that a command cannot choose: of a buffer along an iterator, in bytes.
  struct FixedStep {
    size_t buffer = 0;
    std::string iterator;
    int64_t bytes = 0;
  };
  std::vector<FixedStep> fixed_steps;
  std::vector<EncodedWord> encoding;  // empty: the core hands over a command
  std::vector<int64_t> rows;          // of each buffer's memory; register_accelerator() fills it

  const Statement& statement() const { return meaning.statements.front(); }
  // The number of parameters that are extents; those of numbers follow them.
  size_t extents() const { return statement().iterators.size(); }
  bool is_copy() const { return statement().value->kind == Expr::Kind::Load; }
  int64_t row_of(size_t buffer) const { return rows.empty() ? 1 : rows[buffer]; }
};

// What a command has, in this order: for each operand its address, and its step along each of its subscripts
// but the last, as OPERAND_ITERATOR; then the trips of each iterator, then numbers.
std::vector<std::string> command_names(const AcceleratorInstruction& instruction);

struct Accelerator {
  std::string name;  // a C identifier
  std::vector<AcceleratorMemory> memories;
  std::vector<AcceleratorInstruction> instructions;
  int block = 16;            // channels of a block of activations
  int64_t issue_cycles = 1;  // for which the core writes a command
  int64_t queue = 16;  // commands that wait or are executed at a time; the core then waits for the first
  std::string wait;    // where instructions are encoded: the core's instruction that waits for all of them

  const AcceleratorInstruction* find(const std::string& instruction) const;    // null: there is none
  const AcceleratorMemory* find_memory(const std::string& memory_name) const;  // the same
};

// A number of cycles: whole numbers, the given names, + - * / (rounded down) % ( ), min(a, b), max(a, b) and
// ceil(a, b), which is a / b rounded up. A Target error, which begins with `where`, for other text.
LoopExprPtr parse_cycles(const std::string& text, const std::vector<std::string>& names,
                         const std::string& where);

// A Target error where the description contradicts itself or what tc can use.
void check(const Accelerator& accelerator);
// The same for what an instruction of it computes, without its encoding.
void check_meaning(const Accelerator& accelerator, const AcceleratorInstruction& instruction);

// Whether all sums of products of two bytes that its instructions compute are of signed ones.
bool multiplies_signed(const Accelerator& accelerator);

// Makes the accelerator known to parse_target() for the life of the process, in the place of an earlier one
// of that name.
void register_accelerator(Accelerator accelerator);
// A Target error where no accelerator of that name is known.
std::shared_ptr<const Accelerator> registered_accelerator(const std::string& name);

// The target without its accelerator: with the blocks of channels of the core's own vectors, and the same
// name.
struct Target;
Target without_accelerator(Target target);

// The place of each buffer that a memory of the accelerator holds, by its number, in bytes from the memory's
// begin; nothing where they do not fit.
std::optional<std::map<int, int64_t>> accelerator_layout(const Kernel& kernel,
                                                         const Accelerator& accelerator);
// Numbers that rows of the memory have in the place of so many adjacent ones.
int64_t in_rows(const AcceleratorMemory& memory, DType dtype, int64_t numbers);
// Bytes of one copy of a buffer, as accelerator_layout() places it. Its shape has to be numbers.
int64_t bytes_in(const AcceleratorMemory& memory, const Buffer& buffer);

}  // namespace tc
