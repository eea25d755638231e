#include "codegen/llvm/pass_support/branchless_address.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <string>

namespace tc {

using llvm::Instruction;
using llvm::Value;

bool has_zicond(const Target& target) { return target.features.find("+zicond") != std::string::npos; }

MaskedAddress::MaskedAddress(llvm::Function& function)
    : function_(function), layout_(function.getParent()->getDataLayout()) {}

Value* MaskedAddress::mask(Value& condition, bool where) {
  Value*& result = masks_[{&condition, where}];
  if (result == nullptr) {
    llvm::IRBuilder<> builder(place_behind(condition));
    result = builder.CreateSExt(where ? &condition : builder.CreateNot(&condition), builder.getInt64Ty());
  }
  return result;
}

Value* MaskedAddress::masked(Value& element, Value& other, Value& mask, Instruction& place) {
  llvm::APInt offset(64, 0);
  Value* root = element.stripAndAccumulateConstantOffsets(layout_, offset, /*AllowNonInbounds=*/true);
  llvm::IRBuilder<> builder(&place);
  Value* distance = builder.CreateSub(distance_to(other, *root), builder.getInt(offset));
  return builder.CreatePtrAdd(builder.CreatePtrAdd(root, builder.CreateAnd(distance, &mask)),
                              builder.getInt(offset));
}

void MaskedAddress::forget(const Value& value) {
  std::erase_if(masks_, [&](const auto& each) { return each.first.first == &value; });
  std::erase_if(distances_,
                [&](const auto& each) { return each.first.first == &value || each.first.second == &value; });
}

Value* MaskedAddress::distance_to(Value& other, Value& root) {
  Value*& result = distances_[{&other, &root}];
  if (result == nullptr) {
    llvm::IRBuilder<> builder(place_behind(root));
    result = builder.CreateSub(builder.CreatePtrToInt(&other, builder.getInt64Ty()),
                               builder.CreatePtrToInt(&root, builder.getInt64Ty()));
  }
  return result;
}

// The first place where the value can be used: of an argument, after the stack allocations of the entry
// block.
Instruction* MaskedAddress::place_behind(Value& value) const {
  auto* made = llvm::dyn_cast<Instruction>(&value);
  if (made == nullptr) return &*function_.getEntryBlock().getFirstNonPHIOrDbgOrAlloca();
  return llvm::isa<llvm::PHINode>(made) ? &*made->getParent()->getFirstInsertionPt() : made->getNextNode();
}

}  // namespace tc
