// Estimates the registers that the values of a function take, from LLVM IR.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <vector>

#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/pass_support/dependences.h"
#include "codegen/llvm/pass_support/list_scheduler.h"
#include "ir/target/target.h"

namespace tc {

// The number of products from which a block counts as a sum.
constexpr size_t kFewProducts = 8;
// Scalar floating-point registers for elements that are loaded early.
constexpr int kScalarsAhead = 22;

// Whether the value is the splat of a scalar: vector instructions take the scalar as an operand, so that the
// splat takes no vector register.
bool is_splat(const llvm::Value& value);
// Whether the value is the upper part of a vector: the instruction that moves it down takes registers for
// the whole vector.
bool is_upper_part(const llvm::Value& value);
// Whether the value only converts between a scalable vector and one of fixed length, which takes no
// instruction.
bool changes_kind(const llvm::Value& value);

// Registers that values take, at each place of each block.
class Pressure {
 public:
  Pressure(llvm::Function& function, const Target& target) : target_(target) {
    for (llvm::BasicBlock& block : function) {
      for (llvm::Instruction& each : block) count(each);
    }
    for (llvm::Argument& each : function.args()) count(each);
    find_live_ends(function);
  }

  // The vector registers that the value takes; 0 where it is no vector.
  int registers(const llvm::Value& value) const {
    const auto* type = llvm::dyn_cast<llvm::VectorType>(value.getType());
    if (type == nullptr || is_splat(value)) return 0;
    if (is_upper_part(value)) return registers(*llvm::cast<llvm::User>(value).getOperand(0));
    // LLVM counts scalable vectors in parts of 64 bits.
    const llvm::TypeSize size = type->getPrimitiveSizeInBits();
    const double bits =
        static_cast<double>(size.getKnownMinValue()) * (size.isScalable() ? target_.vector_bits / 64 : 1);
    int result = 1;
    while (result * target_.vector_bits < bits) result *= 2;
    return result;
  }

  // Vector registers that live values take before each of the block's instructions, in this order, and at
  // its end. Scalar floats count where the target keeps them in vector registers.
  std::vector<int> before_each(const llvm::BasicBlock& block,
                               const std::vector<llvm::Instruction*>& order) const {
    return walk(block, order, [&](const llvm::Value& value) {
      const bool shares = target_.floats_in_vectors && value.getType()->isFloatingPointTy();
      return shares ? 1 : registers(value);
    });
  }
  // Vectors that are live at the block's end.
  std::vector<const llvm::Value*> live_at_end(const llvm::BasicBlock& block) const {
    const Set& live = live_out_.find(&block)->second;
    std::vector<const llvm::Value*> result;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (live[i] && registers(*values_[i]) > 0) result.push_back(values_[i]);
    }
    return result;
  }
  // As before_each(), for scalar floats.
  std::vector<int> scalars_before_each(const llvm::BasicBlock& block,
                                       const std::vector<llvm::Instruction*>& order) const {
    return walk(block, order,
                [](const llvm::Value& value) { return value.getType()->isFloatingPointTy() ? 1 : 0; });
  }

 private:
  using Set = std::vector<bool>;

  void count(llvm::Value& value) {
    if (registers(value) == 0 && !value.getType()->isFloatingPointTy()) return;
    number_.insert({&value, values_.size()});
    values_.push_back(&value);
  }

  int64_t number(const llvm::Value* value) const {
    const auto found = number_.find(value);
    return found == number_.end() ? -1 : static_cast<int64_t>(found->second);
  }

  // Visits the operands that take registers. A splat takes none: the scalar that it broadcasts does.
  template <class Visit>
  void for_each_operand(const llvm::Instruction& instruction, const Visit& visit) const {
    for (const llvm::Use& use : instruction.operands()) {
      if (const int64_t at = number(use.get()); at >= 0) visit(static_cast<size_t>(at));
    }
  }

  void find_live_ends(llvm::Function& function) {
    for (llvm::BasicBlock& block : function) live_in_[&block] = live_out_[&block] = Set(values_.size());
    for (bool changed = true; changed;) {
      changed = false;
      for (llvm::BasicBlock& block : llvm::reverse(function)) {
        Set& out = live_out_[&block];
        for (llvm::BasicBlock* next : llvm::successors(&block)) {
          const Set& in = live_in_[next];
          for (size_t i = 0; i < values_.size(); ++i) out[i] = out[i] || in[i];
          for (const llvm::PHINode& phi : next->phis()) {
            if (const int64_t at = number(phi.getIncomingValueForBlock(&block)); at >= 0)
              out[static_cast<size_t>(at)] = true;
          }
        }
        Set live = out;
        for (const llvm::Instruction& each : llvm::reverse(block)) {
          if (const int64_t at = number(&each); at >= 0) live[static_cast<size_t>(at)] = false;
          if (llvm::isa<llvm::PHINode>(each)) continue;
          for_each_operand(each, [&](size_t at) { live[at] = true; });
        }
        if (live != live_in_[&block]) {
          live_in_[&block] = std::move(live);
          changed = true;
        }
      }
    }
  }

