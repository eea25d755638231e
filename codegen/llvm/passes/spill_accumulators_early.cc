#include "codegen/llvm/passes/spill_accumulators_early.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "codegen/llvm/opaque_value.h"
#include "codegen/llvm/pass_support/straight_line.h"
#include "ir/error.h"

namespace tc {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

// The least operations of a long epilogue, whose values need registers of their own.
constexpr size_t kLong = 8;
// How many operations before the end of the previous epilogue a sum is loaded again.
constexpr size_t kAhead = 4;

// The operations between a sum and the store of its result.
struct Epilogue {
  Instruction* store = nullptr;                    // of all lanes, or of those of a mask
  Instruction* sum = nullptr;                      // plus loaded values (a bias), if those are added first
  std::vector<Instruction*> leading;               // these additions after the last product, with their loads
  llvm::SmallVector<Instruction*, 64> operations;  // after the sum, in their order
};

class Block : public StraightLine {
 public:
  using StraightLine::StraightLine;

  void run() {
    llvm::SmallPtrSet<const Value*, 32> used;  // sums and addresses of the epilogues found so far
    for (Instruction* each : order_) {
      if (!is_store(*each) || pressure_.registers(*each->getOperand(0)) == 0) continue;
      Epilogue found;
      if (!find_epilogue(*each, found) || used.contains(found.sum) || used.contains(each->getOperand(1)))
        continue;
      used.insert(found.sum);
      used.insert(each->getOperand(1));
      epilogues_.push_back(std::move(found));
    }
    if (epilogues_.size() < 2 || fits()) return;
    for (size_t i = 1; i < epilogues_.size(); ++i) spill_early(epilogues_[i], epilogues_[i - 1]);
    for (Instruction* each : marks_) each->eraseFromParent();
  }

 private:
  // Whether registers are left for a constant, which takes registers where a product is added to it, and for
  // masks.
  bool fits() const {
    int largest = 1;
    for (const Instruction* each : order_) largest = std::max(largest, pressure_.registers(*each));
    return leaves_free(2 * largest);
  }

  static const llvm::IntrinsicInst* masked(const Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::masked_store ? call : nullptr;
  }
  // Whether it stores its first operand at its second one, all lanes or those of a mask.
  static bool is_store(const Instruction& instruction) {
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
    return (store != nullptr && !store->isVolatile()) || masked(instruction) != nullptr;
  }

  bool in_this_block(const Value* value) const { return graph_.contains(value); }

  // Whether the value is an operation of an epilogue: arithmetic of this block that is no step of a sum.
  bool computes(const Value* value) const {
    const auto* made = llvm::dyn_cast<Instruction>(value);
    return in_this_block(value) && made->getType()->isVectorTy() && !made->mayReadOrWriteMemory() &&
           !adds_product(*made) && !is_upper_part(*made);
  }

  // Finds the one sum from which the stored value is computed.
  bool find_epilogue(Instruction& store, Epilogue& result) const {
    result.store = &store;
    llvm::SmallPtrSet<const Value*, 32> seen;
    llvm::SmallVector<Value*, 64> waiting = {store.getOperand(0)};
    llvm::SmallPtrSet<Instruction*, 4> sums;
    while (!waiting.empty()) {
      Value* each = waiting.pop_back_val();
      if (!seen.insert(each).second) continue;
      if (computes(each)) {
        auto* made = llvm::cast<Instruction>(each);
        result.operations.push_back(made);
        waiting.append(made->op_begin(), made->op_end());
      } else if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(each);
                 load != nullptr && conflict(store, *load)) {
        return false;  // it may read the address where the sum would wait
      } else if (pressure_.registers(*each) > 0 && !llvm::isa<llvm::Constant, llvm::LoadInst>(each)) {
        auto* made = llvm::dyn_cast<Instruction>(each);
        if (made == nullptr || (in_this_block(made) && !adds_product(*made))) return false;
        sums.insert(llvm::cast<Instruction>(each));
      }
    }
    if (sums.size() != 1 || result.operations.size() < kLong) return false;
    std::sort(result.operations.begin(), result.operations.end(),
              [&](const Instruction* a, const Instruction* b) { return a->comesBefore(b); });
    result.sum = *sums.begin();
    if (result.sum->getType() != store.getOperand(0)->getType()) return false;
    add_loaded(result);
    // Lanes that a mask leaves out are not stored, so that they are undefined when the sum is loaded again:
    // nothing else may use them. The same holds where the address is chosen by a mask: several stores may
    // then go to the same address (codegen/llvm/passes/if_convert_borders.h).
    if ((masked(store) != nullptr || is_chosen(store)) && !is_used_alone(result)) return false;
    // A sum that comes from a loop is also used by that loop's next trip.
    return std::all_of(result.sum->user_begin(), result.sum->user_end(), [&](const llvm::User* user) {
      return llvm::is_contained(result.operations, user) ||
             (!in_this_block(result.sum) && in_same_block(*result.sum, *user));
    });
  }

