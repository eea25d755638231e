// What functions keep on the stack.
#pragma once

#include <llvm/Pass.h>

#include <map>
#include <string>

#include "codegen/codegen.h"

namespace tc {

// A pass that puts the stack frame of each function into `frames`. It has to come behind the pass that lays frames out
// (`llvm::PrologEpilogCodeInserterID`).
llvm::Pass* create_stack_frames(std::map<std::string, StackFrame>& frames);

}  // namespace tc
