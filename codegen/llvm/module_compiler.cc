// The LLVM side of one object file: context, module, target machine, passes, emission.
#include "codegen/llvm/module_compiler.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/Reassociate.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <array>
#include <condition_variable>
#include <mutex>

#include "codegen/llvm/pass_support/stack_frames.h"
#include "codegen/llvm/pass_support/count_spills.h"
#include "codegen/llvm/passes/order_instructions.h"
#include "codegen/llvm/passes/pass.h"
#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

// Sets the order in which LLVM's register allocator takes values that live in one block: from the block's
// end backwards, or long ones first. Where sums fill the registers, two groups of weights take turns in the
// registers left; taken by length, some values want the registers of the other group, and sums would be
// spilled. The option is global to the process: a thread that needs the other order waits.
class LocalValues {
 public:
  explicit LocalValues(bool are_backwards) {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [&] { return users_ == 0 || option_->getValue() == are_backwards; });
    if (users_++ == 0) option_->setValue(are_backwards);
  }
  ~LocalValues() {
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) free_.notify_all();
  }
  LocalValues(const LocalValues&) = delete;
  LocalValues& operator=(const LocalValues&) = delete;

  static void initialise() {
    auto& options = llvm::cl::getRegisteredOptions();
    const auto found = options.find("greedy-reverse-local-assignment");
    TC_CHECK(found != options.end(), "LLVM's option greedy-reverse-local-assignment");
    option_ = static_cast<llvm::cl::opt<bool>*>(found->second);
    // Without an occurrence of the option LLVM asks the target instead.
    TC_CHECK(!option_->addOccurrence(0, "greedy-reverse-local-assignment", "false"),
             "a value of LLVM's option");
  }

 private:
  static inline llvm::cl::opt<bool>* option_ = nullptr;
  static inline std::mutex mutex_;
  static inline std::condition_variable free_;
  static inline int users_ = 0;
};

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
    // Our addresses are in their final form already: sums per loop level and constant displacements.
    // Loop strength reduction would give each copy of a tile an induction variable of its own.
    auto& options = llvm::cl::getRegisteredOptions();
    const auto found = options.find("disable-lsr");
    TC_CHECK(found != options.end(), "LLVM's option disable-lsr");
    static_cast<llvm::cl::opt<bool>*>(found->second)->setValue(true);
    LocalValues::initialise();
  });
}

}  // namespace

bool orders_code(const Target& target) { return counts_registers(target) && target.vector_bits > 0; }

ModuleCompiler::ModuleCompiler(const Target& target, const std::string& name) : target_(target) {
  initialise_llvm();
  std::string error;
  const llvm::Target* llvm_target = llvm::TargetRegistry::lookupTarget(target.triple, error);
  if (llvm_target == nullptr) {
    fail(ErrorKind::Target, "target ", target.name, ": LLVM has no code generator for ", target.triple, ": ",
         error);
  }
  llvm::TargetOptions options;
  options.MCOptions.ABIName = target.abi;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.NoTrappingFPMath = true;
  options.UniqueSectionNames = true;
  // Memory is copied by the functions that all targets use, not by those of Arm's own ABI.
  if (target.arch == Arch::ArmM) options.EABIVersion = llvm::EABI::GNU;
  // Microcontrollers run programs where they were linked; relative addresses would take more code on Arm.
  const auto addresses = target.arch == Arch::ArmM ? llvm::Reloc::Static : llvm::Reloc::PIC_;
  machine_.reset(llvm_target->createTargetMachine(
      target.triple, target.cpu, target.features, options, addresses,
      target.is_riscv() ? std::optional(llvm::CodeModel::Medium) : std::nullopt,
      llvm::CodeGenOptLevel::Default));
  if (machine_ == nullptr) {
    fail(ErrorKind::Target, "target ", target.name, ": LLVM refuses CPU '", target.cpu, "' with features '",
         target.features, "'");
  }
  context_ = std::make_unique<llvm::LLVMContext>();
  module_ = std::make_unique<llvm::Module>(name, *context_);
  module_->setTargetTriple(target.triple);
  module_->setDataLayout(machine_->createDataLayout());
  if (addresses == llvm::Reloc::PIC_) module_->setPICLevel(llvm::PICLevel::BigPIC);
  if (!target.abi.empty()) {
    module_->addModuleFlag(llvm::Module::Error, "target-abi", llvm::MDString::get(*context_, target.abi));
  }
}

