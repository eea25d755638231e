#include "codegen/passes/register_pressure.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsRISCV.h>

namespace tc {

using llvm::Instruction;
using llvm::Value;

namespace {

// The scalar pointer to which a vector of offsets is added; null of any other vector of addresses.
const Value* base_of(const Value& addresses) {
  const auto* element = llvm::dyn_cast<llvm::GEPOperator>(&addresses);
  return element != nullptr && element->getPointerOperandType()->isPointerTy() ? element->getPointerOperand()
                                                                               : nullptr;
}

// Where the instruction reads or writes; null where that cannot be told.
const Value* accessed(const Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  if (call == nullptr) return llvm::getLoadStorePointerOperand(&instruction);
  switch (call->getIntrinsicID()) {
    case llvm::Intrinsic::masked_load:
    case llvm::Intrinsic::experimental_vp_strided_load: return call->getArgOperand(0);
    case llvm::Intrinsic::masked_store:
    case llvm::Intrinsic::experimental_vp_strided_store: return call->getArgOperand(1);
    case llvm::Intrinsic::masked_gather: return base_of(*call->getArgOperand(0));
    case llvm::Intrinsic::masked_scatter: return base_of(*call->getArgOperand(1));
    default: return nullptr;
  }
}

bool is_prefetch(const Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  return call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::prefetch;
}

}  // namespace

// The insertion of the scalar, which the splat's shuffle uses, counts as a splat, too.
bool is_splat(const Value& value) {
  if (const auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&value)) {
    return shuffle->isZeroEltSplat() && llvm::isa<llvm::InsertElementInst>(shuffle->getOperand(0));
  }
  return llvm::isa<llvm::InsertElementInst>(value) && value.hasOneUse() && is_splat(**value.user_begin());
}

bool multiplies_scalar(const Value& value) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&value);
  return call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::riscv_vwmacc &&
         !call->getArgOperand(1)->getType()->isVectorTy();
}

bool multiplies_broadcast(const Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  return call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::fmuladd &&
         std::any_of(call->arg_begin(), call->arg_end(),
                     [](const llvm::Use& use) { return is_splat(*use.get()); });
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

bool is_prefetch_load(const Instruction& instruction) {
  if (is_prefetch(instruction)) return true;
  const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
  return load != nullptr && load->isVolatile() && load->use_empty();
}

// Whether the two may not change places: one writes what the other may access. Buffers of kernels do not
// overlap.
bool conflict(const Instruction& a, const Instruction& b) {
  if (!a.mayReadOrWriteMemory() || !b.mayReadOrWriteMemory()) return false;
  if (!a.mayWriteToMemory() && !b.mayWriteToMemory()) return false;
  if (is_prefetch(a) || is_prefetch(b)) return false;
  const Value *first = accessed(a), *second = accessed(b);
  if (first == nullptr || second == nullptr) return true;
  first = llvm::getUnderlyingObject(first, /*MaxLookup=*/0);
  second = llvm::getUnderlyingObject(second, /*MaxLookup=*/0);
  // Two different objects conflict unless one of them is known to overlap no other, as scratch memory is
  // not.
  const auto known = [](const Value* object) {
    return llvm::isIdentifiedObject(object) || llvm::isa<llvm::Argument>(object);
  };
  if (first == second || !known(first) || !known(second)) return true;
  return !llvm::isIdentifiedObject(first) && !llvm::isIdentifiedObject(second);
}

}  // namespace tc
