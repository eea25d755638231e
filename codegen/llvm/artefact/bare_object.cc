// Models for systems without an OS: one object that needs no functions but those that copy memory.
#include <llvm/ObjCopy/ConfigManager.h>
#include <llvm/ObjCopy/ObjCopy.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/FileOutputBuffer.h>
#include <llvm/Support/MemoryBuffer.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "codegen/llvm/artefact/bare_object.h"
#include "codegen/llvm/artefact/link.h"
#include "codegen/llvm/kernel_code.h"
#include "codegen/llvm/artefact/constants.h"
#include "codegen/llvm/emit/kernel_emitter.h"
#include "codegen/llvm/artefact/plan_emitter.h"
#include "codegen/llvm/pass_support/stack_frames.h"
#include "codegen/llvm/artefact/llvm_result.h"
#include "ir/error.h"
#include "ir/plan_steps.h"
#include "ir/scratch.h"

namespace tc {
namespace {

// Functions that compilers assume in every C program, free-standing ones included.
const std::set<std::string> kMemoryFunctions = {"memcpy", "memmove", "memset"};

// Functions that compute floats, by LLVM's names and by those of Arm's run-time ABI, which each compiler for
// Arm links by itself. GCC's library for the smallest cores has the latter alone.
constexpr std::pair<const char*, const char*> kFloatFunctions[] = {
    {"__addsf3", "__aeabi_fadd"},      {"__subsf3", "__aeabi_fsub"},     {"__mulsf3", "__aeabi_fmul"},
    {"__divsf3", "__aeabi_fdiv"},      {"__unordsf2", "__aeabi_fcmpun"}, {"__fixsfsi", "__aeabi_f2iz"},
    {"__fixunssfsi", "__aeabi_f2uiz"}, {"__floatsisf", "__aeabi_i2f"},   {"__floatunsisf", "__aeabi_ui2f"},
    {"__fixsfdi", "__aeabi_f2lz"},     {"__floatdisf", "__aeabi_l2f"},   {"__floatundisf", "__aeabi_ul2f"},
    {"__divsi3", "__aeabi_idiv"},      {"__udivsi3", "__aeabi_uidiv"},   {"__ashldi3", "__aeabi_llsl"},
    {"__lshrdi3", "__aeabi_llsr"},     {"__ashrdi3", "__aeabi_lasr"}};

// Whether every program has the function: it copies memory or, where a core has no instructions for floats,
// is one of those that compilers call in their place.
bool is_everywhere(const Target& target, const std::string& name) {
  return kMemoryFunctions.count(name) > 0 || (!target.float_unit && name.rfind("__", 0) == 0);
}

// Code without a red zone: interrupts of a system without an OS may use the stack of the code that they
// interrupt.
Bytes without_red_zone(ModuleCompiler& compiler) {
  for (llvm::Function& function : compiler.module()) {
    if (!function.isDeclaration()) function.addFnAttr(llvm::Attribute::NoRedZone);
  }
  compiler.optimise();
  return compiler.object();
}

Bytes plan_object(const BareModel& model, const PlanNames& names) {
  ModuleCompiler compiler(model.target, model.prefix);
  emit_bare_plan(compiler, model.plan, names, model.prefix);
  return without_red_zone(compiler);
}

// The kernel's object as it was compiled for other artefacts; on x86-64, where those use the red zone below
// the stack pointer, it is compiled anew.
Bytes kernel_object(const BareModel& model, const PlanNames& names, size_t index) {
  if (model.target.arch != Arch::X86_64) return model.objects.code.at(index + 1);
  ModuleCompiler compiler(model.target, names.kernel(index));
  emit_kernel(compiler, model.plan.kernels[index]);
  return without_red_zone(compiler);
}

std::string label_of_kernel(const Plan& plan, size_t kernel) {
  for (const PlanStep* step : all_steps(plan)) {
    if (step->kind == PlanStep::Kind::Call && step->kernel == static_cast<int>(kernel)) return step->label;
  }
  return plan.kernels[kernel].kernel.name;
}

// Names of the functions that an object calls and does not define.
std::set<std::string> missing_in(const Bytes& object, const std::string& path) {
  const llvm::StringRef bytes(reinterpret_cast<const char*>(object.data()), object.size());
  const auto file =
      unwrapped(llvm::object::ObjectFile::createObjectFile(llvm::MemoryBufferRef(bytes, path)), path);
  std::set<std::string> names;
  for (const llvm::object::SymbolRef& symbol : file->symbols()) {
    if (unwrapped(symbol.getFlags(), path) & llvm::object::SymbolRef::SF_Undefined)
      names.insert(unwrapped(symbol.getName(), path).str());
  }
  names.erase("");
  return names;
}

[[noreturn]] void refuse_call(const BareModel& model, const std::string& caller, const std::string& name) {
  const bool has_other_kinds = model.target.has_runtime;
  fail(ErrorKind::Unsupported, caller, " of model '", model.plan.model, "' calls '", name,
       "', which a system without an OS lacks, so that there is no artefact of kind 'bare' for target ",
       model.target.name, "; compile for a target whose instructions do this",
       has_other_kinds ? ", or export kind 'static' or 'object'" : "");
}

void refuse_calls(const BareModel& model, size_t kernel, const Bytes& object, const std::string& path) {
  const std::string versions = PlanNames{model.descriptor_symbol}.kernel(kernel) + "_";
  for (const std::string& name : missing_in(object, path)) {
    if (is_everywhere(model.target, name) || name.rfind(versions, 0) == 0) continue;
    refuse_call(model, text("node '", label_of_kernel(model.plan, kernel), "'"), name);
  }
}

// The plan's own code calls kernels and computes sizes, which takes divisions.
void refuse_calls_of_plan(const BareModel& model, const PlanNames& names, const Bytes& object,
                          const std::string& path) {
  std::set<std::string> missing = missing_in(object, path);
  std::erase_if(missing, [&](const std::string& name) { return is_everywhere(model.target, name); });
  for (size_t i = 0; i < model.plan.kernels.size(); ++i) missing.erase(names.kernel(i));
  missing.erase(names.constants());
  if (!missing.empty()) refuse_call(model, "computing a size", *missing.begin());
}

// Gives the shared names of the linked object the prefix, and makes all other names local.
void keep_only_interface(const BareModel& model, const PlanNames& names, const std::string& path) {
  namespace objcopy = llvm::objcopy;
  objcopy::ConfigManager config;
  objcopy::CommonConfig& common = config.Common;
  const auto keep = [&](const std::string& name) {
    unwrapped(common.SymbolsToKeepGlobal.addMatcher(objcopy::NameOrPattern::create(
                  name, objcopy::MatchStyle::Literal, [](llvm::Error error) { return error; })),
              path);
  };
  // The configuration refers to these texts, so that they must outlive it.
  const std::string run = model.prefix + "_run", reset = model.prefix + "_reset",
                    arena = model.prefix + "_arena", weights = model.prefix + "_weights";
  const std::string constants = names.constants(), section = ".rodata." + weights;
  std::vector<std::string> kernels;
  for (size_t i = 0; i < model.plan.kernels.size(); ++i) {
    kernels.push_back(names.kernel(i));
    kernels.push_back(text(model.prefix, "_kernel_", i));
  }
  keep(run);
  keep(reset);
  keep(arena);
  keep(constants);
  common.SymbolsToRename[constants] = weights;
  for (size_t i = 0; i < kernels.size(); i += 2) common.SymbolsToRename[kernels[i]] = kernels[i + 1];
  for (const auto& [from, to] : kFloatFunctions) {
    if (!model.target.float_unit) common.SymbolsToRename[from] = to;
  }
  objcopy::SectionRename& renamed = common.SectionsToRename[kObjectConstantsSection];
  renamed.OriginalName = kObjectConstantsSection;
  renamed.NewName = section;
  // Tables for exceptions, which code for Arm has beside each function.
  unwrapped(common.ToRemove.addMatcher(objcopy::NameOrPattern::create(
                "*.ARM.exidx*", objcopy::MatchStyle::Wildcard, [](llvm::Error error) { return error; })),
            path);
  common.OutputFilename = path;

  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false,
                                            /*IsVolatile=*/true);
  if (!buffer) fail(ErrorKind::Device, "cannot read ", path, ": ", buffer.getError().message());
  const auto object =
      unwrapped(llvm::object::ObjectFile::createObjectFile((*buffer)->getMemBufferRef()), path);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  unwrapped(objcopy::executeObjcopyOnBinary(config, *object, stream), path);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) fail(ErrorKind::Device, "cannot write ", path, ": is the disk full?");
}

