// What the code of a plan's run() gets from the runtime: the frame of runtime/abi.h, in LLVM IR.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/llvm/emit/kernel_context.h"
#include "codegen/llvm/artefact/dim_emitter.h"
#include "ir/plan.h"
#include "ir/scratch.h"

namespace tc {

// Begin and end of the part that a thread copies of so many bytes: threads copy equal parts in units of 4
// KiB, so that small copies are made by thread 0 alone.
std::pair<llvm::Value*, llvm::Value*> copied_part(Builder& builder, llvm::Value* bytes, llvm::Value* thread,
                                                  llvm::Value* threads);

// Where a plan's constants are: under a symbol, or at the address in a variable, which the runtime sets
// before the first run.
struct ConstantsBase {
  llvm::GlobalVariable* global = nullptr;
  bool is_variable = false;

  llvm::Value* address(Builder& builder) const;
};

class RunFrame {
 public:
  // `frame` is run()'s argument.
  RunFrame(Builder& builder, llvm::Value* frame);
  // For a run without a runtime, which returns a BareStatus: there is one thread, and no frame.
  explicit RunFrame(Builder& builder);
  // Emits code that ends run() where a pointer is null, or not aligned to the number given with it. Only for
  // runs without a runtime.
  void check_pointers(const std::vector<std::pair<llvm::Value*, int64_t>>& pointers) const;
  // Both have to be called before anything that uses threads, with the builder at the beginning of run().
  void load_threads();
  void compare_threads();

  llvm::Value* field(llvm::Type* type, size_t offset, const char* name) const;
  llvm::Value* thread() const { return thread_; }
  llvm::Value* threads() const { return threads_; }
  // Conditions: this is thread 0; there are several.
  llvm::Value* first() const { return first_; }
  llvm::Value* several() const { return several_; }
  // Emits `body` under the condition; without a branch where that is a known constant.
  void guarded(llvm::Value* condition, const std::function<void()>& body) const;
  // All threads wait for each other (a barrier).
  void wait_for_threads() const;

  // The address of a segment, null where there is no memory for it.
  llvm::Value* segment(int index) const;
  // Emits: if the condition holds, thread 0 runs `tell`, and then all threads return. The condition must be
  // the same for all of them. The function being emitted returns nothing or an int: BareStatus::WrongSize in
  // code without a runtime, and else 1.
  void leave_where(llvm::Value* condition, const std::function<void()>& tell) const;
  // Ends the run unless the size is between 0 and the bound.
  void check_bound(uint32_t step, llvm::Value* size, llvm::Value* bound) const;
  void grow(const PlanStep& item, uint32_t step, const DimEmitter& dims, int64_t memory_limit) const;
  void check_relation(const PlanStep& item, uint32_t step, const DimEmitter& dims) const;

 private:
  llvm::BasicBlock* block(const char* name) const;
  void leave_where(llvm::Value* condition, BareStatus status) const;
  // Calls a function of the frame with the frame and then these arguments.
  void call(size_t offset, const char* name, std::vector<llvm::Value*> arguments) const;

  Builder& builder_;
  llvm::Value* frame_;  // null: there is no runtime
  llvm::PointerType* pointer_;
  llvm::Value *thread_ = nullptr, *threads_ = nullptr, *first_ = nullptr, *several_ = nullptr,
              *barrier_ = nullptr;
};

}  // namespace tc
