// All objects of a model: kernels compiled and constants packed in parallel.
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

Bytes plan_object(const Plan& plan, const Target& target, const PlanNames& names) {
  Unit unit(target, names.descriptor + "_plan");
  emit_plan(unit, plan, names, plan_features(plan, target));
  unit.optimise();
  return unit.object();
}

Bytes hidden_kernel_object(const ScheduledKernel& kernel, const Target& target,
                           const std::string& name) {
  Unit unit(target, name);
  emit_kernel(unit, kernel);
  unit.module().getFunction(name)->setVisibility(llvm::GlobalValue::HiddenVisibility);
  unit.optimise();
  return unit.object();
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
  // Object 0 is the plan, the others the kernels in order.
  std::vector<Bytes> code(plan.kernels.size() + 1);
  const size_t count = code.size() + plan.constants.size();
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        if (i == 0) code[i] = plan_object(plan, target, names);
        else if (i < code.size()) code[i] = hidden_kernel_object(plan.kernels[i - 1], target, names.kernel(i - 1));
        else writer.write(i - code.size());
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
  return {std::move(code), std::move(constants)};
}

}  // namespace tc