void widen(StackFrame& frame, const StackFrame& other) {
  frame.bytes = std::max(frame.bytes, other.bytes);
  frame.scalable_bytes = std::max(frame.scalable_bytes, other.scalable_bytes);
}

// The stack of a run: its own frame, and the largest frame of what it calls: a kernel, a kernel's version,
// or a function of the plan's own.
StackFrame stack_of_run(const BareModel& model) {
  const PlanNames names{model.descriptor_symbol};
  StackFrame run, called;
  const auto add_kernel = [&](const ScheduledKernel& kernel, const Target& target) {
    ModuleCompiler compiler(target, names.kernel(0));
    emit_kernel(compiler, kernel);
    without_red_zone(compiler);
    for (const auto& [name, frame] : stack_frames(compiler.module())) widen(called, frame);
  };
  for (const ScheduledKernel& kernel : model.plan.kernels) add_kernel(kernel, model.target);
  for (const auto& [index, versions] : model.plan.versions) {
    for (const VectorVersion& version : versions) add_kernel(version.kernel, parse_target(version.target));
  }
  ModuleCompiler compiler(model.target, model.prefix);
  emit_bare_plan(compiler, model.plan, names, model.prefix);
  without_red_zone(compiler);
  for (const auto& [name, frame] : stack_frames(compiler.module())) {
    if (name == model.prefix + "_run") run = frame;
    else if (name == model.prefix + "_reset") continue;  // it calls no kernel
    else if (!compiler.module().getFunction(name)->use_empty()) widen(called, frame);
  }
  // On x86-64 the return addresses of the two calls are no part of the frames.
  const int64_t addresses = model.target.arch == Arch::X86_64 ? 16 : 0;
  return {run.bytes + called.bytes + addresses, run.scalable_bytes + called.scalable_bytes};
}

}  // namespace

