// One kernel to LLVM IR, assembly and object code.
#include "codegen/llvm/kernel_code.h"

#include "codegen/llvm/emit/kernel_emitter.h"
#include "codegen/llvm/module_compiler.h"
#include "codegen/llvm/passes/pass.h"

namespace tc {

std::string kernel_llvm_ir(const ScheduledKernel& kernel, const Target& target, const std::string& name) {
  ModuleCompiler compiler(target, name);
  emit_kernel(compiler, kernel);
  compiler.optimise();
  return compiler.text();
}

std::string kernel_assembly(const ScheduledKernel& kernel, const Target& target, const std::string& name) {
  ModuleCompiler compiler(target, name);
  emit_kernel(compiler, kernel);
  compiler.optimise();
  return compiler.assembly();
}

Bytes kernel_object(const ScheduledKernel& kernel, const Target& target, const std::string& name) {
  ModuleCompiler compiler(target, name);
  emit_kernel(compiler, kernel);
  compiler.optimise();
  return compiler.object();
}

std::vector<CodePassInfo> code_passes() {
  const auto over = [](CodePass::Stage stage) {
    switch (stage) {
      case CodePass::Stage::First: return "LLVM IR, before LLVM simplifies it";
      case CodePass::Stage::Last: return "LLVM IR";
      case CodePass::Stage::Machine: return "machine instructions";
    }
    return "";
  };
  std::vector<CodePassInfo> result;
  for (const CodePass& pass : code_pass_table())
    result.push_back({pass.name, pass.doc, pass.when, over(pass.stage)});
  return result;
}

std::string kernel_after_pass(const ScheduledKernel& kernel, const Target& target, const std::string& name,
                              const std::string& pass) {
  const CodePass& row = code_pass(pass);
  // Only register allocation shows which attempt is taken.
  ModuleCompiler taken(target, name);
  emit_kernel(taken, kernel);
  taken.optimise();
  taken.object();
  ModuleCompiler compiler(target, name);
  emit_kernel(compiler, kernel);
  return compiler.text_after(row, taken.attempt());
}

}  // namespace tc