  template <class Size>
  std::vector<int> walk(const llvm::BasicBlock& block, const std::vector<llvm::Instruction*>& order,
                        const Size& size) const {
    Set live = live_out_.find(&block)->second;
    int now = 0;
    for (size_t i = 0; i < values_.size(); ++i) now += live[i] ? size(*values_[i]) : 0;
    std::vector<int> result(order.size() + 1, now);
    for (size_t i = order.size(); i-- > 0;) {
      const auto change = [&](size_t at, bool lives) {
        if (live[at] == lives) return;
        live[at] = lives;
        now += (lives ? 1 : -1) * size(*values_[at]);
      };
      if (const int64_t at = number(order[i]); at >= 0) change(static_cast<size_t>(at), false);
      for_each_operand(*order[i], [&](size_t at) { change(at, true); });
      result[i] = now;
    }
    return result;
  }

  const Target& target_;
  llvm::DenseMap<const llvm::Value*, size_t> number_;
  std::vector<const llvm::Value*> values_;
  llvm::DenseMap<const llvm::BasicBlock*, Set> live_in_, live_out_;
};

// A block's instructions between its phi nodes and its end.
class StraightLine {
 public:
  StraightLine(llvm::BasicBlock& block, const Pressure& pressure, const Target& target)
      : block_(block),
        pressure_(pressure),
        target_(target),
        times_(target),
        graph_(block),
        order_(graph_.instructions()) {}

  // Whether the vectors that are live leave so many registers free at each place.
  bool leaves_free(int registers) const {
    const std::vector<int> vectors = pressure_.before_each(block_, order_);
    return *std::max_element(vectors.begin(), vectors.end()) <= target_.vector_registers - registers;
  }
  // Whether the block multiplies by broadcast scalars. Such a tile of sums fills the registers evenly: its
  // groups have one size and live throughout. Sums whose steps take several instructions have no role, and
  // LLVM may have moved a splat out of a loop.
  bool broadcasts() const {
    return std::any_of(order_.begin(), order_.end(), [](const llvm::Instruction* each) {
      return is_splat(*each) || role_of(*each) == Role::BroadcastProduct;
    });
  }

 protected:
  // Cycles that the instruction takes in the vector arithmetic unit, on a core that processes one register
  // per cycle.
  double cycles(const llvm::Instruction& instruction) const {
    if (llvm::isa<llvm::LoadInst, llvm::StoreInst>(instruction) || is_splat(instruction) ||
        changes_kind(instruction))
      return 0;
    if (role_of(instruction) == Role::MatrixProduct) return std::min(1.0, target_.multiply_adds);
    return pressure_.registers(instruction);
  }

  void measure() {
    time_.resize(order_.size() + 1);
    for (size_t i = 0; i < order_.size(); ++i) time_[i + 1] = time_[i] + cycles(*order_[i]);
  }

  // The place of the block's first instruction that uses the value itself or its splat; the block's end
  // where there is none.
  size_t first_use(const llvm::Value& value) const {
    size_t result = order_.size();
    for (const llvm::User* user : value.users()) {
      if (const size_t place = graph_.place(user); place < graph_.size())
        result = std::min(result, is_splat(*user) ? first_use(*user) : place);
    }
    return result;
  }

  // Whether the block multiplies small matrices: pairs of registers have sums throughout, and what remains
  // has operands of one register each, so that no gaps arise.
  bool multiplies_matrices() const {
    return std::any_of(order_.begin(), order_.end(),
                       [](const llvm::Instruction* each) { return role_of(*each) == Role::MatrixProduct; });
  }
  bool block_is_one_register() const { return target_.block * 32 <= target_.vector_bits; }
  // Registers that stay free where weights are loaded ahead of a sum's products. Where weights take groups
  // of registers, those of two steps alternate and none stays free; where they take single registers, those
  // of several steps are live, and LLVM's allocator needs two more to place them.
  int free_beside_sums() const { return block_is_one_register() ? 2 : 0; }

  llvm::BasicBlock& block_;
  const Pressure& pressure_;
  const Target& target_;
  CoreTimes times_;
  Dependences graph_;  // of the block as it was
  std::vector<llvm::Instruction*> order_;
  std::vector<double> time_;  // cycles of vector arithmetic before each
};

}  // namespace tc
