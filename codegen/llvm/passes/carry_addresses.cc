#include "codegen/llvm/passes/carry_addresses.h"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/Local.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Utils/ScalarEvolutionExpander.h>

#include <algorithm>
#include <vector>

#include "codegen/llvm/opaque_value.h"

namespace tc {
namespace {

using llvm::Instruction;
using llvm::SCEV;
using llvm::Value;

// Pointers that a loop carries at most: of the 14 registers of Cortex-M (RISC-V has more), other values need
// some.
constexpr size_t kMaxPointers = 4;

// What is known of a function's loops; changes to the function make it invalid.
struct Analyses {
  explicit Analyses(llvm::Function& function)
      : library(llvm::Triple(function.getParent()->getTargetTriple())),
        functions(library),
        assumptions(function),
        dominators(function),
        loops(dominators),
        evolution(function, functions, assumptions, dominators, loops) {}

  llvm::TargetLibraryInfoImpl library;
  llvm::TargetLibraryInfo functions;
  llvm::AssumptionCache assumptions;
  llvm::DominatorTree dominators;
  llvm::LoopInfo loops;
  llvm::ScalarEvolution evolution;
};

// Addresses that are constant distances apart, all of which the loop moves by the same step.
struct Carried {
  const llvm::SCEVAddRecExpr* address = nullptr;
  std::vector<std::pair<llvm::Use*, int64_t>> uses;  // and how far behind `address` they are
};

class LoopRewriter {
 public:
  LoopRewriter(Analyses& analyses, llvm::Loop& loop) : loop_(loop), evolution_(analyses.evolution) {}

  // Whether something changed.
  bool run() {
    before_ = loop_.getLoopPreheader();
    latch_ = loop_.getLoopLatch();
    if (before_ == nullptr || latch_ == nullptr) return false;
    find();
    if (carried_.empty() || carried_.size() > kMaxPointers) return count_down();
    llvm::SCEVExpander expander(evolution_, loop_.getHeader()->getDataLayout(), "address");
    if (!std::all_of(carried_.begin(), carried_.end(), [&](const Carried& each) {
          return expander.isSafeToExpandAt(each.address->getStart(), before_->getTerminator());
        }))
      return count_down();
    for (const Carried& each : carried_) carry(each, expander);
    keep_invariant_addresses();
    count_down();
    return true;
  }

 private:
  void find() {
    for (llvm::BasicBlock* block : loop_.blocks()) {
      for (Instruction& each : *block) {
        for (llvm::Use& use : each.operands()) {
          if (is_address(use, *block)) add(use);
        }
      }
    }
  }

  // Operands through which memory is accessed, or with which a loop inside of this one begins.
  bool is_address(const llvm::Use& use, const llvm::BasicBlock& block) const {
    if (!use->getType()->isPointerTy() || !llvm::isa<Instruction>(use.get())) return false;
    const auto* user = llvm::cast<Instruction>(use.getUser());
    if (llvm::isa<llvm::PHINode>(user)) return &block != loop_.getHeader();
    return llvm::isa<llvm::LoadInst, llvm::StoreInst, llvm::CallInst>(user);
  }

  void add(llvm::Use& use) {
    if (!evolution_.isSCEVable(use->getType())) return;
    const auto* address = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution_.getSCEV(use.get()));
    if (address == nullptr || address->getLoop() != &loop_ || !address->isAffine() ||
        !evolution_.isLoopInvariant(address->getStepRecurrence(evolution_), &loop_) ||
        !llvm::isa<llvm::SCEVConstant>(address->getStepRecurrence(evolution_)))
      return;
    for (Carried& each : carried_) {
      if (address->getStepRecurrence(evolution_) != each.address->getStepRecurrence(evolution_)) continue;
      const SCEV* distance = evolution_.getMinusSCEV(address, each.address);
      if (const auto* constant = llvm::dyn_cast<llvm::SCEVConstant>(distance)) {
        each.uses.emplace_back(&use, constant->getAPInt().getSExtValue());
        return;
      }
    }
    carried_.push_back({address, {{&use, 0}}});
  }

