#include "codegen/llvm/passes/split_masked_by_register.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/ConstantFold.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>

#include <numeric>
#include <vector>

namespace tc {
namespace {

constexpr unsigned kRegisterBits = 256;

// A constant mask that has all lanes which the mask can have; null where none is known. The mask may be a
// conjunction of several masks.
llvm::Constant* bound_of(llvm::Value* mask, int depth = 0) {
  using namespace llvm::PatternMatch;
  constexpr int kMaxDepth = 4;
  llvm::Constant* known = nullptr;
  if (match(mask, m_Constant(known)) || match(mask, m_Select(m_Value(), m_Constant(known), m_Zero())))
    return known;
  llvm::Value *one = nullptr, *other = nullptr;
  if (depth == kMaxDepth || !match(mask, m_And(m_Value(one), m_Value(other)))) return nullptr;
  llvm::Constant *first = bound_of(one, depth + 1), *second = bound_of(other, depth + 1);
  if (first == nullptr || second == nullptr) return first != nullptr ? first : second;
  return llvm::ConstantFoldBinaryInstruction(llvm::Instruction::And, first, second);
}

class MaskedAccess {
 public:
  explicit MaskedAccess(llvm::IntrinsicInst& access)
      : access_(access),
        builder_(&access),
        is_load_(access.getIntrinsicID() == llvm::Intrinsic::masked_load) {
    auto* type =
        llvm::cast<llvm::FixedVectorType>(is_load_ ? access.getType() : access.getArgOperand(0)->getType());
    element_ = type->getElementType();
    all_ = type->getNumElements();
    lanes_ = std::max(1U, kRegisterBits / std::max(1U, element_->getScalarSizeInBits()));
  }

  void split() {
    llvm::Value* mask = access_.getArgOperand(is_load_ ? 2 : 3);
    const llvm::Constant* bound = bound_of(mask);
    if (bound == nullptr || all_ % lanes_ != 0 || all_ == lanes_) return;
    std::vector<bool> used;
    for (unsigned first = 0; first < all_; first += lanes_) used.push_back(has_lanes(*bound, first));
    if (!llvm::is_contained(used, false)) return;
    llvm::SmallVector<llvm::Value*, 8> parts;
    for (unsigned i = 0; i < used.size(); ++i) {
      if (llvm::Value* part = used[i] ? access(mask, i * lanes_) : unread(i * lanes_)) parts.push_back(part);
    }
    if (is_load_) access_.replaceAllUsesWith(llvm::concatenateVectors(builder_, parts));
    access_.eraseFromParent();
  }

 private:
  bool has_lanes(const llvm::Constant& bound, unsigned first) const {
    for (unsigned lane = first; lane < first + lanes_; ++lane) {
      const llvm::Constant* each = bound.getAggregateElement(lane);
      if (each == nullptr || !each->isNullValue()) return true;
    }
    return false;
  }

  llvm::Value* lanes_from(llvm::Value* vector, unsigned first) {
    std::vector<int> lanes(lanes_);
    std::iota(lanes.begin(), lanes.end(), static_cast<int>(first));
    return builder_.CreateShuffleVector(vector, lanes);
  }

  // The value of a register that is not loaded; null for a store.
  llvm::Value* unread(unsigned first) {
    return is_load_ ? lanes_from(access_.getArgOperand(3), first) : nullptr;
  }

  // Emits the access of one register; returns the loaded value, null for a store.
  llvm::Value* access(llvm::Value* mask, unsigned first) {
    const llvm::Align all(
        llvm::cast<llvm::ConstantInt>(access_.getArgOperand(is_load_ ? 1 : 2))->getZExtValue());
    const uint64_t bytes = uint64_t{first} * element_->getScalarSizeInBits() / 8;
    llvm::Value* place =
        builder_.CreatePtrAdd(access_.getArgOperand(is_load_ ? 0 : 1), builder_.getInt64(bytes));
    const llvm::Align align = llvm::commonAlignment(all, bytes);
    llvm::Value* part = lanes_from(mask, first);
    if (is_load_)
      return builder_.CreateMaskedLoad(llvm::FixedVectorType::get(element_, lanes_), place, align, part,
                                       unread(first));
    builder_.CreateMaskedStore(lanes_from(access_.getArgOperand(0), first), place, align, part);
    return nullptr;
  }

  llvm::IntrinsicInst& access_;
  llvm::IRBuilder<> builder_;
  const bool is_load_;
  llvm::Type* element_ = nullptr;
  unsigned all_ = 0, lanes_ = 0;  // of the access, of a register
};

}  // namespace

void split_masked_by_register(llvm::Function& function) {
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (call == nullptr) continue;
    const llvm::Intrinsic::ID which = call->getIntrinsicID();
    if (which == llvm::Intrinsic::masked_load || which == llvm::Intrinsic::masked_store)
      MaskedAccess(*call).split();
  }
}

}  // namespace tc
