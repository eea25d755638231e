#include "codegen/llvm/pass_support/dependences.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>

#include "codegen/llvm/role_metadata.h"

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

// LLVM has it that its instruction for prefetches writes.
bool is_prefetch(const Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  return call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::prefetch;
}

// What an instruction does to memory.
struct Access {
  explicit Access(const Instruction& instruction)
      : touches(instruction.mayReadOrWriteMemory() && !is_prefetch(instruction)),
        writes(touches && instruction.mayWriteToMemory()) {
    const Value* place = touches ? accessed(instruction) : nullptr;
    if (place != nullptr) object = llvm::getUnderlyingObject(place, /*MaxLookup=*/0);
    is_identified = object != nullptr && llvm::isIdentifiedObject(object);
    is_known = is_identified || (object != nullptr && llvm::isa<llvm::Argument>(object));
  }

  // Two different objects conflict unless one of them is known to overlap no other, as scratch memory is
  // not.
  bool conflicts(const Access& other) const {
    if (!touches || !other.touches || (!writes && !other.writes)) return false;
    if (object == other.object || !is_known || !other.is_known) return true;
    return !is_identified && !other.is_identified;
  }

  bool touches, writes;
  const Value* object = nullptr;  // null where it cannot be told
  bool is_identified = false, is_known = false;
};

bool is_address(const Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
  return llvm::isa<llvm::GetElementPtrInst>(instruction) ||
         (call != nullptr && call->isInlineAsm() && call->getType()->isPointerTy());
}

}  // namespace

bool conflict(const Instruction& a, const Instruction& b) { return Access(a).conflicts(Access(b)); }

void raise(Value& value, Instruction& place) {
  auto* made = llvm::dyn_cast<Instruction>(&value);
  if (made == nullptr || made->getParent() != place.getParent() || llvm::isa<llvm::PHINode>(made) ||
      made->comesBefore(&place))
    return;
  for (const llvm::Use& use : made->operands()) raise(*use.get(), place);
  made->moveBefore(&place);
}

Dependences::Dependences(llvm::BasicBlock& block) {
  for (Instruction& each : block) {
    if (llvm::isa<llvm::PHINode>(each) || each.isTerminator()) continue;
    places_[&each] = instructions_.size();
    instructions_.push_back(&each);
    std::vector<size_t>& operands = operands_.emplace_back();
    for (const llvm::Use& use : each.operands()) {
      if (const auto found = places_.find(llvm::dyn_cast<Instruction>(use.get())); found != places_.end())
        operands.push_back(found->second);
    }
  }
}

void Dependences::find_conflicts() const {
  std::vector<Access> accesses;
  for (const Instruction* each : instructions_) accesses.emplace_back(*each);
  conflicts_.resize(size());
  for (size_t i = 0; i < size(); ++i) {
    for (size_t j = 0; accesses[i].touches && j < size(); ++j) {
      if (i != j && accesses[i].conflicts(accesses[j])) conflicts_[i].push_back(j);
    }
  }
}

const std::vector<size_t>& Dependences::conflicts(size_t place) const {
  if (conflicts_.empty()) find_conflicts();
  return conflicts_[place];
}

size_t Dependences::free_from(size_t place) const {
  if (instructions_[place]->hasMetadata(llvm::LLVMContext::MD_invariant_load)) return 0;
  size_t result = 0;
  for (const size_t each : conflicts(place)) {
    if (each < place && role_of(*instructions_[each]) != Role::Prefetch) result = each + 1;
  }
  return result;
}

size_t Dependences::after_operands(size_t place) const {
  size_t result = 0;
  for (const size_t each : operands_[place])
    result = std::max(result, is_address(*instructions_[each]) ? after_operands(each) : each + 1);
  return result;
}

}  // namespace tc