  // Whether a mask is part of what the address of the store is made of.
  static bool is_chosen(const Instruction& store) {
    const Value* address = llvm::getLoadStorePointerOperand(&store);
    while (const auto* moved = llvm::dyn_cast_or_null<llvm::GEPOperator>(address)) {
      const bool by_mask = llvm::any_of(moved->indices(), [](const llvm::Use& index) {
        const auto* made = llvm::dyn_cast<llvm::BinaryOperator>(index.get());
        return made != nullptr && made->getOpcode() == Instruction::And;
      });
      if (by_mask) return true;
      address = moved->getPointerOperand();
    }
    return false;
  }

  // Whether the operations serve the store alone, lane by lane.
  static bool is_used_alone(const Epilogue& epilogue) {
    return llvm::all_of(epilogue.operations, [&](const Instruction* each) {
      if (llvm::isa<llvm::ShuffleVectorInst>(each) && !is_splat(*each)) return false;
      return llvm::all_of(each->users(), [&](const llvm::User* user) {
        return user == epilogue.store || llvm::is_contained(epilogue.operations, user);
      });
    });
  }

  // Whether nothing else reads or writes the result's address between the sum and the store. The results of
  // a tile have different addresses.
  bool is_free(const Epilogue& epilogue, const Instruction& from) const {
    return llvm::none_of(graph_.conflicts(graph_.place(epilogue.store)), [&](size_t at) {
      const Instruction* each = order_[at];
      if (role_of(*each) == Role::Prefetch || each->comesBefore(&from) || !each->comesBefore(epilogue.store))
        return false;
      const bool is_result =
          llvm::any_of(epilogues_, [&](const Epilogue& other) { return other.store == each; });
      return !is_result;
    });
  }

  // Whether the value is used where it is made.
  static bool in_same_block(const Instruction& value, const llvm::User& user) {
    return llvm::cast<Instruction>(user).getParent() == value.getParent();
  }

  // Counts additions of loaded values as part of the sum, so that a bias need not stay in registers for all
  // sums.
  void add_loaded(Epilogue& epilogue) const {
    while (Instruction* user = only_user(*epilogue.sum)) {
      if (!llvm::is_contained(epilogue.operations, user) || user->getType() != epilogue.sum->getType() ||
          user->getNumOperands() != 2)
        return;
      auto* load =
          llvm::dyn_cast<llvm::LoadInst>(user->getOperand(user->getOperand(0) == epilogue.sum ? 1 : 0));
      if (load == nullptr || !may_come_first(*load)) return;
      epilogue.leading.push_back(load);
      epilogue.leading.push_back(user);
      epilogue.sum = user;
    }
  }
  // The value's only user in this block; null where there is none, or several.
  Instruction* only_user(const Instruction& value) const {
    Instruction* result = nullptr;
    for (const llvm::Use& use : value.uses()) {
      auto* user = llvm::cast<Instruction>(use.getUser());
      if (!in_this_block(user)) continue;
      if (result != nullptr) return nullptr;
      result = user;
    }
    return result;
  }
  bool may_come_first(const llvm::LoadInst& load) const {
    return !load.isVolatile() && std::none_of(order_.begin(), order_.end(), [&](const Instruction* each) {
      return role_of(*each) != Role::Prefetch && conflict(*each, load);
    });
  }

  // Whether raise() can move the value: only operations that touch no memory.
  bool can_raise(const Value* value) const {
    const auto* made = llvm::dyn_cast<Instruction>(value);
    if (!graph_.contains(value)) return true;
    if (made->mayReadOrWriteMemory()) return false;
    return std::all_of(made->op_begin(), made->op_end(),
                       [&](const llvm::Use& use) { return can_raise(use.get()); });
  }

