#include "codegen/passes/border_branches.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/passes/register_pressure.h"

namespace tc {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

bool moves_conditionally(const Target& target) {
  return target.features.find("+zicond") != std::string::npos;
}

class Chooser {
 public:
  explicit Chooser(llvm::Function& function)
      : function_(function), layout_(function.getParent()->getDataLayout()) {}

  void choose_zeros() {
    std::vector<llvm::SelectInst*> choices;
    for (Instruction& each : llvm::instructions(function_)) {
      // By its operands: LLVM may have made the selection anew, without a role.
      auto* choice = llvm::dyn_cast<llvm::SelectInst>(&each);
      if (choice == nullptr || !choice->getType()->isPointerTy() ||
          !choice->getCondition()->getType()->isIntegerTy(1))
        continue;
      const bool zeros_if_true = llvm::isa<llvm::GlobalVariable>(choice->getTrueValue());
      if (zeros_if_true != llvm::isa<llvm::GlobalVariable>(choice->getFalseValue()))
        choices.push_back(choice);
    }
    for (llvm::SelectInst* each : choices) {
      // LLVM may negate the condition and swap the sides.
      const bool zeros_if_true = llvm::isa<llvm::GlobalVariable>(each->getTrueValue());
      Value *element = each->getTrueValue(), *zeros = each->getFalseValue();
      if (zeros_if_true) std::swap(element, zeros);
      each->replaceAllUsesWith(chosen(*element, *zeros, *mask(*each->getCondition(), zeros_if_true), *each));
    }
    // Erased only now: a select may be a key of `distances_`, and a new instruction at its address would be
    // mistaken for it.
    for (llvm::SelectInst* each : choices) each->eraseFromParent();
  }

  // root + ((other - root - offset) & mask) + offset: the address of the element, or of the other where the
  // mask has ones. It stays derived from the buffer's pointer, so that `conflict` still tells buffers apart.
  Value* chosen(Value& element, Value& other, Value& mask, Instruction& place) {
    llvm::APInt offset(64, 0);
    Value* root = element.stripAndAccumulateConstantOffsets(layout_, offset, /*AllowNonInbounds=*/true);
    llvm::IRBuilder<> builder(&place);
    Value* distance = builder.CreateSub(distance_to(other, *root), builder.getInt(offset));
    return builder.CreatePtrAdd(builder.CreatePtrAdd(root, builder.CreateAnd(distance, &mask)),
                                builder.getInt(offset));
  }

  void forget(const Value& value) {
    std::erase_if(masks_, [&](const auto& each) { return each.first.first == &value; });
    std::erase_if(distances_, [&](const auto& each) {
      return each.first.first == &value || each.first.second == &value;
    });
  }

  // A mask of all ones where the condition equals `where`, else of zeros.
  Value* mask(Value& condition, bool where) {
    Value*& result = masks_[{&condition, where}];
    if (result == nullptr) {
      llvm::IRBuilder<> builder(place_behind(condition));
      result = builder.CreateSExt(where ? &condition : builder.CreateNot(&condition), builder.getInt64Ty());
    }
    return result;
  }

 private:
  Value* distance_to(Value& other, Value& root) {
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
  Instruction* place_behind(Value& value) const {
    auto* made = llvm::dyn_cast<Instruction>(&value);
    if (made == nullptr) return &*function_.getEntryBlock().getFirstNonPHIOrDbgOrAlloca();
    return llvm::isa<llvm::PHINode>(made) ? &*made->getParent()->getFirstInsertionPt() : made->getNextNode();
  }

  llvm::Function& function_;
  const llvm::DataLayout& layout_;
  std::map<std::pair<const Value*, bool>, Value*> masks_;
  std::map<std::pair<const Value*, const Value*>, Value*> distances_;
};

// The most bytes of an access that may be redirected to the memory which nothing else uses.
constexpr uint64_t kLargestAccess = 512;

class Borders {
 public:
  Borders(llvm::Function& function, const Target& target)
      : function_(function), target_(target), chooser_(function) {}

  void run() {
    while (BasicBlock* each = find()) run_always(*each);
  }

 private:
  // A block that can always run and that, or whose neighbour, needs more vector registers than there are;
  // null where there is none.
  BasicBlock* find() const {
    const Pressure pressure(function_, target_);
    const auto overflows = [&](BasicBlock& block) {
      return !StraightLine(block, pressure, target_).leaves_free(0);
    };
    for (BasicBlock& block : function_) {
      if (!can_run_always(block)) continue;
      if (overflows(block) || overflows(*block.getSinglePredecessor()) ||
          overflows(*block.getSingleSuccessor()))
        return &block;
    }
    return nullptr;
  }

