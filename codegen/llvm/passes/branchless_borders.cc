#include "codegen/llvm/passes/branchless_borders.h"

#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

#include <utility>
#include <vector>

#include "codegen/llvm/pass_support/branchless_address.h"

namespace tc {

using llvm::Instruction;
using llvm::Value;

void branchless_borders(llvm::Function& function, const Target& target) {
  if (has_zicond(target)) return;
  MaskedAddress masker(function);
  std::vector<llvm::SelectInst*> choices;
  for (Instruction& each : llvm::instructions(function)) {
    // By its operands: LLVM may have made the selection anew, without a role.
    auto* choice = llvm::dyn_cast<llvm::SelectInst>(&each);
    if (choice == nullptr || !choice->getType()->isPointerTy() ||
        !choice->getCondition()->getType()->isIntegerTy(1))
      continue;
    const bool zeros_if_true = llvm::isa<llvm::GlobalVariable>(choice->getTrueValue());
    if (zeros_if_true != llvm::isa<llvm::GlobalVariable>(choice->getFalseValue())) choices.push_back(choice);
  }
  for (llvm::SelectInst* each : choices) {
    // LLVM may negate the condition and swap the sides.
    const bool zeros_if_true = llvm::isa<llvm::GlobalVariable>(each->getTrueValue());
    Value *element = each->getTrueValue(), *zeros = each->getFalseValue();
    if (zeros_if_true) std::swap(element, zeros);
    each->replaceAllUsesWith(
        masker.masked(*element, *zeros, *masker.mask(*each->getCondition(), zeros_if_true), *each));
  }
  // Erased only now: a select may be a key of the masker's distances, and a new instruction at its address
  // would be mistaken for it.
  for (llvm::SelectInst* each : choices) each->eraseFromParent();
}

}  // namespace tc