  void carry(const Carried& carried, llvm::SCEVExpander& expander) {
    // The lowest address is carried, so that the others are at positive distances.
    const auto lowest = std::min_element(carried.uses.begin(), carried.uses.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
    llvm::Type* type = carried.address->getType();
    Value* first = expander.expandCodeFor(carried.address->getStart(), type, before_->getTerminator());
    llvm::IRBuilder<> builder(before_->getTerminator());
    llvm::Type* byte = builder.getInt8Ty();
    const int64_t low = lowest->second;
    if (low != 0) first = builder.CreateGEP(byte, first, builder.getInt32(static_cast<uint32_t>(low)));
    builder.SetInsertPoint(loop_.getHeader(), loop_.getHeader()->begin());
    llvm::PHINode* pointer = builder.CreatePHI(type, 2, "address");
    pointer->addIncoming(first, before_);
    builder.SetInsertPoint(latch_->getTerminator());
    const auto* step = llvm::cast<llvm::SCEVConstant>(carried.address->getStepRecurrence(evolution_));
    pointer->addIncoming(builder.CreateGEP(byte, pointer, step->getValue(), "address.next"), latch_);
    for (const auto& [use, distance] : carried.uses) {
      auto* user = llvm::cast<Instruction>(use->getUser());
      auto* phi = llvm::dyn_cast<llvm::PHINode>(user);
      builder.SetInsertPoint(phi != nullptr ? phi->getIncomingBlock(*use)->getTerminator() : user);
      Value* old = use->get();
      use->set(distance == low ? pointer
                               : builder.CreateGEP(byte, pointer,
                                                   builder.getInt32(static_cast<uint32_t>(distance - low))));
      llvm::RecursivelyDeleteTriviallyDeadInstructions(old);
    }
  }

  // Addresses that stay, which a piece of assembly reads. LLVM's register allocator would load them again on
  // each trip: it finds them cheap to spill, as the loop only reads them. So the loop carries them, too, as
  // values of which LLVM does not know that they stay the same.
  void keep_invariant_addresses() {
    if (!loop_.isInnermost()) return;
    std::vector<llvm::Use*> uses;
    for (llvm::BasicBlock* block : loop_.blocks()) {
      for (Instruction& each : *block) {
        auto* piece = llvm::dyn_cast<llvm::CallInst>(&each);
        if (piece == nullptr || !piece->isInlineAsm()) continue;
        for (llvm::Use& use : piece->args()) {
          if (use->getType()->isPointerTy() && loop_.isLoopInvariant(use.get())) uses.push_back(&use);
        }
      }
    }
    if (uses.size() + carried_.size() > kMaxPointers) return;
    for (llvm::Use* use : uses) {
      llvm::IRBuilder<> builder(loop_.getHeader(), loop_.getHeader()->begin());
      llvm::PHINode* pointer = builder.CreatePHI(use->get()->getType(), 2, "kept");
      pointer->addIncoming(use->get(), before_);
      builder.SetInsertPoint(latch_->getTerminator());
      pointer->addIncoming(builder.CreateCall(hidden_identity(pointer->getType()), {pointer}), latch_);
      use->set(pointer);
    }
  }

  // A counter that only counts trips, of which there is a known number, counts down to zero.
  bool count_down() {
    const unsigned trips = evolution_.getSmallConstantTripCount(&loop_);
    auto* branch = llvm::dyn_cast<llvm::BranchInst>(latch_->getTerminator());
    if (trips < 2 || branch == nullptr || !branch->isConditional() || loop_.getExitingBlock() != latch_)
      return false;
    auto* compare = llvm::dyn_cast<llvm::ICmpInst>(branch->getCondition());
    if (compare == nullptr || !compare->hasOneUse()) return false;
    llvm::PHINode* counter = nullptr;
    for (llvm::PHINode& each : loop_.getHeader()->phis()) {
      if (counts_only(each, *compare)) counter = &each;
    }
    if (counter == nullptr) return false;
    llvm::IRBuilder<> builder(loop_.getHeader(), loop_.getHeader()->begin());
    llvm::PHINode* left = builder.CreatePHI(builder.getInt32Ty(), 2, "left");
    left->addIncoming(builder.getInt32(trips), before_);
    builder.SetInsertPoint(branch);
    Value* next = builder.CreateSub(left, builder.getInt32(1), "left.next");
    left->addIncoming(next, latch_);
    Value* more = builder.CreateICmpNE(next, builder.getInt32(0));
    branch->setCondition(branch->getSuccessor(0) == loop_.getHeader()
                             ? more
                             : builder.CreateICmpEQ(next, builder.getInt32(0)));
    compare->eraseFromParent();
    llvm::RecursivelyDeleteDeadPHINode(counter);
    llvm::RecursivelyDeleteTriviallyDeadInstructions(more);
    return true;
  }

  // Whether the variable's uses are its next value and the comparison, and the next value's alike.
  bool counts_only(const llvm::PHINode& variable, const llvm::ICmpInst& compare) const {
    if (!variable.getType()->isIntegerTy() || variable.getBasicBlockIndex(latch_) < 0) return false;
    const auto* next = llvm::dyn_cast<Instruction>(variable.getIncomingValueForBlock(latch_));
    if (next == nullptr || !loop_.contains(next)) return false;
    const auto only = [&](const Value& value, const Value& other) {
      return std::all_of(value.user_begin(), value.user_end(),
                         [&](const llvm::User* user) { return user == &compare || user == &other; });
    };
    const bool compared = compare.getOperand(0) == next || compare.getOperand(0) == &variable;
    return compared && only(variable, *next) && only(*next, variable);
  }

  llvm::Loop& loop_;
  llvm::ScalarEvolution& evolution_;
  llvm::BasicBlock *before_ = nullptr, *latch_ = nullptr;
  std::vector<Carried> carried_;
};

// The loops of a function, those inside of others first, by their headers, which stay when analyses do not.
std::vector<llvm::BasicBlock*> headers_from_inside(llvm::Function& function) {
  Analyses analyses(function);
  std::vector<llvm::BasicBlock*> headers;
  for (llvm::Loop* each : analyses.loops.getLoopsInPreorder()) {
    headers.push_back(each->getHeader());
    if (each->getLoopPreheader() == nullptr)
      llvm::InsertPreheaderForLoop(each, &analyses.dominators, &analyses.loops, nullptr,
                                   /*PreserveLCSSA=*/false);
  }
  std::reverse(headers.begin(), headers.end());
  return headers;
}

}  // namespace

void carry_addresses(llvm::Function& function) {
  for (llvm::BasicBlock* header : headers_from_inside(function)) {
    Analyses analyses(function);
    llvm::Loop* loop = analyses.loops.getLoopFor(header);
    if (loop != nullptr && loop->getHeader() == header) LoopRewriter(analyses, *loop).run();
  }
}

}  // namespace tc