void ModuleCompiler::set_attributes(llvm::Function& function) const {
  function.addFnAttr("target-cpu", target_.cpu);
  if (!target_.scheduled_for.empty()) function.addFnAttr("tune-cpu", target_.scheduled_for);
  std::string features = target_.features;
  if (!target_.tuning.empty()) features += (features.empty() ? "" : ",") + target_.tuning;
  if (!features.empty()) function.addFnAttr("target-features", features);
  if (target_.arch == Arch::X86_64) {
    function.addFnAttr("prefer-vector-width", std::to_string(std::max(target_.vector_bits, 128)));
    function.addFnAttr("min-legal-vector-width", "512");
  }
  if (target_.scalable) {
    // The target guarantees only a minimum register width, which vectors of fixed size use; a matrix
    // instruction on vectors is for registers of that very width (runtime/features.cc refuses others).
    const auto least = static_cast<unsigned>(std::max(1, target_.vector_bits / 64));
    function.addFnAttr(llvm::Attribute::getWithVScaleRangeArgs(
        *context_, least, target_.is_riscv() && target_.matrix.vectors ? least : 1024));
  }
  function.addFnAttr("no-trapping-math", "true");
  function.addFnAttr("no-builtins");
  function.addFnAttr("frame-pointer", "none");
  function.addFnAttr(llvm::Attribute::NoUnwind);
  function.addFnAttr(llvm::Attribute::WillReturn);
}

bool ModuleCompiler::has_feature(const std::string& name) const {
  return machine_->getMCSubtargetInfo()->checkFeatures("+" + name);
}

void ModuleCompiler::optimise() {
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  if (llvm::verifyModule(*module_, &stream)) {
    fail(ErrorKind::Internal, "internal error: generated module '", module_->getName().str(),
         "' is ill-formed: ", stream.str());
  }
  llvm::PassBuilder builder(machine_.get());
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::TargetLibraryInfoImpl library{llvm::Triple(target_.triple)};
  library.disableAllFunctions();
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::FunctionPassManager registers;
  registers.addPass(llvm::PromotePass());
  // Not everywhere: what leaves a loop takes registers in it.
  llvm::FunctionPassManager hoist;
  hoist.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
  // Sums in registers; constants that are added after each other are one, outside of the loop.
  llvm::FunctionPassManager keep;
  keep.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  for (const bool again : {false, true}) {
    keep.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
    if (!again) keep.addPass(llvm::ReassociatePass());
    keep.addPass(llvm::InstCombinePass());
  }
  for (llvm::Function& function : *module_) {
    if (function.isDeclaration()) continue;
    interruption_point();
    PassContext context{target_};
    for (const CodePass& pass : code_pass_table()) {
      if (pass.stage == CodePass::Stage::First) run(pass, function, context);
    }
    if (function.hasFnAttribute("tc-holds-sums")) registers.run(function, functions);
    passes.run(function, functions);
    if (function.hasFnAttribute("tc-hoists-invariants")) hoist.run(function, functions);
    if (function.hasFnAttribute("tc-keeps-constants")) keep.run(function, functions);
  }
  if (orders_code(target_)) before_ = llvm::CloneModule(*module_);
  transform();
}

void ModuleCompiler::run(const CodePass& pass, llvm::Function& function, PassContext& context) {
  if (!pass.runs(context.target)) return;
  pass.run(function, context);
  if (&pass != watched_) return;
  llvm::raw_string_ostream stream(watched_text_);
  function.print(stream);
}

void ModuleCompiler::transform() {
  Target target = target_;
  target.vector_registers -= attempt_.registers_less;
  for (llvm::Function& function : *module_) {
    if (function.isDeclaration()) continue;
    PassContext context{target};
    for (const CodePass& pass : code_pass_table()) {
      if (pass.stage == CodePass::Stage::Last) run(pass, function, context);
    }
  }
}

void ModuleCompiler::begin_again(const Attempt& attempt) {
  attempt_ = attempt;
  module_ = llvm::CloneModule(*before_);
  transform();
}

std::string ModuleCompiler::text_after(const CodePass& pass, const Attempt& attempt) {
  attempt_ = attempt;
  watched_ = &pass;
  optimise();
  int spills = 0;
  if (pass.stage == CodePass::Stage::Machine) emit_once(/*assembly=*/false, spills);
  return watched_text_;
}

std::string ModuleCompiler::text() {
  if (before_ != nullptr) {
    emit(/*assembly=*/false);
    begin_again(attempt_);
  }
  std::string result;
  llvm::raw_string_ostream stream(result);
  module_->print(stream, nullptr);
  return stream.str();
}

