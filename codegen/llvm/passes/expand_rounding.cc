// Rounding by a sum: a float of 2^23 or more is a whole number, so that adding 2^23 to a smaller one rounds
// it, to even, and subtracting it again is exact.
#include "codegen/llvm/passes/expand_rounding.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include <vector>

namespace tc {
namespace {

using llvm::Value;
using llvm::Intrinsic::ID;

bool is_rounding(ID id) {
  switch (id) {
    case llvm::Intrinsic::roundeven:
    case llvm::Intrinsic::rint:
    case llvm::Intrinsic::nearbyint:
    case llvm::Intrinsic::floor:
    case llvm::Intrinsic::ceil:
    case llvm::Intrinsic::trunc: return true;
    default: return false;
  }
}

// The magnitude, rounded to even. A number that is already whole, an infinity or a NaN stays as it is.
Value* to_even(llvm::IRBuilder<>& builder, Value* magnitude) {
  Value* whole = llvm::ConstantFP::get(magnitude->getType(), 0x1p23);
  Value* rounded = builder.CreateFSub(builder.CreateFAdd(magnitude, whole), whole);
  return builder.CreateSelect(builder.CreateFCmpOLT(magnitude, whole), rounded, magnitude);
}

Value* rounded_by_sums(llvm::IRBuilder<>& builder, ID id, Value* number) {
  Value* one = llvm::ConstantFP::get(number->getType(), 1);
  Value* magnitude = builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, number);
  Value* even = to_even(builder, magnitude);
  const auto signed_like = [&](Value* result) {
    return builder.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, result, number);
  };
  if (id == llvm::Intrinsic::trunc)
    return signed_like(
        builder.CreateSelect(builder.CreateFCmpOGT(even, magnitude), builder.CreateFSub(even, one), even));
  Value* nearest = signed_like(even);
  if (id == llvm::Intrinsic::floor)
    return builder.CreateSelect(builder.CreateFCmpOGT(nearest, number), builder.CreateFSub(nearest, one),
                                nearest);
  // The sign matters where a number above -1 becomes zero.
  if (id == llvm::Intrinsic::ceil)
    return signed_like(builder.CreateSelect(builder.CreateFCmpOLT(nearest, number),
                                            builder.CreateFAdd(nearest, one), nearest));
  return nearest;
}

}  // namespace

void expand_rounding(llvm::Function& function, const Target& target) {
  std::vector<llvm::IntrinsicInst*> roundings;
  for (llvm::Instruction& each : llvm::instructions(function)) {
    auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&each);
    if (call != nullptr && is_rounding(call->getIntrinsicID()) &&
        call->getType()->getScalarType()->isFloatTy())
      roundings.push_back(call);
  }
  for (llvm::IntrinsicInst* call : roundings) {
    llvm::IRBuilder<> builder(call);
    const ID id = call->getIntrinsicID();
    Value* number = call->getArgOperand(0);
    if (!target.rounding_instructions) {
      call->replaceAllUsesWith(rounded_by_sums(builder, id, number));
    } else if (id == llvm::Intrinsic::roundeven) {
      call->replaceAllUsesWith(builder.CreateUnaryIntrinsic(llvm::Intrinsic::nearbyint, number));
    } else {
      continue;
    }
    call->eraseFromParent();
  }
}

}  // namespace tc
