// The stack frames of functions.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Pass.h>

#include <map>
#include <string>

namespace tc {

// A frame takes `bytes`, and for vector registers vscale (RISC-V: VLEN / 64) times `scalable_bytes`.
struct StackFrame {
  int64_t bytes = 0, scalable_bytes = 0;
};

// A pass that records the stack frame of each function as attributes of the LLVM function. It has to run
// after the pass that lays frames out (`llvm::PrologEpilogCodeInserterID`).
llvm::Pass* create_stack_frames();

// stack_frames() returns what the pass recorded, by function; note_stack_frames() records it in a module
// that is a copy of the compiled one.
std::map<std::string, StackFrame> stack_frames(const llvm::Module& module);
void note_stack_frames(llvm::Module& module, const std::map<std::string, StackFrame>& frames);

}  // namespace tc
