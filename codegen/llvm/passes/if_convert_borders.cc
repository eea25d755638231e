#include "codegen/llvm/passes/if_convert_borders.h"

#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include <algorithm>
#include <map>
#include <vector>

#include "codegen/llvm/pass_support/branchless_address.h"
#include "codegen/llvm/pass_support/straight_line.h"

namespace tc {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

// The most bytes of an access that may be redirected to the memory which nothing else uses.
constexpr uint64_t kLargestAccess = 512;

class Borders {
 public:
  Borders(llvm::Function& function, const Target& target)
      : function_(function), target_(target), masker_(function) {}

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
    Value* mask = masker_.mask(*branch->getCondition(), branch->getSuccessor(1) == &block);
    for (Instruction* each : moved) {
      Value* address = llvm::getLoadStorePointerOperand(each);
      if (address == nullptr) continue;
      // An access that an inner branch could skip, too, is redirected where either branch would have skipped
      // it.
      const auto inner = chosen_.find(address);
      Choice choice = inner == chosen_.end() ? Choice{address, mask} : inner->second;
      if (inner != chosen_.end()) choice.mask = llvm::IRBuilder<>(each).CreateOr(choice.mask, mask);
      Value* result = masker_.masked(*choice.address, *elsewhere(), *choice.mask, *each);
      chosen_[result] = choice;
      each->setOperand(llvm::isa<llvm::StoreInst>(each) ? 1 : 0, result);
      each->setMetadata(llvm::LLVMContext::MD_invariant_load, nullptr);
    }
    for (llvm::PHINode& phi : behind->phis())
      masker_.forget(phi);  // it will have one operand, which replaces it
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
  MaskedAddress masker_;
  llvm::AllocaInst* elsewhere_ = nullptr;
  struct Choice {
    Value *address, *mask;
  };
  std::map<const Value*, Choice> chosen_;  // original address and mask of an access, by its new address
};

}  // namespace

void if_convert_borders(llvm::Function& function, const Target& target) {
  if (!has_zicond(target)) Borders(function, target).run();
}

}  // namespace tc
