// What the emitters of one kernel share: builder, buffers, loop variables, integer arithmetic.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/llvm/module_compiler.h"
#include "ir/ranges.h"
#include "ir/scheduled.h"

namespace tc {

using Builder = llvm::IRBuilder<>;

// The LLVM type that holds a value while computing: f16 and bf16 as i16, bool as i1.
llvm::Type* value_type(llvm::LLVMContext& context, DType dtype);
// The LLVM type in memory: as value_type, but bool is i8.
llvm::Type* memory_type(llvm::LLVMContext& context, DType dtype);
// The vector type of `lanes` elements; the scalar itself for one lane.
llvm::Type* widen(llvm::Type* scalar, int lanes);
// Lanes of a vector; of a scalar 1.
int lanes_of(llvm::Value* value);

// One buffer of the kernel inside the generated function.
struct BufferSlot {
  llvm::Value* pointer = nullptr;  // null for registers
  // Bytes from one index to the next, per dimension: a number, or a value where the shape is
  // symbolic (the number is then 0).
  std::vector<int64_t> stride;
  std::vector<llvm::Value*> symbolic_stride;
  std::vector<Affine> shape;
};

struct WidenedRows;      // codegen/llvm/emit/prewidened_rows.h
struct GatheredWindows;  // codegen/llvm/emit/gathered_windows.h
struct HeldSums;         // codegen/llvm/emit/held_sums.h

class KernelContext {
 public:
  KernelContext(ModuleCompiler& compiler, const ScheduledKernel& scheduled);

  ModuleCompiler& compiler;
  const ScheduledKernel& scheduled;
  const Kernel& kernel;
  const Target& target;
  Builder builder;
  llvm::Function* function = nullptr;
  std::vector<BufferSlot> buffers;
  std::map<std::string, llvm::Value*> variables;  // parameters and loop variables, as i64
  Ranges ranges;                                  // of the same names
  std::vector<Affine> facts;                      // in the same names, at least 0 where code is being emitted
  llvm::Value* backwards = nullptr;  // i1: loops with the mark "alternate" go down; null where there are none
  // Buffers whose subnormal bfloat16 values count as zero.
  const std::set<int> matrix_operands;

  llvm::ConstantInt* i64(int64_t value);
  llvm::BasicBlock* block(const std::string& name);

  // The value of an expression at the builder's insertion point. Throws an Internal error for an
  // unknown variable.
  llvm::Value* value_of(const Affine& affine);
  llvm::Value* value_of(const LoopExpr& expr);  // conditions as i1
  // The bytes of scratch memory that a Stack buffer takes for the sizes of a run: a multiple of 64.
  llvm::Value* rounded_bytes(const Buffer& buffer);
  // Adds and multiplies without wrapping; folds zeros and ones.
  llvm::Value* add(llvm::Value* a, llvm::Value* b);
  llvm::Value* multiply(llvm::Value* a, int64_t factor);

  // By leaf: the address of the words that a loop around it widened for its sum (mark "widen").
  std::map<const LoopNode*, llvm::Value*> widened;
  // By leaf: the rows of a map that a loop around it widened for its windows.
  std::map<const LoopNode*, std::shared_ptr<const WidenedRows>> widened_rows;
  // By leaf: the channel's map that a loop around it copied for its windows.
  std::map<const LoopNode*, std::shared_ptr<const GatheredWindows>> gathered_windows;

  // What the loop around this point keeps in registers (mark "hold"); null where there is none.
  HeldSums* held = nullptr;

  // A block of zero bytes of at least this size, that guarded loads read instead.
  llvm::Value* zero_block(int64_t bytes);

  // A counted loop in bottom-tested form over lower .. upper (both included) by `step`. `carried`
  // are the values that the body changes: the body gets the loop variable and the current values, and
  // returns the next ones. Afterwards the builder is positioned after the loop. Where `may_be_empty`, the
  // loop is entered only if lower <= upper. `header` is the block at whose end computations that depend on
  // the loop variable alone may be inserted.
  struct LoopResult {
    llvm::Value* next = nullptr;  // the first value of the variable that is not run
    std::vector<llvm::Value*> carried;
  };
  using LoopBody = std::function<std::vector<llvm::Value*>(llvm::Value* variable, llvm::BasicBlock* header,
                                                           const std::vector<llvm::Value*>& carried)>;
  struct LoopHead {
    std::string name;
    llvm::Value *lower, *upper;
    int64_t step;
    bool may_be_empty;
    std::optional<Interval> range = std::nullopt;  // of the variable in all trips, where that is known
  };
  LoopResult loop(const LoopHead& head, const std::vector<llvm::Value*>& carried, const LoopBody& body);

 private:
  void declare_function();
  void find_strides(const Buffer& buffer, BufferSlot& slot);
  llvm::GlobalVariable* zeros_ = nullptr;
  int64_t zeros_bytes_ = 0;
};

}  // namespace tc