  // Whether a conditional branch either runs the block or skips it, and the block only loads, stores and
  // computes.
  static bool can_run_always(BasicBlock& block) {
    BasicBlock *before = block.getSinglePredecessor(), *behind = block.getSingleSuccessor();
    if (before == nullptr || behind == nullptr || before == behind || behind == &block) return false;
    const auto* branch = llvm::dyn_cast<llvm::BranchInst>(before->getTerminator());
    if (branch == nullptr || !branch->isConditional() || !llvm::is_contained(branch->successors(), behind))
      return false;
    if (!llvm::isa<llvm::BranchInst>(block.getTerminator())) return false;
    const bool same = llvm::all_of(behind->phis(), [&](const llvm::PHINode& phi) {
      return phi.getIncomingValueForBlock(before) == phi.getIncomingValueForBlock(&block);
    });
    return same && std::all_of(block.begin(), std::prev(block.end()), [&](Instruction& each) {
             if (llvm::getLoadStorePointerOperand(&each) == nullptr)
               return llvm::isSafeToSpeculativelyExecute(&each);
             const llvm::DataLayout& layout = each.getModule()->getDataLayout();
             const llvm::TypeSize size = layout.getTypeStoreSize(llvm::getLoadStoreType(&each));
             return !size.isScalable() && size.getFixedValue() <= kLargestAccess && !each.isAtomic();
           });
  }

  // Moves the block's instructions in front of the branch; their accesses go to `elsewhere` where the branch
  // would have skipped them.
  void run_always(BasicBlock& block) {
    BasicBlock *before = block.getSinglePredecessor(), *behind = block.getSingleSuccessor();
    auto* branch = llvm::cast<llvm::BranchInst>(before->getTerminator());
    std::vector<Instruction*> moved;
    for (Instruction& each : block) {
      if (!each.isTerminator()) moved.push_back(&each);
    }
    for (Instruction* each : moved) {
      each->moveBefore(branch);
      each->dropPoisonGeneratingFlags();  // which hold only where the branch ran the block
    }
    Value* mask = chooser_.mask(*branch->getCondition(), branch->getSuccessor(1) == &block);
    for (Instruction* each : moved) {
      Value* address = llvm::getLoadStorePointerOperand(each);
      if (address == nullptr) continue;
      // An access that an inner branch could skip, too, is redirected where either branch would have skipped
      // it.
      const auto inner = chosen_.find(address);
      Choice choice = inner == chosen_.end() ? Choice{address, mask} : inner->second;
      if (inner != chosen_.end()) choice.mask = llvm::IRBuilder<>(each).CreateOr(choice.mask, mask);
      Value* result = chooser_.chosen(*choice.address, *elsewhere(), *choice.mask, *each);
      chosen_[result] = choice;
      each->setOperand(llvm::isa<llvm::StoreInst>(each) ? 1 : 0, result);
      each->setMetadata(llvm::LLVMContext::MD_invariant_load, nullptr);
    }
    for (llvm::PHINode& phi : behind->phis())
      chooser_.forget(phi);  // it will have one operand, which replaces it
    llvm::ReplaceInstWithInst(branch, llvm::BranchInst::Create(behind));
    behind->removePredecessor(&block, /*KeepOneInputPHIs=*/true);
    block.eraseFromParent();
    llvm::MergeBlockIntoPredecessor(behind);
  }

  // Memory on the stack that nothing else uses.
  Value* elsewhere() {
    if (elsewhere_ == nullptr) {
      llvm::IRBuilder<> builder(&*function_.getEntryBlock().begin());
      elsewhere_ = builder.CreateAlloca(llvm::ArrayType::get(builder.getInt8Ty(), kLargestAccess));
      elsewhere_->setAlignment(llvm::Align(64));
    }
    return elsewhere_;
  }

  llvm::Function& function_;
  const Target& target_;
  Chooser chooser_;
  llvm::AllocaInst* elsewhere_ = nullptr;
  struct Choice {
    Value *address, *mask;
  };
  std::map<const Value*, Choice> chosen_;  // original address and mask of an access, by its new address
};

}  // namespace

void choose_addresses(llvm::Function& function, const Target& target) {
  if (!moves_conditionally(target)) Chooser(function).choose_zeros();
}

void run_through_borders(llvm::Function& function, const Target& target) {
  if (!moves_conditionally(target)) Borders(function, target).run();
}

}  // namespace tc
