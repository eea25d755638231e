// The back end of LLVM: scheduled kernels and plans to objects and linked artefacts. No LLVM type here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/backend/backend.h"
#include "ir/plan.h"
#include "ir/scheduled.h"
#include "ir/target/target.h"

namespace tc {

// One kernel as LLVM IR, assembly text or object code with a single function
//   void NAME(buffer pointers..., const int64_t* parameters, uint8_t* scratch, int32 thread,
//             int32 threads)
// where the pointers are the Input, Output and Constant buffers in order.
std::string kernel_llvm_ir(const ScheduledKernel& kernel, const Target& target, const std::string& name);
std::string kernel_assembly(const ScheduledKernel& kernel, const Target& target, const std::string& name);
Bytes kernel_object(const ScheduledKernel& kernel, const Target& target, const std::string& name);

// A pass over a kernel's code (codegen/passes/pass.h): its name, what it does in a sentence, for which
// targets it runs, and over what.
struct CodePassInfo {
  std::string name, doc, when, stage;
};
std::vector<CodePassInfo> code_passes();
// The kernel's code after a pass, as LLVM IR or LLVM's machine instructions; empty where the pass does not
// run for the target. A Model error that lists the passes for an unknown name.
std::string kernel_after_pass(const ScheduledKernel& kernel, const Target& target, const std::string& name,
                              const std::string& pass);

// CPU features that code for the target may use, separated by spaces: an artefact, and the lease of a
// device, demand them of a machine.
std::string target_features(const Target& target);

// The features that this plan's kernels need; those of a matrix unit only where a kernel uses it.
std::string plan_features(const Plan& plan, const Target& target);

// The symbol of the descriptor in a compiled model's objects. When they are written as an artefact, it is
// named after the file.
constexpr const char* kUnnamedDescriptor = "tc_unnamed_descriptor";

// All objects of a model: its kernels, the plan's run() and bind() and the descriptor (under
// `descriptor_symbol`), and its constants. `threads` workers compile and pack; the bytes do not depend on
// their number. A Device error where the temporary folder has no room for the constants.
ModelObjects model_objects(const Plan& plan, const Target& target, const std::string& descriptor_symbol,
                           int threads);

// Links with lld, in a child process. Errors are Internal errors with lld's text. Shared: a self-contained
// .so with the descriptor symbol exported and nothing else.
void link_shared(const ModelObjects& objects, const Target& target, const std::string& path);
// One relocatable object of all (`ld -r`).
void link_object(const ModelObjects& objects, const Target& target, const std::string& path);
// A static archive of the objects, `members` (the runtime's) and the constants.
void write_archive(const ModelObjects& objects, const std::vector<std::pair<std::string, Bytes>>& members,
                   const Target& target, const std::string& path);
// Folder of an architecture's libraries in the lib/ of the Python package.
const char* library_folder_name(Arch arch);
// A static executable from objects and the libraries in `library_folder` (crt1.o, libc.a,
// libtc_runtime.a, …); its main is the runtime's.
void link_executable(const ModelObjects& objects, const Target& target, const std::string& library_folder,
                     const std::string& path);

// A model for a system without an OS or a runtime: one relocatable object that links at any address, with
// the function PREFIX_run, the constants under PREFIX_weights and a block PREFIX_arena of
// bare_arena_bytes(); all other symbols are local. PREFIX_run returns a BareStatus. `plan` and `objects`
// belong to one model, whose descriptor is called `descriptor_symbol` in the objects. An Unsupported error
// where a kernel calls a function that such a system lacks.
struct BareModel {
  const Plan& plan;
  const ModelObjects& objects;
  const Target& target;
  std::string descriptor_symbol, prefix;
};
void link_bare(const BareModel& model, const std::string& path);

}  // namespace tc
