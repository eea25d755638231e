// The LLVM side of one object file: context, module, target machine, passes, emission.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>

#include "codegen/codegen.h"

namespace tc {

// One module being built for a target. Units share nothing, so that each may live in its own thread.
class Unit {
 public:
  // Throws a Target error where LLVM does not know the target's triple, CPU or features.
  Unit(const Target& target, const std::string& name);

  const Target& target() const { return target_; }
  llvm::LLVMContext& context() { return *context_; }
  llvm::Module& module() { return *module_; }

  // Gives a function of ours the attributes that generated code needs: CPU and features, vector
  // width, no exceptions, no calls to library functions.
  void set_attributes(llvm::Function& function) const;

  // Whether the target's code may use an LLVM feature ("avx2"); false for unknown names.
  bool has_feature(const std::string& name) const;

  // Verifies the module and runs the passes that follow our own vectorisation. Throws an Internal
  // error with the verifier's text where the module is ill-formed.
  void optimise();

  std::string text() const;
  Bytes object();
  std::string assembly();

 private:
  // Whether a function of the module has it.
  bool any_function(const char* attribute) const;
  Bytes emit(bool assembly);

  Target target_;
  std::unique_ptr<llvm::LLVMContext> context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  std::unique_ptr<llvm::Module> module_;
};

}  // namespace tc
