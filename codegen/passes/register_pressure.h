// Registers that values of a function take, as far as LLVM's IR tells.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <vector>

#include "ir/target/target.h"

namespace tc {

// Cycles until what the second cache holds is there; a load of an element waits for the first cache or for
// that one.
constexpr double kCyclesAhead = 14;
// Products of a block from which on it is a sum.
constexpr size_t kFewProducts = 8;
// Scalar floating-point registers that hold elements which are loaded early.
constexpr int kScalarsAhead = 22;

// A splat is an operand of vector instructions, no vector of its own.
bool is_splat(const llvm::Value& value);
// A product of short numbers whose one operand is the same for all lanes: a scalar register.
bool multiplies_scalar(const llvm::Value& value);
// A multiply-add of floats whose one factor is the same for all lanes: a step of a sum.
bool multiplies_broadcast(const llvm::Instruction& instruction);
// The upper part of a vector: an instruction moves it down in registers for all of the vector.
bool is_upper_part(const llvm::Value& value);
// Takes no instruction: the lanes of a vector of one kind as one of the other.
bool changes_kind(const llvm::Value& value);
// Whether the instruction only brings a line near: a prefetch, or a load into no register.
bool is_prefetch_load(const llvm::Instruction& instruction);
// Whether the two may not change places: one writes what the other may access. Buffers of kernels do not
// overlap.
bool conflict(const llvm::Instruction& a, const llvm::Instruction& b);

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

  // Of a value in vector registers; 0 of others.
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

  // Vector registers that live values take, with scalar floats where these are in vector registers, before
  // each of the block's instructions, and at its end.
  std::vector<int> before_each(const llvm::BasicBlock& block,
                               const std::vector<llvm::Instruction*>& order) const {
    return walk(block, order, [&](const llvm::Value& value) {
      const bool shares = target_.floats_in_vectors && value.getType()->isFloatingPointTy();
      return shares ? 1 : registers(value);
    });
  }
  // Vectors that live at the block's end.
  std::vector<const llvm::Value*> live_at_end(const llvm::BasicBlock& block) const {
    const Set& live = live_out_.find(&block)->second;
    std::vector<const llvm::Value*> result;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (live[i] && registers(*values_[i]) > 0) result.push_back(values_[i]);
    }
    return result;
  }
  // The same of scalars.
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

  // A splat lives as the scalar that it spreads.
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
      : block_(block), pressure_(pressure), target_(target) {
    for (llvm::Instruction& each : block) {
      if (llvm::isa<llvm::PHINode>(each) || each.isTerminator()) continue;
      place_[&each] = order_.size();
      order_.push_back(&each);
    }
  }

  // Whether the vectors that live at each place leave so many registers free.
  bool leaves_free(int registers) const {
    const std::vector<int> vectors = pressure_.before_each(block_, order_);
    return *std::max_element(vectors.begin(), vectors.end()) <= target_.vector_registers - registers;
  }
  // A tile of sums with broadcasts is even: groups of one size that live throughout fill the registers.
  bool broadcasts() const {
    return std::any_of(order_.begin(), order_.end(), [](const llvm::Instruction* each) {
      return is_splat(*each) || multiplies_scalar(*each);
    });
  }

 protected:
  // What has to come before each instruction, by places in the block: what makes its operands, and the
  // earlier ones that it may not pass.
  template <class MayPass>
  std::vector<std::vector<size_t>> needs(const MayPass& may_pass) const {
    std::vector<std::vector<size_t>> result(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      for (const llvm::Use& use : order_[i]->operands()) {
        if (const auto found = place_.find(llvm::dyn_cast<llvm::Instruction>(use.get()));
            found != place_.end())
          result[i].push_back(found->second);
      }
      if (!order_[i]->mayReadOrWriteMemory()) continue;
      for (size_t j = 0; j < i; ++j) {
        if (!may_pass(*order_[i], *order_[j])) result[i].push_back(j);
      }
    }
    return result;
  }

  // Cycles of the unit for vector arithmetic, on a core that takes a register at a time.
  double cycles(const llvm::Instruction& instruction) const {
    if (llvm::isa<llvm::LoadInst, llvm::StoreInst>(instruction) || is_splat(instruction) ||
        changes_kind(instruction))
      return 0;
    return pressure_.registers(instruction);
  }

  void measure() {
    time_.resize(order_.size() + 1);
    for (size_t i = 0; i < order_.size(); ++i) time_[i + 1] = time_[i] + cycles(*order_[i]);
  }

  // The first instruction of the block that needs the value as such; the block's end where there is none.
  size_t first_use(const llvm::Value& value) const {
    size_t result = order_.size();
    for (const llvm::User* user : value.users()) {
      const auto found = place_.find(llvm::dyn_cast<llvm::Instruction>(user));
      if (found == place_.end()) continue;
      result = std::min(result, is_splat(*user) ? first_use(*user) : found->second);
    }
    return result;
  }

  bool block_is_one_register() const { return target_.block * 32 <= target_.vector_bits; }
  // Registers that stay free where weights are loaded ahead of a sum's products. In groups the weights of two
  // steps alternate and need none; single registers hold those of several steps, and LLVM's allocator needs
  // two more to place them.
  int free_beside_sums() const { return block_is_one_register() ? 2 : 0; }

  llvm::BasicBlock& block_;
  const Pressure& pressure_;
  const Target& target_;
  std::vector<llvm::Instruction*> order_;
  llvm::DenseMap<const llvm::Instruction*, size_t> place_;  // in the block as it was
  std::vector<double> time_;                                // cycles of vector arithmetic before each
};

}  // namespace tc
