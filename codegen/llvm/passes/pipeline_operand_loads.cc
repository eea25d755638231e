#include "codegen/llvm/passes/pipeline_operand_loads.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/InstructionSimplify.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>
#include <llvm/Transforms/Utils/ValueMapper.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "codegen/llvm/pass_support/straight_line.h"

namespace tc {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

// The attribute of functions with a loop that this pass has changed, so that registers of weights alternate
// from trip to trip.
constexpr const char* kPipelined = "tc-pipelined-loads";

class LoadPipeliner : public StraightLine {
 public:
  LoadPipeliner(llvm::Loop& loop, const Pressure& pressure, const Target& target,
                llvm::ScalarEvolution& evolution)
      : StraightLine(*loop.getHeader(), pressure, target), loop_(loop), evolution_(evolution) {}

  void run() {
    if (!broadcasts() || products() < kFewProducts) return;
    before_ = loop_.getLoopPredecessor();
    end_ = llvm::dyn_cast<llvm::BranchInst>(block_.getTerminator());
    if (before_ == nullptr || end_ == nullptr || !end_->isConditional() ||
        !llvm::isa<Instruction>(end_->getCondition()))
      return;
    const unsigned trips = evolution_.getSmallConstantTripCount(&loop_);  // 0 where it is not known
    bool divides = order_.size() <= (trips == 0 ? kLongestGuarded : kLongestTwice) && trips <= kFewTrips &&
                   counts(*end_->getCondition());
    if (divides && trips == 2 && begins_sums()) {
      divide();
      block_.getParent()->addFnAttr(kPipelined);
      return;
    }
    divides = divides && trips != 2;
    if (has_far_rows()) return;
    measure();
    choose();
    if (chosen_.empty()) return;
    if (before_->getSingleSuccessor() == nullptr) before_ = llvm::SplitEdge(before_, &block_);
    goes_on_always_ = divides;
    for (const Load& each : chosen_) move_pointer(*each.root, true);
    for (const Load& each : chosen_) load_ahead(each);
    move_other_pointers();
    if (divides) divide();
    block_.getParent()->addFnAttr(kPipelined);
    llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(dead_);
  }

 private:
  struct Load {
    llvm::LoadInst* load;
    Instruction* root;  // the part of the address that each trip computes
    int64_t offset;     // bytes from it
  };
  // A pointer in this trip, and in the next one.
  struct Pointer {
    llvm::PHINode* now;
    Value* next;
  };

  // The load's address as a pointer that each trip moves by a constant, plus an offset; nothing where it has
  // another form.
  std::optional<Load> moving(llvm::LoadInst& load) const {
    llvm::APInt offset(64, 0);
    auto* root = llvm::dyn_cast<Instruction>(load.getPointerOperand()->stripAndAccumulateConstantOffsets(
        block_.getModule()->getDataLayout(), offset, true));
    if (root == nullptr || step_of(root) == nullptr) return std::nullopt;
    return Load{&load, root, offset.getSExtValue()};
  }
  const llvm::SCEVConstant* step_of(Instruction* root) const {
    if (root->getParent() != &block_ || llvm::isa<llvm::PHINode>(root) || !root->getType()->isPointerTy())
      return nullptr;
    const auto* recurrence = llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution_.getSCEV(root));
    if (recurrence == nullptr || recurrence->getLoop() != &loop_ || !recurrence->isAffine()) return nullptr;
    return llvm::dyn_cast<llvm::SCEVConstant>(recurrence->getStepRecurrence(evolution_));
  }