  // The place at the block's beginning, after the sums that were stored there already.
  Instruction* next_place_at_begin() const {
    return spilled_at_begin_ != nullptr ? spilled_at_begin_->getNextNode() : &*block_.getFirstInsertionPt();
  }

  void spill_early(Epilogue& epilogue, const Epilogue& previous) {
    llvm::SmallVector<Value*, 4> wanted(epilogue.store->op_begin() + 1,
                                        epilogue.store->op_end());  // the address, and a mask
    if (!llvm::all_of(wanted, [&](const Value* each) { return can_raise(each); })) return;
    for (const Instruction* each : epilogue.leading) {
      if (llvm::isa<llvm::LoadInst>(each) && !can_raise(each->getOperand(0))) return;
    }
    // Right after the sum's last product, if that is in this block, else at its beginning.
    Instruction* last =
        epilogue.leading.empty() ? epilogue.sum : llvm::cast<Instruction>(sum_before_additions(epilogue));
    // Everything is inserted in front of a marker, since the instruction at this place may be one that
    // moves.
    Instruction* next = in_this_block(last) ? last->getNextNode() : next_place_at_begin();
    if (!is_free(epilogue, *next)) return;
    auto* place = llvm::BinaryOperator::CreateAdd(
        llvm::ConstantInt::get(llvm::Type::getInt32Ty(block_.getContext()), 0),
        llvm::ConstantInt::get(llvm::Type::getInt32Ty(block_.getContext()), 0), "", next);
    spilled_at_begin_ = in_this_block(last) ? spilled_at_begin_ : place;
    marks_.push_back(place);
    // An addition of an earlier epilogue may already be there.
    for (Instruction* each : epilogue.leading) {
      if (llvm::isa<llvm::LoadInst>(each) && in_this_block(each)) raise(*each, *place);
      if (!llvm::isa<llvm::LoadInst>(each)) raise(*each, *place);
    }
    for (Value* each : wanted) raise(*each, *place);
    Instruction* stored = epilogue.store->clone();
    stored->setOperand(0, epilogue.sum);
    stored->insertBefore(place);
    reload(epilogue, previous, *place);
  }

  // The sum of products before loaded values are added.
  static Value* sum_before_additions(const Epilogue& epilogue) {
    const Instruction& first = *epilogue.leading[1];
    return first.getOperand(first.getOperand(0) == epilogue.leading[0] ? 1 : 0);
  }

  void reload(const Epilogue& epilogue, const Epilogue& previous, const Instruction& stored) const {
    Instruction* place =
        previous.operations[previous.operations.size() - std::min(kAhead, previous.operations.size())];
    Instruction* first = nullptr;
    for (llvm::User* user : epilogue.sum->users()) {
      auto* each = llvm::cast<Instruction>(user);
      if (llvm::is_contained(epilogue.operations, each) && (first == nullptr || each->comesBefore(first)))
        first = each;
    }
    TC_CHECK(first != nullptr);
    if (place->comesBefore(&stored) || !place->comesBefore(first)) place = first;
    llvm::IRBuilder<> builder(place);
    // LLVM would reuse the stored value, if it saw that the address is the same.
    Value* pointer = epilogue.store->getOperand(1);
    Value* hidden = builder.CreateCall(hidden_identity(pointer->getType()), {pointer});
    const auto* lanes = masked(*epilogue.store);
    llvm::Type* type_of_sum = epilogue.sum->getType();
    Value* load = nullptr;
    if (lanes != nullptr) {
      const auto align =
          llvm::cast<llvm::ConstantInt>(lanes->getArgOperand(2))->getMaybeAlignValue().valueOrOne();
      load = builder.CreateMaskedLoad(type_of_sum, hidden, align, lanes->getArgOperand(3));
    } else {
      load = builder.CreateAlignedLoad(type_of_sum, hidden,
                                       llvm::cast<llvm::StoreInst>(epilogue.store)->getAlign());
    }
    epilogue.sum->replaceUsesWithIf(
        load, [&](const llvm::Use& use) { return llvm::is_contained(epilogue.operations, use.getUser()); });
  }

  std::vector<Epilogue> epilogues_;
  std::vector<Instruction*> marks_;
  Instruction* spilled_at_begin_ = nullptr;
};

}  // namespace

void spill_accumulators_early(llvm::Function& function, const Target& target) {
  const Pressure pressure(function, target);
  for (BasicBlock& block : function) Block(block, pressure, target).run();
}

}  // namespace tc