void link_bare(const BareModel& model, const std::string& path) {
  const PlanNames names{model.descriptor_symbol};
  ModelObjects objects{{plan_object(model, names)}, model.objects.constants};
  refuse_calls_of_plan(model, names, objects.code.front(), path);
  for (size_t i = 0; i < model.plan.kernels.size(); ++i) {
    objects.code.push_back(kernel_object(model, names, i));
    refuse_calls(model, i, objects.code.back(), path);
  }
  // Versions of kernels for longer vectors follow.
  for (size_t i = model.plan.kernels.size() + 1; i < model.objects.code.size(); ++i)
    objects.code.push_back(model.objects.code[i]);
  link_object(objects, model.target, path);
  keep_only_interface(model, names, path);
}

BareSizes bare_sizes(const BareModel& model, const std::string& path) {
  constexpr int kScaleBits = 64;
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false,
                                            /*IsVolatile=*/true);
  if (!buffer) fail(ErrorKind::Device, "cannot read ", path, ": ", buffer.getError().message());
  const auto object =
      unwrapped(llvm::object::ObjectFile::createObjectFile((*buffer)->getMemBufferRef()), path);
  BareSizes sizes;
  for (const llvm::object::ELFSectionRef section : object->sections()) {
    if (!(section.getFlags() & llvm::ELF::SHF_ALLOC)) continue;
    const std::string name = unwrapped(section.getName(), path).str();
    int64_t& part = name == ".rodata." + model.prefix + "_weights" ? sizes.constants
                    : name == ".bss." + model.prefix + "_arena"    ? sizes.arena
                    : section.getFlags() & llvm::ELF::SHF_WRITE    ? sizes.zeros
                                                                   : sizes.code;
    part += static_cast<int64_t>(section.getSize());
  }
  const StackFrame stack = stack_of_run(model);
  sizes.stack = stack.bytes + stack.scalable_bytes * std::max(1, model.target.vector_bits / kScaleBits);
  sizes.stack_grows = stack.scalable_bytes > 0;
  return sizes;
}

}  // namespace tc
