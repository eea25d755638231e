// Addresses that are one of two, chosen by a mask: where code has to choose between two addresses, LLVM would
// make a branch of the choice on RISC-V cores without Zicond.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instruction.h>

#include <map>
#include <utility>

#include "ir/target/target.h"

namespace tc {

// Whether RISC-V code of the target may use Zicond, whose instructions choose between two values without a
// branch.
bool has_zicond(const Target& target);

// Makes such addresses in one function. Masks and distances are computed once for all uses.
class MaskedAddress {
 public:
  explicit MaskedAddress(llvm::Function& function);

  // A mask of all ones where the condition equals `where`, else of zeros.
  llvm::Value* mask(llvm::Value& condition, bool where);

  // `element` where the mask is zero, `other` where it is ones, computed before `place`. With `element` as
  // root + offset this is root + ((other - root - offset) & mask) + offset, so that LLVM still derives it
  // from the buffer's pointer and `conflict` (dependences.h) tells buffers apart.
  llvm::Value* masked(llvm::Value& element, llvm::Value& other, llvm::Value& mask, llvm::Instruction& place);

  // To be called before the value is erased.
  void forget(const llvm::Value& value);

 private:
  llvm::Value* distance_to(llvm::Value& other, llvm::Value& root);
  llvm::Instruction* place_behind(llvm::Value& value) const;

  llvm::Function& function_;
  const llvm::DataLayout& layout_;
  std::map<std::pair<const llvm::Value*, bool>, llvm::Value*> masks_;
  std::map<std::pair<const llvm::Value*, const llvm::Value*>, llvm::Value*> distances_;
};

}  // namespace tc
