// All objects of a model: kernels compiled and constants packed in parallel.
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "codegen/codegen.h"
#include "codegen/constants.h"
#include "codegen/kernel_emitter.h"
#include "codegen/plan_emitter.h"

namespace tc {
namespace {

// Empty where no runtime reads it: kind `bare`, the only one with addresses of 32 bits, has a plan of its own (codegen/bare.cc).
Bytes plan_object(const Plan& plan, const Target& target, const PlanNames& names) {
  Unit unit(target, names.descriptor + "_plan");
  if (target.arch == Arch::RiscV32) return unit.object();
  emit_plan(unit, plan, names, plan_features(plan, target));
  unit.optimise();
  return unit.object();
}

// A kernel's version, by the length of vectors that it needs.
struct Choice {
  int bits;
  std::string name;
};

// Renames the unit's kernel to `NAME_any` and adds a function NAME that reads the machine's vector length and calls the
// version for the longest vectors that the machine has, or `NAME_any`. Reading it takes one instruction for each call of a
// kernel, so that the runtime need not know of versions.
void choose_by_length(Unit& unit, const std::string& name, const std::vector<Choice>& choices) {
  llvm::Function* any = unit.module().getFunction(name);
  any->setName(PlanNames::any(name));
  any->setLinkage(llvm::GlobalValue::InternalLinkage);
  any->setSection(".text." + PlanNames::any(name));   // its own, so that the linker may put it elsewhere than the function that chooses
  auto declare = [&](const std::string& symbol) {
    auto* function = llvm::Function::Create(any->getFunctionType(), llvm::GlobalValue::ExternalLinkage, symbol, unit.module());
    function->setVisibility(llvm::GlobalValue::HiddenVisibility);
    unit.set_attributes(*function);
    return function;
  };
  llvm::Function* face = declare(name);
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(unit.context(), "entry", face));
  auto call = [&](llvm::Function* version) {
    std::vector<llvm::Value*> arguments;
    for (llvm::Argument& argument : face->args()) arguments.push_back(&argument);
    builder.CreateCall(version, arguments)->setTailCallKind(llvm::CallInst::TCK_Tail);
    builder.CreateRetVoid();
  };
  // LLVM's vscale is the vector length in units of 64 bits: RISC-V's CSR vlenb divided by 8.
  llvm::Value* parts = builder.CreateIntrinsic(builder.getInt64Ty(), llvm::Intrinsic::vscale, {});
  for (size_t i = choices.size(); i-- > 0;) {
    auto* longer = llvm::BasicBlock::Create(unit.context(), "longer", face);
    auto* shorter = llvm::BasicBlock::Create(unit.context(), "shorter", face);
    builder.CreateCondBr(builder.CreateICmpUGE(parts, builder.getInt64(static_cast<uint64_t>(choices[i].bits / 64))), longer, shorter);
    builder.SetInsertPoint(longer);
    call(declare(choices[i].name));
    builder.SetInsertPoint(shorter);
  }
  call(any);
}

Bytes hidden_kernel_object(const ScheduledKernel& kernel, const Target& target, const std::string& name,
                           const std::vector<Choice>& choices = {}) {
  Unit unit(target, name);
  emit_kernel(unit, kernel);
  unit.module().getFunction(name)->setVisibility(llvm::GlobalValue::HiddenVisibility);
  if (!choices.empty()) choose_by_length(unit, name, choices);
  unit.optimise();
  return unit.object();
}

// What is compiled of a plan beside its steps: kernels in order, and then their versions, those of one length together.
struct KernelCode {
  const ScheduledKernel* kernel;
  Target target;
  std::string name;
  std::vector<Choice> choices;
  bool is_version = false;
};

std::vector<KernelCode> kernels_of(const Plan& plan, const Target& target, const PlanNames& names) {
  std::vector<KernelCode> all;
  for (size_t i = 0; i < plan.kernels.size(); ++i) all.push_back({&plan.kernels[i], target, names.kernel(i), {}});
  for (const auto& [index, versions] : plan.versions) {
    for (const VectorVersion& version : versions) {
      const Target longer = parse_target(version.target);
      const std::string name = names.version(static_cast<size_t>(index), longer.vector_bits);
      all.at(static_cast<size_t>(index)).choices.push_back({longer.vector_bits, name});
      all.push_back({&version.kernel, longer, name, {}, true});
    }
  }
  std::stable_sort(all.begin() + static_cast<std::ptrdiff_t>(plan.kernels.size()), all.end(), [](const KernelCode& a, const KernelCode& b) {
    return a.target.vector_bits < b.target.vector_bits;
  });
  return all;
}

// Functions of which a machine runs those for one length alone, those of one length together.
std::vector<std::string> functions_by_length(const std::vector<KernelCode>& kernels) {
  std::vector<std::string> any, longer;
  for (const KernelCode& kernel : kernels) {
    if (kernel.is_version) longer.push_back(kernel.name);
    else if (!kernel.choices.empty()) any.push_back(PlanNames::any(kernel.name));
  }
  any.insert(any.end(), longer.begin(), longer.end());
  return any;
}

// Bytes that constants in packing may have together; a larger one is packed alone.
constexpr int64_t kMostInPacking = 64 << 20;

// Writes constants to their file. Workers wait for each other rather than fill the memory.
class ConstantWriter {
 public:
  ConstantWriter(const std::vector<PlanConstant>& constants, ConstantsFile& file)
      : constants_(constants), offsets_(constant_offsets(constants)), file_(file) {}

