// One kernel as LLVM IR, assembly text or object code. No LLVM type here.
#pragma once

#include <string>
#include <vector>

#include "codegen/backend/backend.h"
#include "ir/scheduled.h"
#include "ir/target/target.h"

namespace tc {

// A kernel is a single function
//   void NAME(buffer pointers..., const int64_t* parameters, uint8_t* scratch, int32 thread,
//             int32 threads)
// where the pointers are the Input, Output and Constant buffers in order.
std::string kernel_llvm_ir(const ScheduledKernel& kernel, const Target& target, const std::string& name);
std::string kernel_assembly(const ScheduledKernel& kernel, const Target& target, const std::string& name);
Bytes kernel_object(const ScheduledKernel& kernel, const Target& target, const std::string& name);

// A pass over a kernel's code (codegen/llvm/passes/pass.h): its name, what it does in a sentence, for which
// targets it runs, and over what.
struct CodePassInfo {
  std::string name, doc, when, stage;
};
std::vector<CodePassInfo> code_passes();
// The kernel's code after a pass, as LLVM IR or LLVM's machine instructions; empty where the pass does not
// run for the target. A Model error that lists the passes for an unknown name.
std::string kernel_after_pass(const ScheduledKernel& kernel, const Target& target, const std::string& name,
                              const std::string& pass);

}  // namespace tc
