#include "codegen/llvm/pass_support/register_pressure.h"

#include <llvm/IR/IntrinsicInst.h>

namespace tc {

using llvm::Value;

// The insertion of the scalar, which the splat's shuffle uses, counts as a splat, too.
bool is_splat(const Value& value) {
  if (const auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&value)) {
    return shuffle->isZeroEltSplat() && llvm::isa<llvm::InsertElementInst>(shuffle->getOperand(0));
  }
  return llvm::isa<llvm::InsertElementInst>(value) && value.hasOneUse() && is_splat(**value.user_begin());
}

bool is_upper_part(const Value& value) {
  const auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&value);
  int first = 0;
  return shuffle != nullptr && shuffle->isExtractSubvectorMask(first) && first > 0;
}

bool changes_kind(const Value& value) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&value);
  return call != nullptr && (call->getIntrinsicID() == llvm::Intrinsic::vector_insert ||
                             call->getIntrinsicID() == llvm::Intrinsic::vector_extract);
}

}  // namespace tc
