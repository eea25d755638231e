// What each instruction of a block has to come after: the graph from which the passes that change the order
// of instructions work.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/Instructions.h>

#include <cstddef>
#include <vector>

namespace tc {

// Whether the two may not change places: one writes what the other may access. Buffers of kernels do not
// overlap. To LLVM a volatile load writes; an instruction that only prefetches does not.
bool conflict(const llvm::Instruction& a, const llvm::Instruction& b);

// If an instruction of place's block computes the value and comes after `place`, moves it to just before
// `place`, with those of its operands that come after `place` too. Phi nodes stay.
void raise(llvm::Value& value, llvm::Instruction& place);

// The instructions of a block between its phi nodes and its end, numbered by their places in the block as it
// was when the graph was made.
class Dependences {
 public:
  explicit Dependences(llvm::BasicBlock& block);

  const std::vector<llvm::Instruction*>& instructions() const { return instructions_; }
  size_t size() const { return instructions_.size(); }
  // The place of the instruction that made the value; size() where it is none of these.
  size_t place(const llvm::Value* value) const {
    const auto found = places_.find(llvm::dyn_cast<llvm::Instruction>(value));
    return found == places_.end() ? size() : found->second;
  }
  bool contains(const llvm::Value* value) const { return place(value) < size(); }

  // Places of the operands, in their order.
  const std::vector<size_t>& operands(size_t place) const { return operands_[place]; }
  // Places of the memory accesses, earlier and later ones, with which the one at this place may not change
  // places.
  const std::vector<size_t>& conflicts(size_t place) const;

  // What has to come before each instruction: its operands, and earlier accesses that it conflicts with,
  // unless `may_pass(later, earlier)` holds.
  template <class MayPass>
  std::vector<std::vector<size_t>> needs(const MayPass& may_pass) const {
    std::vector<std::vector<size_t>> result = operands_;
    for (size_t i = 0; i < size(); ++i) {
      for (const size_t j : conflicts(i)) {
        if (j < i && !may_pass(*instructions_[i], *instructions_[j])) result[i].push_back(j);
      }
    }
    return result;
  }

  // The earliest place to which the memory access can move without passing one that it conflicts with. It
  // may pass prefetches.
  size_t free_from(size_t place) const;
  // The place right after the last operand. The computation of an address does not count, since it moves
  // together with its access; its operands do.
  size_t after_operands(size_t place) const;

 private:
  void find_conflicts() const;

  std::vector<llvm::Instruction*> instructions_;
  llvm::DenseMap<const llvm::Instruction*, size_t> places_;
  std::vector<std::vector<size_t>> operands_;
  mutable std::vector<std::vector<size_t>> conflicts_;  // found when they are first asked for
};

}  // namespace tc
