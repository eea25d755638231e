// The LLVM side of one object file: context, module, target machine, passes, emission.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/backend/backend.h"

namespace llvm {
class TargetPassConfig;
}

namespace tc {

struct CodePass;
struct PassContext;

// Whether tc's passes, not LLVM, choose the order of the code: the target has vectors, and is an in-order
// processor or has registers in groups (`counts_registers`).
bool orders_code(const Target& target);

// One module being built for a target. Compilers share nothing, so that each may live in its own thread.
class ModuleCompiler {
 public:
  // Throws a Target error where LLVM does not know the target's triple, CPU or features.
  ModuleCompiler(const Target& target, const std::string& name);

  const Target& target() const { return target_; }
  llvm::LLVMContext& context() { return *context_; }
  llvm::Module& module() { return *module_; }

  // Gives a function of ours the attributes that generated code needs: CPU and features, vector
  // width, no exceptions, no calls to library functions.
  void set_attributes(llvm::Function& function) const;

  // Whether the target's code may use an LLVM feature ("avx2"); false for unknown names.
  bool has_feature(const std::string& name) const;

  // One way to order instructions and to allocate registers, for in-order processors. No order is the best
  // one for all loops: where one of them spills vectors, others are tried, and the one with the fewest
  // spills of vectors is taken.
  struct Attempt {
    int registers_less = 0;  // than the target has, so that the allocator can leave gaps between groups
    // Whether LLVM's option `greedy-reverse-local-assignment` has the opposite of its usual value: worse for
    // most loops, and better for some.
    bool inverted_assignment = false;
  };

  // Verifies the module and runs the passes of codegen/llvm/passes/pass.h over its functions. Throws an
  // Internal error with the verifier's text where the module is ill-formed.
  void optimise();

  // The module as text, and as code. Only one of them may be called, once, after optimise().
  std::string text();
  Bytes object();
  std::string assembly();
  // The attempt that object() or assembly() took.
  const Attempt& attempt() const { return attempt_; }

  // To be called instead of optimise(): the module's functions after the pass, in this attempt, as LLVM IR
  // or machine instructions. Empty where the pass does not run.
  std::string text_after(const CodePass& pass, const Attempt& attempt);

 private:
  // Whether a function of the module has the attribute.
  bool any_function(const char* attribute) const;
  // Runs a pass on a function, and keeps the function's text where the pass is `watched_`.
  void run(const CodePass& pass, llvm::Function& function, PassContext& context);
  // Runs our passes of Stage::Last on the module, as `attempt_` says.
  void transform();
  // Restores the module as it was before these passes, and runs them again for the attempt.
  void begin_again(const Attempt& attempt);
  // The code of the attempt that spills the fewest vectors in loops, which becomes `attempt_`. The module
  // must not be used afterwards.
  Bytes emit(bool assembly);
  // Adds our passes over machine instructions to LLVM's.
  void add_machine_passes(llvm::TargetPassConfig& config, llvm::raw_ostream& watched);
  // The code of the module as it is. Where orders_code() holds, adds the spills and reloads of vectors in
  // loops to `spills`.
  Bytes emit_once(bool assembly, int& spills);

  Target target_;
  Attempt attempt_;
  const CodePass* watched_ = nullptr;
  std::string watched_text_;
  std::unique_ptr<llvm::LLVMContext> context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::Module> module_;
  std::unique_ptr<llvm::Module> before_;  // the module before our passes, where there may be several attempts
};

}  // namespace tc
