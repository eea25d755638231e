// Steps of a plan as rows of a table, over which one function of the module loops at run time: however many
// steps there are, LLVM compiles one function.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "codegen/llvm/artefact/run_frame.h"
#include "codegen/llvm/module_compiler.h"
#include "ir/plan.h"

namespace tc {

// The table holds calls of kernels, copies and branches whose offsets and sizes are numbers. Other steps
// depend on symbols or ask the runtime for something.
//
// A row consists of words of 64 bits. A location takes two: the index of its base address in the function's
// tables, and its offset.
//   call   kind and function, number, scratch memory, arguments
//   copy   kind, number, to, from, bytes
//   if     kind, number, condition, words of the body, which are skipped where it is false
//   else   kind, number, words of the other branch, which are skipped here
//   end    kind, number
class StepTable {
 public:
  // `constants` is where the plan's constants are, `copy` is void copy(to, from, begin, end), `callee`
  // gives a call's kernel.
  StepTable(ModuleCompiler& compiler, const Plan& plan, const ConstantsBase& constants, llvm::Function* copy,
            const std::vector<int64_t>& constant_offsets,
            std::function<llvm::Function*(const PlanStep&)> callee);

  // Whether the step can be rows.
  bool holds(const PlanStep& step) const;
  // Makes rows of the steps, numbered from `number` on, and emits a call of the function that executes them.
  // Returns the number after the last one.
  uint32_t execute(Builder& builder, llvm::Value* frame, const PlanStep* begin, const PlanStep* end,
                   uint32_t number);
  // Emits that function, if it is called.
  void finish();

 private:
  struct Cursor {
    llvm::Value* row;
    llvm::Value* word(Builder& builder, uint64_t index) const;
  };
  using Finish = std::function<void(llvm::Value* next)>;

  static bool holds(const Location& location);
  void add_step(const PlanStep& step, uint32_t& number);
  void add_location(const Location& location);
  void add(uint64_t word) { rows_.push_back(word); }
  uint64_t function_index(llvm::Function* callee);

  // Parts of the function that executes rows, one for each kind. Each calls `finish` with the address of the
  // next row.
  void emit_call(const Cursor& cursor, size_t arguments, const Finish& finish);
  void emit_copy(const Cursor& cursor, const Finish& finish);
  void emit_if(const Cursor& cursor, const Finish& finish);
  llvm::Value* address(const Cursor& cursor, uint64_t index);
  llvm::Value* after(const Cursor& cursor, llvm::Value* words);
  llvm::Value* flag(const Cursor& cursor);
  // Emits the body under the condition that the row is for all threads, or that this is the first thread.
  void guarded_by_flag(llvm::Value* single, const std::function<void()>& body);
  llvm::BasicBlock* block(const char* name);

  ModuleCompiler& compiler_;
  const Plan& plan_;
  const ConstantsBase constants_;
  llvm::Function* copy_;
  const std::vector<int64_t>& constant_offsets_;
  const std::function<llvm::Function*(const PlanStep&)> callee_;
  Builder builder_;
  llvm::PointerType* pointer_;
  llvm::Type *i32_, *i64_;
  std::vector<uint64_t> rows_;  // of the steps that are being added
  std::vector<llvm::Constant*> functions_;
  std::map<llvm::Function*, uint64_t> indices_;
  std::map<size_t, llvm::FunctionType*> types_;  // of calls, by their number of arguments
  llvm::Function* walk_ = nullptr;
  // Of the function, while it is written.
  std::unique_ptr<RunFrame> frame_;
  llvm::Value *tables_ = nullptr, *table_of_functions_ = nullptr, *scratch_ = nullptr;
};

}  // namespace tc
