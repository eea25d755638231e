// Addresses that are one of two by arithmetic, for cores without conditional moves, on which LLVM would make
// a branch of the choice.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/Instruction.h>

#include <map>
#include <utility>

#include "ir/target/target.h"

namespace tc {

// Whether the target has an instruction that chooses between two values by a condition.
bool moves_conditionally(const Target& target);

// Makes such addresses in one function. Masks and distances are computed once for all uses.
class AddressChooser {
 public:
  explicit AddressChooser(llvm::Function& function);

  // A mask of all ones where the condition equals `where`, else of zeros.
  llvm::Value* mask(llvm::Value& condition, bool where);

  // root + ((other - root - offset) & mask) + offset, computed before `place`: the address `element`, which
  // is root + offset, or `other` where the mask has ones. It stays derived from the buffer's pointer, so that
  // `conflict` (dependences.h) still tells buffers apart.
  llvm::Value* chosen(llvm::Value& element, llvm::Value& other, llvm::Value& mask, llvm::Instruction& place);

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
