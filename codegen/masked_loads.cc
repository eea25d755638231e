#include "codegen/masked_loads.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>

#include <numeric>
#include <vector>

namespace tc {
namespace {

// How many of the mask's lanes there are up to the last that may be true.
unsigned lanes_in_use(llvm::Value* mask) {
  using namespace llvm::PatternMatch;
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements();
  llvm::Constant* known = nullptr;
  if (!match(mask, m_Constant(known)) && !match(mask, m_c_And(m_Value(), m_Constant(known))) &&
      !match(mask, m_Select(m_Value(), m_Constant(known), m_Zero()))) {
    return lanes;
  }
  unsigned last = lanes;
  while (last > 0) {
    const llvm::Constant* lane = known->getAggregateElement(last - 1);
    if (lane == nullptr || !lane->isNullValue()) break;
    --last;
  }
  return last;
}

// The lanes from `first` on.
llvm::Value* part(llvm::IRBuilder<>& builder, llvm::Value* vector, unsigned first, unsigned count) {
  std::vector<int> lanes(count);
  std::iota(lanes.begin(), lanes.end(), static_cast<int>(first));
  return builder.CreateShuffleVector(vector, lanes);
}

void narrow(llvm::IntrinsicInst& load) {
  llvm::Value *mask = load.getArgOperand(2), *otherwise = load.getArgOperand(3);
  auto* type = llvm::cast<llvm::FixedVectorType>(load.getType());
  const unsigned all = type->getNumElements();
  unsigned lanes = all;
  while (lanes % 2 == 0 && lanes > 1 && lanes_in_use(mask) <= lanes / 2) lanes /= 2;
  if (lanes == all) return;
  llvm::IRBuilder<> builder(&load);
  const llvm::Align align(llvm::cast<llvm::ConstantInt>(load.getArgOperand(1))->getZExtValue());
  llvm::Value* read = builder.CreateMaskedLoad(llvm::FixedVectorType::get(type->getElementType(), lanes), load.getArgOperand(0), align,
                                               part(builder, mask, 0, lanes), part(builder, otherwise, 0, lanes));
  // As many lanes as there were; behind those that were read the others' values.
  std::vector<int> widened(all, llvm::PoisonMaskElem), places(all);
  std::iota(widened.begin(), widened.begin() + lanes, 0);
  for (unsigned lane = 0; lane < all; ++lane) places[lane] = static_cast<int>(lane < lanes ? lane : all + lane);
  llvm::Value* wide = builder.CreateShuffleVector(read, widened);
  load.replaceAllUsesWith(builder.CreateShuffleVector(wide, otherwise, places));
  load.eraseFromParent();
}

}  // namespace

void narrow_masked_loads(llvm::Function& function) {
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::masked_load) narrow(*call);
  }
}

}  // namespace tc
