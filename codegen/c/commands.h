// Commands for an accelerator: calls of its driver in the functions of kernels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/c/kernel_context.h"
#include "ir/command.h"

namespace tc::c {

// Which copy of each buffer in the accelerator's memories a command takes: a variable for each that has two,
// which changes at the beginning of the block of loops that holds all commands on the buffer.
class TileCopies {
 public:
  explicit TileCopies(KernelContext& context);

  // The lines at the beginning of a block.
  std::string lines_at(const LoopNode& block) const;
  std::string declarations() const;
  // The address of an element of the buffer in its memory.
  std::string address(int buffer, const Affine& elements) const;

 private:
  KernelContext& context_;
  std::map<int, int64_t> places_;         // in their memories
  std::map<int, std::string> variables_;  // of buffers that have two copies
  std::map<const LoopNode*, std::vector<int>> changes_;
};

// The call that writes the leaf's command.
std::string command_text(KernelContext& context, const TileCopies& copies, const LoopNode& leaf);

// The name of the function that writes a command, and its parameters.
std::string command_function(const Accelerator& accelerator, const AcceleratorInstruction& instruction);
struct CommandParameter {
  std::string type, name;
};
std::vector<CommandParameter> command_parameters(const AcceleratorInstruction& instruction);

}  // namespace tc::c
