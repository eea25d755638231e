// Emits the steps of a plan as the code of run(); many steps become functions that run() calls.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "codegen/llvm/artefact/dim_emitter.h"
#include "codegen/llvm/module_compiler.h"
#include "codegen/llvm/artefact/plan_emitter.h"
#include "codegen/llvm/artefact/run_frame.h"
#include "codegen/llvm/artefact/step_table.h"
#include "ir/plan.h"

namespace tc {

// A function of the compiler's module that nothing outside of it sees.
llvm::Function* internal_function(ModuleCompiler& compiler, const std::string& name, llvm::Type* result,
                                  const std::vector<llvm::Type*>& arguments);

// Loads the plan's symbols from the table of their values; of those in `wanted` alone where that is given.
void load_symbols(Builder& builder, const Plan& plan, llvm::Value* table, DimEmitter& dims,
                  const std::set<std::string>* wanted = nullptr);

// The inputs, outputs and symbols of a run that a function needs.
struct FunctionInputs {
  std::set<int> inputs, outputs;
  std::set<std::string> symbols;

  void add(const Dim& dim) { dim.collect_symbols(symbols); }
  void add(const Location& location);
};

class StepEmitter {
 public:
  // `copy` is void copy(to, from, begin, end).
  StepEmitter(ModuleCompiler& compiler, const Plan& plan, const PlanNames& names,
              const ConstantsBase& constants, llvm::Function* copy);

  // Writes void run(const tc_frame* frame).
  void emit_run(llvm::Function* run);
  // Writes int PREFIX_run(const void* inputs..., void* outputs..., void* arena).
  void emit_bare_run(llvm::Function* run);

 private:
  // Values that are available in the function being emitted.
  struct FunctionState {
    llvm::Function* function = nullptr;
    std::unique_ptr<RunFrame> frame;
    std::vector<llvm::Value*> inputs, outputs;  // null: not needed
    llvm::Value *arena = nullptr, *scratch = nullptr, *step_done = nullptr, *profiled = nullptr,
                *parameters = nullptr;
    // The values of symbols that steps define, by slot; null where run() is one function.
    llvm::Value* sizes = nullptr;
    llvm::Value* iteration = nullptr;  // of the innermost loop of the plan
  };

  llvm::BasicBlock* block(const std::string& name);
  llvm::ConstantInt* i64(int64_t value);
  // Loads what is needed from the frame, the function's first argument; everything where `needed` is null.
  void enter(llvm::Function* function, DimEmitter& dims, const FunctionInputs* needed);
  void make_room_for_parameters();
  FunctionInputs needed_by_outputs() const;
  void store_output_dims(DimEmitter& dims);

  // One step, or consecutive steps that are rows of the table.
  struct Piece {
    const PlanStep *begin, *end;
    int64_t work;  // what LLVM has to compile, in steps
    bool in_table;
  };

  void steps(const PlanSteps& list, DimEmitter& dims);
  std::vector<Piece> pieces(const PlanSteps& list) const;
  int64_t work(const PlanStep& step) const;
  static int64_t work(const std::vector<Piece>& list);
  static bool is_divided(const std::vector<Piece>& list);
  void emit(const Piece* begin, const Piece* end, DimEmitter& dims);
  void emit(const PlanStep* begin, const PlanStep* end, DimEmitter& dims);
  // Emits the pieces as functions of their own, which the current one calls.
  void divide(const std::vector<Piece>& list);
  void emit_part(llvm::Function* part, const Piece* begin, const Piece* end);
  void add_needed(const PlanStep& step, FunctionInputs& needed) const;
  void load_slots(const std::set<std::string>& symbols, DimEmitter& dims);
  void define(const std::string& symbol, llvm::Value* value, DimEmitter& dims);

  void step(const PlanStep& item, DimEmitter& dims);
  void bind(const PlanStep& item, uint32_t number, DimEmitter& dims);
  void call(const PlanStep& item, DimEmitter& dims);
  void copy(const PlanStep& item, DimEmitter& dims);
  void repeat(const PlanStep& item, DimEmitter& dims);
  void branch(const PlanStep& item, DimEmitter& dims);
  llvm::Value* address(const Location& location, DimEmitter& dims);
  llvm::Function* checked_callee(const PlanStep& item);
  llvm::Function* kernel_function(const PlanStep& item);

  ModuleCompiler& compiler_;
  const Plan& plan_;
  const PlanNames& names_;
  Builder builder_;
  llvm::PointerType* pointer_;
  llvm::Type *i32_, *i64_;
  const ConstantsBase constants_;
  llvm::Function* copy_;
  const std::vector<int64_t> offsets_;
  const int64_t scratch_bytes_;  // of thread 0
  StepTable table_;
  FunctionState function_;
  uint32_t next_step_ = 0;
  std::map<std::string, uint64_t> slots_;  // of symbols in scope
  uint64_t next_slot_ = 0;
  std::string loop_;  // the innermost loop's symbol
};

}  // namespace tc
