#include "codegen/llvm/passes/scalarise_epilogues.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace tc {
namespace {

using llvm::Instruction;
using llvm::Value;

// The instructions at the end of a block after all that has effects but stores. Their loads are of memory
// that the function does not write.
struct End {
  std::set<const Value*> all;
  std::vector<llvm::StoreInst*> stores;  // of vectors of the same length
};

bool reads_constants(const llvm::LoadInst& load) {
  const auto* argument = llvm::dyn_cast<llvm::Argument>(llvm::getUnderlyingObject(load.getPointerOperand()));
  return load.isSimple() && argument != nullptr && argument->onlyReadsMemory() && argument->hasNoAliasAttr();
}

End end_of(llvm::BasicBlock& block) {
  End end;
  llvm::Type* type = nullptr;
  for (Instruction& each : llvm::reverse(block)) {
    if (each.isTerminator()) continue;
    if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&each)) {
      llvm::Type* stored = store->getValueOperand()->getType();
      const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(stored);
      if (!store->isSimple() || vector == nullptr || vector->getScalarSizeInBits() % 8 != 0) break;
      if (type != nullptr && stored != type) break;
      type = stored;
      end.stores.push_back(store);
    } else if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&each)) {
      if (!reads_constants(*load)) break;
    } else if (each.mayHaveSideEffects() || each.mayReadFromMemory() || llvm::isa<llvm::PHINode>(each)) {
      break;
    }
    end.all.insert(&each);
  }
  std::reverse(end.stores.begin(), end.stores.end());
  return end;
}

// Whether lanes may be stored in another order: no two stores write the same byte.
bool are_disjoint(const std::vector<llvm::StoreInst*>& stores, const llvm::DataLayout& layout) {
  std::set<int64_t> places;
  const Value* base = nullptr;
  for (const llvm::StoreInst* store : stores) {
    llvm::APInt offset(layout.getIndexTypeSizeInBits(store->getPointerOperandType()), 0);
    const Value* own = store->getPointerOperand()->stripAndAccumulateConstantOffsets(
        layout, offset, /*AllowNonInbounds=*/true);
    if (base != nullptr && own != base) return false;
    base = own;
    places.insert(offset.getSExtValue());
  }
  const auto bytes =
      static_cast<int64_t>(layout.getTypeStoreSize(stores.front()->getValueOperand()->getType()));
  for (auto place = places.begin(); std::next(place) != places.end(); ++place) {
    if (*std::next(place) - *place < bytes) return false;
  }
  return places.size() == stores.size();
}

// Whether the intrinsic is computed lane by lane, from vectors of the result's type alone.
bool is_lanewise(llvm::Intrinsic::ID id) {
  switch (id) {
    case llvm::Intrinsic::smax:
    case llvm::Intrinsic::smin:
    case llvm::Intrinsic::umax:
    case llvm::Intrinsic::umin:
    case llvm::Intrinsic::fabs:
    case llvm::Intrinsic::copysign:
    case llvm::Intrinsic::fma:
    case llvm::Intrinsic::fmuladd: return true;
    default: return false;
  }
}

// Builds the lanes of an end's vectors as scalars, each when it is first needed.
class LaneBuilder {
 public:
  LaneBuilder(const End& end, llvm::BasicBlock& block) : end_(end), builder_(block.getTerminator()) {}