  // mayWriteToMemory() holds for volatile loads, such as prefetches, and for the inline assembly that hides
  // what a pointer is, too.
  static bool writes(const Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    const auto* code = call == nullptr ? nullptr : llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand());
    return instruction.mayWriteToMemory() && !llvm::isa<llvm::LoadInst>(instruction) &&
           (code == nullptr || code->hasSideEffects());
  }
  bool is_written(const llvm::LoadInst& load) const {
    return llvm::any_of(graph_.conflicts(graph_.place(&load)),
                        [&](size_t each) { return writes(*order_[each]); });
  }

  // The page around the pointer in which the load's offset lies: an immediate offset spans one page, and for
  // each further page a trip would compute another address.
  static int64_t page_of(const Load& load) {
    constexpr double kPage = 4096;
    return static_cast<int64_t>(std::floor(static_cast<double>(load.offset) / kPage + 0.5));
  }
  bool is_near(const Load& load) {
    return pages_.insert({load.root, page_of(load)}).first->second == page_of(load);
  }

  // Whether rows are so far apart that their addresses fill the integer registers: those of the next trip
  // would be even more.
  bool has_far_rows() const {
    constexpr size_t kMaxPages = 3;
    std::map<const Instruction*, std::set<int64_t>> pages;
    for (Instruction* each : order_) {
      auto* load = llvm::dyn_cast<llvm::LoadInst>(each);
      if (load == nullptr || load->isVolatile() || !load->getType()->isFloatingPointTy()) continue;
      if (const std::optional<Load> found = moving(*load)) pages[found->root].insert(page_of(*found));
    }
    return std::any_of(pages.begin(), pages.end(),
                       [](const auto& each) { return each.second.size() > kMaxPages; });
  }

  // Chooses the loads whose values a trip uses so early that it would wait for them.
  void choose() {
    const std::vector<int> vectors = pressure_.before_each(block_, order_),
                           scalars = pressure_.scalars_before_each(block_, order_);
    int largest = 0;
    for (const Instruction* each : order_) largest = std::max(largest, pressure_.registers(*each));
    // One group stays free: where all are full, LLVM does not find for each a place in which it can stay
    // from trip to trip.
    int vector_room =
        target_.vector_registers - largest - free_beside_sums() - std::max(vectors.front(), vectors.back());
    int scalar_room = kScalarsAhead - std::max(scalars.front(), scalars.back());
    for (Instruction* each : order_) {
      auto* load = llvm::dyn_cast<llvm::LoadInst>(each);
      if (load == nullptr || load->isVolatile()) continue;
      const int size = pressure_.registers(*load);
      const bool is_scalar = load->getType()->isFloatingPointTy();
      const size_t use = first_use(*load);
      if ((size == 0 && !is_scalar) || use == order_.size() || time_[use] >= times_.load() + size) continue;
      int& room = is_scalar ? scalar_room : vector_room;
      const std::optional<Load> found = moving(*load);
      if (room < std::max(1, size) || !found || is_written(*load) || !is_near(*found)) continue;
      room -= std::max(1, size);
      chosen_.push_back(*found);
    }
  }

  // The number of multiply-adds of vectors in a trip.
  size_t products() const {
    return static_cast<size_t>(
        llvm::count_if(order_, [](const Instruction* each) { return adds_product(*each); }));
  }

  // The most instructions of a trip whose code may be duplicated for the last trip.
  static constexpr size_t kLongestTwice = 1600;
  // The most trips of a loop whose last one is peeled off: of more, the last one's needless loads are too
  // small a part to be worth the code.
  static constexpr unsigned kFewTrips = 6;
  // The most instructions where the number of trips is not known, so that there may be only one: elements of
  // windows that wait for a late use in both copies would be spilled.
  static constexpr size_t kLongestGuarded = 800;

  // Whether the sums begin in this loop: no loop around it carries them.
  bool begins_sums() const {
    return llvm::all_of(block_.phis(), [&](const llvm::PHINode& phi) {
      return pressure_.registers(phi) == 0 ||
             llvm::isa<llvm::Constant>(phi.getIncomingValueForBlock(before_));
    });
  }

  // Whether the value (the loop's exit condition) is computed from the trip's number alone.
  bool counts(const Value& value) const {
    const auto* made = llvm::dyn_cast<Instruction>(&value);
    if (made == nullptr || made->getParent() != &block_ || llvm::isa<llvm::PHINode>(made)) return true;
    return llvm::isa<llvm::ICmpInst, llvm::BinaryOperator>(made) &&
           llvm::all_of(made->operands(), [&](const llvm::Use& use) { return counts(*use.get()); });
  }

  // Peels the last trip off, as code after the loop that loads nothing for a next trip.
  void divide() {
    // Two trips leave no loop: one trip, and the last one after it.
    const bool is_loop = evolution_.getSmallConstantTripCount(&loop_) != 2;
    Value* condition = end_->getCondition();
    Value* is_longer = is_loop ? in_trip(*condition, *before_, *before_->getTerminator()) : nullptr;
    // Whether a trip of the loop surely runs before the last one. LLVM may know the opposite: that the first
    // trip is the last one, as where a window's row overlaps a map's border by one element.
    const auto* known = is_loop ? llvm::dyn_cast<llvm::ConstantInt>(is_longer) : nullptr;
    const bool has_one = !is_loop || (known != nullptr && known->isOne() == loops_if_true());
    BasicBlock* exit = end_->getSuccessor(loops_if_true() ? 1 : 0);
    llvm::ValueToValueMapTy copies;
    BasicBlock* last = llvm::CloneBasicBlock(&block_, copies, ".last", block_.getParent());
    last->moveAfter(&block_);
    for (llvm::PHINode& phi : block_.phis()) {
      if (!has_one) continue;
      llvm::cast<Instruction>(copies[&phi])->eraseFromParent();
      copies[&phi] = phi.getIncomingValueForBlock(&block_);
    }
    for (Instruction& each : *last) {
      if (llvm::isa<llvm::PHINode>(each)) continue;
      llvm::RemapInstruction(&each, copies, llvm::RF_NoModuleLevelChanges | llvm::RF_IgnoreMissingLocals);
    }
    for (Instruction& each : block_) {
      each.replaceUsesWithIf(copies[&each], [&](const llvm::Use& use) {
        const BasicBlock* user = llvm::cast<Instruction>(use.getUser())->getParent();
        return user != &block_ && user != last;
      });
    }
    exit->replacePhiUsesWith(&block_, last);
    llvm::ReplaceInstWithInst(last->getTerminator(), llvm::BranchInst::Create(exit));
    dead_.emplace_back(condition);
    if (is_loop) {
      end_->setCondition(in_trip(*condition, block_, *end_));
      end_->replaceSuccessorWith(exit, last);
      if (!has_one) branch_on(*is_longer, *last);
    } else {
      llvm::ReplaceInstWithInst(end_, llvm::BranchInst::Create(last));
      for (llvm::PHINode& phi : llvm::make_early_inc_range(block_.phis())) {
        phi.replaceAllUsesWith(phi.getIncomingValueForBlock(before_));
        phi.eraseFromParent();
      }
    }
    for (Instruction& each : *last) dead_.emplace_back(&each);
    llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(dead_);
    if (!is_loop) llvm::MergeBlockIntoPredecessor(last);
  }
  // Branches to the last trip at once where it is the only one.
  void branch_on(Value& is_longer, BasicBlock& last) {
    llvm::ReplaceInstWithInst(before_->getTerminator(),
                              llvm::BranchInst::Create(loops_if_true() ? &block_ : &last,
                                                       loops_if_true() ? &last : &block_, &is_longer));
  }
  bool loops_if_true() const { return end_->getSuccessor(0) == &block_; }

  // A mask of all ones, but of zeros in the last trip. It is computed so early that no load of the next trip
  // waits for it.
  Value* goes_on() {
    if (goes_on_ != nullptr) return goes_on_;
    size_t at = order_.size();
    while (at > 0 && time_.back() - time_[at - 1] < 2 * times_.load()) --at;
    Instruction* place = at == order_.size() ? block_.getTerminator() : order_[at];
    auto* condition = llvm::cast<Instruction>(end_->getCondition());
    raise(*condition, *place);
    llvm::IRBuilder<> builder(place);
    Value* more = loops_if_true() ? condition : builder.CreateNot(condition);
    goes_on_ = builder.CreateSExt(more, builder.getInt64Ty());
    return goes_on_;
  }
  // Makes the address a pointer that moves by an addition; with `stays_inside` it does not move in the last
  // trip, unless that one is peeled off.
  Pointer& move_pointer(Instruction& root, bool stays_inside) {
    const auto [found, is_new] = pointers_.insert({&root, {}});
    Pointer& pointer = found->second;
    if (!is_new) return pointer;
    llvm::IRBuilder<> builder(&block_, block_.getFirstNonPHIIt());
    Value* step = builder.getInt64(static_cast<uint64_t>(step_of(&root)->getAPInt().getSExtValue()));
    Value* first = in_trip(root, *before_, *before_->getTerminator());
    pointer.now = builder.CreatePHI(root.getType(), 2);
    if (stays_inside && !goes_on_always_) {
      auto* mask = llvm::cast<Instruction>(goes_on());
      builder.SetInsertPoint(mask->getNextNode());
      step = builder.CreateAnd(mask, step);
    } else {
      builder.SetInsertPoint(block_.getTerminator());
    }
    pointer.next = builder.CreatePtrAdd(pointer.now, step);
    pointer.now->addIncoming(first, before_);
    pointer.now->addIncoming(pointer.next, &block_);
    root.replaceAllUsesWith(pointer.now);
    dead_.emplace_back(&root);
    return pointer;
  }

  // The value in the trip that is entered from the block `from`: the first one, or the next one.
  Value* in_trip(Value& value, BasicBlock& from, Instruction& place) const {
    auto* made = llvm::dyn_cast<Instruction>(&value);
    if (made == nullptr || made->getParent() != &block_) return &value;
    if (auto* phi = llvm::dyn_cast<llvm::PHINode>(made)) return phi->getIncomingValueForBlock(&from);
    Instruction* copy = made->clone();
    for (llvm::Use& use : copy->operands()) use.set(in_trip(*use.get(), from, place));
    copy->insertBefore(&place);
    Value* simple = llvm::simplifyInstruction(copy, block_.getModule()->getDataLayout());
    if (simple == nullptr) return copy;
    copy->eraseFromParent();
    return simple;
  }

  void load_ahead(const Load& each) {
    const Pointer& pointer = pointers_[each.root];
    auto* phi = llvm::PHINode::Create(each.load->getType(), 2, "", block_.getFirstNonPHIIt());
    phi->addIncoming(copy_of(each, *pointer.now->getIncomingValueForBlock(before_), *before_), before_);
    phi->addIncoming(copy_of(each, *pointer.next, block_), &block_);
    phi->takeName(each.load);
    each.load->replaceAllUsesWith(phi);
    dead_.emplace_back(each.load);
  }
  Value* copy_of(const Load& each, Value& base, BasicBlock& block) const {
    llvm::IRBuilder<> builder(block.getTerminator());
    Instruction* copy = each.load->clone();
    copy->setOperand(0, each.offset == 0 ? &base
                                         : builder.CreatePtrAdd(
                                               &base, builder.getInt64(static_cast<uint64_t>(each.offset))));
    return builder.Insert(copy);
  }

  // Moves the pointers of prefetches, too.
  void move_other_pointers() {
    for (Instruction* each : order_) {
      auto* load = llvm::dyn_cast<llvm::LoadInst>(each);
      if (load == nullptr || role_of(*load) != Role::Prefetch) continue;
      if (const std::optional<Load> found = moving(*load)) move_pointer(*found->root, false);
    }
  }

  llvm::Loop& loop_;
  llvm::ScalarEvolution& evolution_;
  BasicBlock* before_ = nullptr;
  llvm::BranchInst* end_ = nullptr;
  bool goes_on_always_ = false;  // the last trip is peeled off
  Value* goes_on_ = nullptr;
  std::vector<Load> chosen_;
  llvm::DenseMap<const Instruction*, int64_t> pages_;  // of each root
  llvm::MapVector<Instruction*, Pointer> pointers_;    // by the roots of addresses
  llvm::SmallVector<llvm::WeakTrackingVH, 64> dead_;
};

}  // namespace

// Changes one loop, of one block. The analyses are made anew for each loop, since they may not hold after a
// change.
static void pipeline_loads(llvm::Function& function, const Target& target, BasicBlock& header) {
  llvm::TargetLibraryInfoImpl library{llvm::Triple(function.getParent()->getTargetTriple())};
  library.disableAllFunctions();
  llvm::TargetLibraryInfo functions(library);
  llvm::AssumptionCache assumptions(function);
  llvm::DominatorTree dominators(function);
  llvm::LoopInfo loops(dominators);
  llvm::ScalarEvolution evolution(function, functions, assumptions, dominators, loops);
  const Pressure pressure(function, target);
  LoadPipeliner(*loops.getLoopFor(&header), pressure, target, evolution).run();
}

void pipeline_operand_loads(llvm::Function& function, const Target& target) {
  std::vector<BasicBlock*> headers;
  for (BasicBlock& block : function) {
    if (llvm::is_contained(llvm::successors(&block), &block)) headers.push_back(&block);
  }
  for (BasicBlock* each : headers) pipeline_loads(function, target, *each);
}

}  // namespace tc
