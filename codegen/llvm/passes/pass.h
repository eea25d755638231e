// The passes over a kernel's code as a table of named rows, in the order in which they run.
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/Function.h>
#include <llvm/Pass.h>

#include <string>
#include <vector>

#include "ir/target/target.h"

namespace tc {

// What the passes over one function share.
struct PassContext {
  const Target& target;  // with as many vector registers as the passes may use
  // Blocks in which chains of operations are interleaved. There a store, and the operations that lead to it,
  // keep their places.
  llvm::SmallPtrSet<const llvm::BasicBlock*, 4> interleaved = {};
};

struct CodePass {
  enum class Stage : uint8_t {
    First,    // over LLVM IR as the emitter wrote it; LLVM's own simplifications follow
    Last,     // over LLVM IR after these simplifications
    Machine,  // over machine instructions, usually before register allocation
  };
  const char* name;
  const char* doc;   // one sentence
  const char* when;  // the targets that `runs` holds for, in words
  bool (*runs)(const Target& target);
  Stage stage;
  void (*run)(llvm::Function& function, PassContext& context) = nullptr;  // of LLVM IR
  // For Stage::Machine: makes the pass; the pass of LLVM after which it runs; and the one that it replaces,
  // or null.
  llvm::Pass* (*create)(const Target& target) = nullptr;
  const void* follows = nullptr;
  const void* replaces = nullptr;
};

const std::vector<CodePass>& code_pass_table();
// The pass of this name; a Model error that lists the passes where there is none.
const CodePass& code_pass(const std::string& name);

}  // namespace tc
