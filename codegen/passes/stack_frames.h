// What functions keep on the stack.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Pass.h>

#include <map>
#include <string>

namespace tc {

// Bytes, and parts of vector registers, which have vscale (RISC-V: VLEN / 64) times as many bytes.
struct StackFrame {
  int64_t bytes = 0, scalable_bytes = 0;
};

// A pass that notes the stack frame of each function at the function of the module. It has to come behind the
// pass that lays frames out (`llvm::PrologEpilogCodeInserterID`).
llvm::Pass* create_stack_frames();

// What the pass noted, by function; and notes it, for a module that is a copy of the one that was compiled.
std::map<std::string, StackFrame> stack_frames(const llvm::Module& module);
void note_stack_frames(llvm::Module& module, const std::map<std::string, StackFrame>& frames);

}  // namespace tc