  void write(size_t index) {
    const PlanConstant& constant = constants_[index];
    const Share share(*this, constant.byte_count());
    file_.write(offsets_[index], constant.make()->bytes);
  }

 private:
  struct Share {
    Share(ConstantWriter& writer, int64_t bytes) : writer(writer), bytes(bytes) {
      std::unique_lock<std::mutex> lock(writer.mutex_);
      writer.left_.wait(lock, [&] { return writer.in_packing_ == 0 || writer.in_packing_ + bytes <= kMostInPacking; });
      writer.in_packing_ += bytes;
    }
    ~Share() {
      const std::lock_guard<std::mutex> lock(writer.mutex_);
      writer.in_packing_ -= bytes;
      writer.left_.notify_all();
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    ConstantWriter& writer;
    const int64_t bytes;
  };

  const std::vector<PlanConstant>& constants_;
  const std::vector<int64_t> offsets_;
  ConstantsFile& file_;
  std::mutex mutex_;
  std::condition_variable left_;
  int64_t in_packing_ = 0;
};

}  // namespace

ModelObjects model_objects(const Plan& plan, const Target& target, const std::string& descriptor_symbol,
                           int threads) {
  const PlanNames names{descriptor_symbol};
  auto constants = std::make_shared<ConstantsFile>(names.constants(), constant_offsets(plan.constants).back());
  ConstantWriter writer(plan.constants, *constants);
  // Object 0 is the plan, the others the kernels in order, and then their versions.
  const std::vector<KernelCode> kernels = kernels_of(plan, target, names);
  std::vector<Bytes> code(kernels.size() + 1);
  const size_t count = code.size() + plan.constants.size();
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        if (i == 0) code[i] = plan_object(plan, target, names);
        else if (i < code.size()) {
          const KernelCode& kernel = kernels[i - 1];
          code[i] = hidden_kernel_object(*kernel.kernel, kernel.target, kernel.name, kernel.choices);
        } else writer.write(i - code.size());
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> workers;
  const size_t wanted = static_cast<size_t>(std::max(1, threads));
  for (size_t i = 1; i < std::min(wanted, count); ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  // The first in order, so that the same fault gives the same error.
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return {std::move(code), std::move(constants), functions_by_length(kernels)};
}

}  // namespace tc
