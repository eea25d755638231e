// All objects of a model: kernels compiled and constants packed in parallel.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>

#include "codegen/llvm/artefact/constants.h"
#include "codegen/llvm/required_features.h"
#include "codegen/llvm/artefact/model_objects.h"
#include "codegen/backend/backend.h"
#include "codegen/llvm/artefact/plan_emitter.h"
#include "codegen/backend/packed_constants_file.h"
#include "codegen/backend/parallel_for.h"
#include "codegen/llvm/emit/kernel_emitter.h"
#include "ir/scratch.h"

namespace tc {
namespace {

// Empty where no runtime reads it: kind `bare`, which needs no runtime, has plan code of its own
// (codegen/llvm/artefact/bare_object.cc).
Bytes plan_object(const Plan& plan, const Target& target, const PlanNames& names,
                  const WeightsFile* weights = nullptr) {
  ModuleCompiler compiler(target, names.descriptor + "_plan");
  if (!target.has_runtime) return compiler.object();
  emit_plan(compiler, plan, names, plan_features(plan, target), weights);
  compiler.optimise();
  return compiler.object();
}

// A kernel's version, by the length of vectors that it needs.
struct Choice {
  int bits;
  std::string name;
};

// Renames the compiler's kernel to `NAME_any` and adds a function NAME that reads the machine's vector length
// and calls the version for the longest vectors that the machine has, or `NAME_any`. Reading it takes one
// instruction for each call of a kernel, so that the runtime need not know of versions.
void choose_by_length(ModuleCompiler& compiler, const std::string& name, const std::vector<Choice>& choices) {
  llvm::Function* any = compiler.module().getFunction(name);
  any->setName(PlanNames::any(name));
  any->setLinkage(llvm::GlobalValue::InternalLinkage);
  any->setSection(
      ".text." +
      PlanNames::any(
          name));  // its own, so that the linker may put it elsewhere than the function that chooses
  auto declare = [&](const std::string& symbol) {
    auto* function = llvm::Function::Create(any->getFunctionType(), llvm::GlobalValue::ExternalLinkage,
                                            symbol, compiler.module());
    function->setVisibility(llvm::GlobalValue::HiddenVisibility);
    compiler.set_attributes(*function);
    return function;
  };
  llvm::Function* entry = declare(name);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(compiler.context(), "entry", entry));
  auto call = [&](llvm::Function* version) {
    std::vector<llvm::Value*> arguments;
    for (llvm::Argument& argument : entry->args()) arguments.push_back(&argument);
    builder.CreateCall(version, arguments)->setTailCallKind(llvm::CallInst::TCK_Tail);
    builder.CreateRetVoid();
  };
  // LLVM's vscale is the vector length in units of 64 bits: RISC-V's CSR vlenb divided by 8.
  llvm::Value* parts = builder.CreateIntrinsic(builder.getInt64Ty(), llvm::Intrinsic::vscale, {});
  for (size_t i = choices.size(); i-- > 0;) {
    auto* longer_vectors = llvm::BasicBlock::Create(compiler.context(), "longer_vectors", entry);
    auto* shorter = llvm::BasicBlock::Create(compiler.context(), "shorter", entry);
    builder.CreateCondBr(
        builder.CreateICmpUGE(parts, builder.getInt64(static_cast<uint64_t>(choices[i].bits / 64))),
        longer_vectors, shorter);
    builder.SetInsertPoint(longer_vectors);
    call(declare(choices[i].name));
    builder.SetInsertPoint(shorter);
  }
  call(any);
}

Bytes hidden_kernel_object(const ScheduledKernel& kernel, const Target& target, const std::string& name,
                           const std::vector<Choice>& choices = {}) {
  ModuleCompiler compiler(target, name);
  emit_kernel(compiler, kernel);
  compiler.module().getFunction(name)->setVisibility(llvm::GlobalValue::HiddenVisibility);
  if (!choices.empty()) choose_by_length(compiler, name, choices);
  compiler.optimise();
  return compiler.object();
}

// What is compiled of a plan in addition to its steps: kernels in order, and then their versions, grouped by
// the length of vectors.
struct KernelCode {
  const ScheduledKernel* kernel;
  Target target;
  std::string name;
  std::vector<Choice> choices;
  bool is_version = false;
};

std::vector<KernelCode> kernels_of(const Plan& plan, const Target& target, const PlanNames& names) {
  std::vector<KernelCode> all;
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    all.push_back({&plan.kernels[i], target, names.kernel(i), {}});
  for (const auto& [index, versions] : plan.versions) {
    for (const VectorVersion& version : versions) {
      const Target longer_vectors = parse_target(version.target);
      const std::string name = names.version(static_cast<size_t>(index), longer_vectors.vector_bits);
      all.at(static_cast<size_t>(index)).choices.push_back({longer_vectors.vector_bits, name});
      all.push_back({&version.kernel, longer_vectors, name, {}, true});
    }
  }
  std::stable_sort(
      all.begin() + static_cast<std::ptrdiff_t>(plan.kernels.size()), all.end(),
      [](const KernelCode& a, const KernelCode& b) { return a.target.vector_bits < b.target.vector_bits; });
  return all;
}

// The functions of which a machine runs only those for one length of vectors, grouped by length.
std::vector<std::string> functions_by_length(const std::vector<KernelCode>& kernels) {
  std::vector<std::string> any, longer_vectors;
  for (const KernelCode& kernel : kernels) {
    if (kernel.is_version) longer_vectors.push_back(kernel.name);
    else if (!kernel.choices.empty()) any.push_back(PlanNames::any(kernel.name));
  }
  any.insert(any.end(), longer_vectors.begin(), longer_vectors.end());
  return any;
}

}  // namespace

ModelObjects model_objects(const Plan& plan, const Target& target, const std::string& descriptor_symbol,
                           int threads) {
  const PlanNames names{descriptor_symbol};
  auto constants =
      std::make_shared<ConstantsFile>(names.constants(), constant_offsets(plan.constants).back());
  constants->set_tables(tables_of(plan));
  ConstantWriter writer(plan.constants, *constants);
  // Object 0 is the plan, the others the kernels in order, and then their versions.
  const std::vector<KernelCode> kernels = kernels_of(plan, target, names);
  std::vector<Bytes> code(kernels.size() + 1);
  work_in_parallel(code.size() + plan.constants.size(), threads, "generating code", [&](size_t i) {
    if (i == 0) {
      code[i] = plan_object(plan, target, names);
    } else if (i < code.size()) {
      const KernelCode& kernel = kernels[i - 1];
      code[i] = hidden_kernel_object(*kernel.kernel, kernel.target, kernel.name, kernel.choices);
    } else {
      writer.write(i - code.size());
    }
  });
  return {std::move(code), std::move(constants), functions_by_length(kernels)};
}

Bytes plan_object_with_weights_beside(const Plan& plan, const Target& target,
                                      const std::string& descriptor_symbol, const WeightsFile& weights) {
  return plan_object(plan, target, {descriptor_symbol}, &weights);
}

}  // namespace tc