bool ModuleCompiler::any_function(const char* attribute) const {
  return std::any_of(module_->begin(), module_->end(),
                     [&](const llvm::Function& each) { return each.hasFnAttribute(attribute); });
}

// What is tried where the first attempt spills. With two registers less nearly all loops fit. The second one
// leaves room for constants that an epilogue keeps in registers throughout the loop of its sum: six
// registers, in whole groups of a block, or twelve where scalars are in vector registers, too. Of the layers
// and networks of tests.bench.riscv these two leave as few spills as the ten that were tried before.
static std::array<ModuleCompiler::Attempt, 2> other_attempts(const Target& target) {
  constexpr int kFloatBits = 32;
  const int constants = target.floats_in_vectors ? 12 : 6;
  const int group = std::max(1, target.block * kFloatBits / std::max(1, target.vector_bits));
  return {{{2, true}, {(constants + group - 1) / group * group, false}}};
}

Bytes ModuleCompiler::emit(bool assembly) {
  int fewest = 0;
  Bytes result = emit_once(assembly, fewest);
  if (before_ == nullptr) return result;
  Attempt best = attempt_;
  std::map<std::string, StackFrame> frames = stack_frames(*module_);
  for (const Attempt& each : other_attempts(target_)) {
    if (fewest == 0) break;
    begin_again(each);
    int spills = 0;
    Bytes other = emit_once(assembly, spills);
    if (spills >= fewest) continue;
    fewest = spills;
    best = each;
    frames = stack_frames(*module_);
    result = std::move(other);
  }
  attempt_ = best;
  note_stack_frames(*module_, frames);
  return result;
}

void ModuleCompiler::add_machine_passes(llvm::TargetPassConfig& config, llvm::raw_ostream& watched) {
  Target target = target_;
  target.vector_registers -= attempt_.registers_less;
  for (const CodePass& pass : code_pass_table()) {
    if (pass.stage != CodePass::Stage::Machine || !pass.runs(target)) continue;
    if (pass.replaces != nullptr) config.disablePass(pass.replaces);
    config.insertPass(pass.follows, pass.create(target));
    if (&pass == watched_) config.insertPass(pass.follows, llvm::createMachineFunctionPrinterPass(watched));
  }
}

Bytes ModuleCompiler::emit_once(bool assembly, int& spills) {
  llvm::SmallVector<char, 0> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager passes;
  llvm::TargetLibraryInfoImpl library{llvm::Triple(target_.triple)};
  library.disableAllFunctions();
  passes.add(new llvm::TargetLibraryInfoWrapperPass(library));
  // Like addPassesToEmitFile(), except for the passes that are left out or added.
  auto& machine = static_cast<llvm::LLVMTargetMachine&>(*machine_);
  auto* functions = new llvm::MachineModuleInfoWrapperPass(&machine);
  llvm::TargetPassConfig* config = machine.createPassConfig(passes);
  // LLVM's machine scheduler moves products away from their loads, so that sums no longer fit the registers.
  const bool in_scalars = target_.is_riscv() && target_.vector_bits == 0 && target_.word_bits == 32;
  if (!counts_registers(target_) || in_scalars || any_function("tc-ordered"))
    config->disablePass(&llvm::MachineSchedulerID);
  llvm::raw_string_ostream watched(watched_text_);
  add_machine_passes(*config, watched);
  if (orders_code(target_)) config->insertPass(&llvm::StackSlotColoringID, create_count_spills(spills));
  config->insertPass(&llvm::PrologEpilogCodeInserterID, create_stack_frames());
  if (any_function("tc-sums-in-order")) config->disablePass(&llvm::MachineCombinerID);
  config->setDisableVerify(true);
  passes.add(config);
  passes.add(functions);
  const bool refused = config->addISelPasses();
  if (!refused) config->addMachinePasses();
  config->setInitialized();
  const auto kind = assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
  if (refused || machine.addAsmPrinter(passes, stream, nullptr, kind, functions->getMMI().getContext())) {
    fail(ErrorKind::Internal, "internal error: LLVM cannot emit code for ", target_.triple);
  }
  passes.add(llvm::createFreeMachineFunctionPass());
  const LocalValues local_values(any_function("tc-pipelined-loads") != attempt_.inverted_assignment);
  passes.run(*module_);
  return Bytes(buffer.begin(), buffer.end());
}

Bytes ModuleCompiler::object() { return emit(false); }

std::string ModuleCompiler::assembly() {
  const Bytes bytes = emit(true);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace tc
