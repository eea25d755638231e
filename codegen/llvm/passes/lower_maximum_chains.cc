#include "codegen/llvm/passes/lower_maximum_chains.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <vector>

namespace tc {
namespace {

using llvm::IntrinsicInst;
using llvm::Value;

// The length of a chain from which the sum of squares takes fewer instructions: its test and selection come
// once per chain.
constexpr size_t kLongChain = 3;

IntrinsicInst* maximum_of(Value* value) {
  auto* call = llvm::dyn_cast<IntrinsicInst>(value);
  return call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::maximum ? call : nullptr;
}

// The maximum that this one continues: its second operand, if nothing else uses that.
IntrinsicInst* link_before(IntrinsicInst& maximum) {
  IntrinsicInst* before = maximum_of(maximum.getArgOperand(1));
  return before != nullptr && before->hasOneUse() && before->getParent() == maximum.getParent() ? before
                                                                                                : nullptr;
}

bool goes_on(IntrinsicInst& maximum) {
  if (!maximum.hasOneUse()) return false;
  IntrinsicInst* next = maximum_of(*maximum.user_begin());
  return next != nullptr && link_before(*next) == &maximum;
}

Value* select_larger(IntrinsicInst& maximum) {
  llvm::IRBuilder<> builder(&maximum);
  Value *a = maximum.getArgOperand(0), *b = maximum.getArgOperand(1);
  Value* best = builder.CreateSelect(builder.CreateFCmpOGT(a, b), a, b);
  return builder.CreateSelect(builder.CreateFCmpUNO(a, a), a, best);
}

// The value that replaces a chain, given from its first link on.
Value* carry_squares(const std::vector<IntrinsicInst*>& chain) {
  Value* largest = chain.front()->getArgOperand(1);
  Value* squares = nullptr;
  for (IntrinsicInst* link : chain) {
    llvm::IRBuilder<> builder(link);
    if (squares == nullptr) squares = builder.CreateFMul(largest, largest);
    Value* each = link->getArgOperand(0);
    largest = builder.CreateBinaryIntrinsic(llvm::Intrinsic::maxnum, each, largest);
    squares = builder.CreateIntrinsic(llvm::Intrinsic::fma, {each->getType()}, {each, each, squares});
  }
  llvm::IRBuilder<> builder(chain.back());
  return builder.CreateSelect(builder.CreateFCmpUNO(squares, squares), squares, largest);
}

}  // namespace

void lower_maximum_chains(llvm::Function& function) {
  std::vector<IntrinsicInst*> ends;
  for (llvm::Instruction& each : llvm::instructions(function)) {
    IntrinsicInst* maximum = maximum_of(&each);
    if (maximum != nullptr && !goes_on(*maximum)) ends.push_back(maximum);
  }
  for (IntrinsicInst* end : ends) {
    std::vector<IntrinsicInst*> chain;
    for (IntrinsicInst* link = end; link != nullptr; link = link_before(*link)) chain.push_back(link);
    std::reverse(chain.begin(), chain.end());
    if (chain.size() >= kLongChain) {
      end->replaceAllUsesWith(carry_squares(chain));
    } else {
      for (IntrinsicInst* link : chain) link->replaceAllUsesWith(select_larger(*link));
    }
    for (IntrinsicInst* link : llvm::reverse(chain)) link->eraseFromParent();
  }
}

}  // namespace tc
