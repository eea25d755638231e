// Codegen's face: scheduled kernels and plans to objects and linked artefacts. No LLVM type here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/plan.h"
#include "ir/scheduled.h"
#include "ir/target/target.h"

namespace tc {

using Bytes = std::vector<uint8_t>;

// One kernel as LLVM IR, assembly text or object code with a single function
//   void NAME(buffer pointers..., const int64_t* parameters, uint8_t* scratch, int32 thread,
//             int32 threads)
// where the pointers are the Input, Output and Constant buffers in order.
std::string kernel_llvm_ir(const ScheduledKernel& kernel, const Target& target, const std::string& name);
std::string kernel_assembly(const ScheduledKernel& kernel, const Target& target, const std::string& name);
Bytes kernel_object(const ScheduledKernel& kernel, const Target& target, const std::string& name);

// CPU features that code for the target may use, separated by spaces: what an artefact demands of a
// machine, and a lease of a device.
std::string target_features(const Target& target);

// Those that this plan's kernels ask of a machine: of a matrix unit only what they use.
std::string plan_features(const Plan& plan, const Target& target);

// Bytes of per-thread scratch that the kernel's Stack buffers need for the largest sizes; 0 where each call's sizes tell.
int64_t scratch_bytes(const ScheduledKernel& kernel);
// The same for these values of the kernel's parameters.
Dim sized_scratch(const Kernel& kernel, const std::vector<Dim>& parameters);

// The same of the plan's most demanding kernel, or what the plan says where that is more.
int64_t plan_scratch_bytes(const Plan& plan);
// The same of thread 0, beside what it has in the arena.
int64_t first_scratch_bytes(const Plan& plan);

// The packed constants of a model, in a file rather than in memory.
class ConstantsFile;

// What an artefact is linked from.
struct ModelObjects {
  std::vector<Bytes> code;
  // Stands in read-only data under a symbol that the code knows; null: there is none.
  std::shared_ptr<const ConstantsFile> constants = nullptr;
  // Functions of which a machine runs only those for the length of its vectors, those of one length together.
  std::vector<std::string> by_length = {};
};

// All objects of a model: its kernels, the plan's run() and bind() and the descriptor (under
// `descriptor_symbol`), and its constants. `threads` workers compile and pack; the bytes do not depend on
// their number. A Device error where the temporary folder has no room for the constants.
ModelObjects model_objects(const Plan& plan, const Target& target, const std::string& descriptor_symbol,
                           int threads);

// Links in process with lld. Errors are Internal errors with lld's text.
// Shared: a self-contained .so with the descriptor symbol exported and nothing else.
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
void link_executable(const ModelObjects& objects, const Target& target,
                     const std::string& library_folder, const std::string& path);

// A model for a system without an OS or a runtime: one relocatable object that links at any address, with the function
// PREFIX_run, the constants under PREFIX_weights and a block PREFIX_arena of bare_arena_bytes(); all else in it is local.
// What PREFIX_run gives:
enum class BareStatus : uint8_t {
  Done,
  Null,          // an argument is a null pointer
  Misaligned,    // an input or output does not lie at a multiple of its elements' size, or the arena at one of 64
  WrongSize,     // the values of a run give a size that the model cannot have; what the outputs hold is lost
};
constexpr int64_t kBareArenaAlignment = 64;
// What a run works in: the plan's arena, which has a fixed size, and the scratch of its one thread.
int64_t bare_arena_bytes(const Plan& plan);
int64_t bare_scratch_offset(const Plan& plan);   // in it
// `plan` and `objects` are of one model, the objects under `descriptor_symbol`. An Unsupported error where a kernel calls a function that
// such a system lacks.
struct BareModel {
  const Plan& plan;
  const ModelObjects& objects;
  const Target& target;
  std::string descriptor_symbol, prefix;
};
void link_bare(const BareModel& model, const std::string& path);

}  // namespace tc
