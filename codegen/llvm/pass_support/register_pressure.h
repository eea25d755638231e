// Estimates the registers that the values of a function take, from LLVM IR.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>

#include <vector>

#include "ir/target/target.h"

namespace tc {

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

}  // namespace tc