  void store(llvm::StoreInst& store, unsigned lane) {
    Value* value = lane_of(store.getValueOperand(), lane);
    builder_.CreateAlignedStore(value, place_of(store.getPointerOperand(), value->getType(), lane),
                                alignment(store.getAlign(), value->getType(), lane));
    // LLVM's scheduler would move the computations of all lanes together.
    builder_.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent, llvm::SyncScope::SingleThread);
  }

 private:
  static uint64_t bytes_of(llvm::Type* type) { return type->getScalarSizeInBits() / 8; }
  static llvm::Align alignment(llvm::Align whole, llvm::Type* type, unsigned lane) {
    return llvm::commonAlignment(whole, lane * bytes_of(type));
  }
  Value* place_of(Value* pointer, llvm::Type* type, unsigned lane) {
    return builder_.CreateConstGEP1_64(builder_.getInt8Ty(), pointer, lane * bytes_of(type));
  }

  Value* lane_of(Value* vector, unsigned lane) {
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(vector->getType());
    if (type == nullptr) return vector;
    if (auto* constant = llvm::dyn_cast<llvm::Constant>(vector)) {
      if (Value* element = constant->getAggregateElement(lane)) return element;
    }
    const auto [known, fresh] = lanes_.try_emplace({vector, lane}, nullptr);
    if (fresh) {
      Value* made = end_.all.count(vector) > 0 ? divided(*llvm::cast<Instruction>(vector), lane) : nullptr;
      known->second = made != nullptr ? made : builder_.CreateExtractElement(vector, lane);
    }
    return known->second;
  }

  // The lane of what the instruction computes; null where it is not computed lane by lane.
  Value* divided(Instruction& each, unsigned lane) {
    llvm::Type* element = each.getType()->getScalarType();
    if (auto* insertion = llvm::dyn_cast<llvm::InsertElementInst>(&each)) {
      const auto* index = llvm::dyn_cast<llvm::ConstantInt>(insertion->getOperand(2));
      if (index == nullptr) return nullptr;
      return index->getZExtValue() == lane ? insertion->getOperand(1)
                                           : lane_of(insertion->getOperand(0), lane);
    }
    if (auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&each))
      return shuffle->isZeroEltSplat() ? lane_of(shuffle->getOperand(0), 0) : nullptr;
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&each)) {
      if (element->getScalarSizeInBits() % 8 != 0 || element->isPointerTy()) return nullptr;
      auto* made = builder_.CreateAlignedLoad(element, place_of(load->getPointerOperand(), element, lane),
                                              alignment(load->getAlign(), element, lane));
      made->copyMetadata(*load, {llvm::LLVMContext::MD_invariant_load});
      return made;
    }
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&each);
    const bool is_scalar_operation =
        llvm::isa<llvm::BinaryOperator, llvm::SelectInst, llvm::CmpInst, llvm::UnaryOperator>(each) ||
        (llvm::isa<llvm::CastInst>(each) && !llvm::isa<llvm::BitCastInst>(each));
    if (is_scalar_operation) {
      Instruction* made = each.clone();
      made->mutateType(element);
      for (llvm::Use& operand : made->operands()) operand.set(lane_of(operand.get(), lane));
      builder_.Insert(made);
      return made;
    }
    if (call == nullptr || !is_lanewise(call->getIntrinsicID())) return nullptr;
    std::vector<Value*> operands;
    for (const llvm::Use& operand : call->args()) operands.push_back(lane_of(operand.get(), lane));
    Instruction* made = builder_.CreateIntrinsic(call->getIntrinsicID(), {element}, operands);
    made->copyIRFlags(call);
    return made;
  }

  const End& end_;
  llvm::IRBuilder<> builder_;
  std::map<std::pair<const Value*, unsigned>, Value*> lanes_;
};

}  // namespace

void scalarise_epilogues(llvm::Function& function) {
  for (llvm::BasicBlock& block : function) {
    const End end = end_of(block);
    // The lanes of a single vector share no constants.
    if (end.stores.size() < 2 || !are_disjoint(end.stores, function.getParent()->getDataLayout())) continue;
    const auto* type = llvm::cast<llvm::FixedVectorType>(end.stores.front()->getValueOperand()->getType());
    LaneBuilder lanes(end, block);
    for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
      for (llvm::StoreInst* store : end.stores) lanes.store(*store, lane);
    }
    for (llvm::StoreInst* store : end.stores) {
      llvm::SmallVector<llvm::WeakTrackingVH, 2> operands = {store->getValueOperand(),
                                                             store->getPointerOperand()};
      store->eraseFromParent();
      llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(operands);
    }
  }
}

}  // namespace tc
