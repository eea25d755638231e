#include "codegen/llvm/passes/reduce_register_pressure.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/ValueHandle.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/llvm/opaque_value.h"
#include "codegen/llvm/pass_support/straight_line.h"

namespace tc {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

class PressureReducer : public StraightLine {
 public:
  using StraightLine::StraightLine;

  // Without broadcasts groups have several sizes, and registers for one of the largest have to stay free.
  bool fits() const { return leaves_free(broadcasts() ? 0 : largest()); }

  void run() {
    const auto steps = llvm::count_if(order_, [](const Instruction* each) { return adds_product(*each); });
    chooses_steps_ = static_cast<size_t>(steps) >= kFewProducts && !broadcasts();
    find_needs();
    order_depth_first();
    load_again();
    for (Instruction* each : order_) each->moveBefore(block_.getTerminator());
  }

 private:
  int largest() const {
    int result = 1;
    for (const Instruction* each : order_) result = std::max(result, pressure_.registers(*each));
    return result;
  }

  void find_needs() {
    const auto may_pass = [this](const Instruction& later, const Instruction& earlier) {
      return moves_freely(later) || moves_freely(earlier) || is_apart(later) || is_apart(earlier);
    };
    std::vector<std::vector<size_t>> needs = graph_.needs(may_pass);
    // Registers that computing the value with all its operands takes (Sethi and Ullman's numbers).
    wanted_.resize(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      sort_by_wish(needs[i]);
      int held = 0;
      wanted_[i] = pressure_.registers(*order_[i]);
      for (const size_t each : needs[i]) {
        wanted_[i] = std::max(wanted_[i], held + wanted_[each]);
        held += pressure_.registers(*order_[each]);
      }
    }
    scheduler_.emplace(std::move(needs));
  }

  void sort_by_wish(std::vector<size_t>& places) const {
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    std::stable_sort(places.begin(), places.end(),
                     [&](size_t a, size_t b) { return wanted_[a] > wanted_[b]; });
  }

  static bool moves_freely(const Instruction& instruction) {
    return instruction.hasMetadata(llvm::LLVMContext::MD_invariant_load) && !instruction.isVolatile();
  }

  // Whether the instruction is a prefetch that is placed independently of the order of all else (see
  // `spread`). In other blocks a prefetch stays between the loads of its buffer: when it was free there,
  // LLVM spilled vectors of 1x1 convolutions and of Winograd's products.
  bool is_apart(const Instruction& instruction) const {
    return chooses_steps_ && role_of(instruction) == Role::Prefetch;
  }

  // Whether the new order starts from the instruction: it has a side effect, or its value is used outside of
  // the block. The steps of a tile's sums are roots, too, so that they stay together, since they share what
  // is loaded.
  bool is_root(const Instruction& instruction) const {
    if (role_of(instruction) == Role::BroadcastProduct || (chooses_steps_ && adds_product(instruction)))
      return true;
    if (instruction.mayHaveSideEffects() || instruction.isVolatile()) return true;
    return std::any_of(instruction.user_begin(), instruction.user_end(),
                       [&](const llvm::User* user) { return !graph_.contains(user); });
  }

  void order_depth_first() {
    std::vector<size_t> places, roots;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (is_root(*order_[i]) && !is_apart(*order_[i])) roots.push_back(i);
    }
    while (!roots.empty()) {
      const auto next =
          chooses_steps_ && adds_product(*order_[roots.front()]) ? cheapest_step(roots) : roots.begin();
      scheduler_->list(*next, places);
      roots.erase(next);
    }
    // Of a window's rows only the last has not been prefetched by an earlier tile: its prefetch comes first.
    std::vector<std::vector<size_t>>
        prefetches;  // of each, the address computations that only it needs, then itself
    for (size_t i = order_.size(); i-- > 0;) {
      if (is_apart(*order_[i])) scheduler_->list(i, prefetches.emplace_back());
    }
    places = spread(prefetches, places);
    for (size_t i = 0; i < order_.size(); ++i) scheduler_->list(i, places);
    std::vector<Instruction*> result;
    for (const size_t each : places) result.push_back(order_[each]);
    order_ = std::move(result);
  }

  // The step among the roots whose missing operands take the fewest registers.
  std::vector<size_t>::iterator cheapest_step(std::vector<size_t>& roots) const {
    auto result = roots.begin();
    int fewest = std::numeric_limits<int>::max();
    for (auto each = roots.begin(); each != roots.end() && fewest > 0; ++each) {
      if (!adds_product(*order_[*each])) continue;
      if (const int registers = cost(*each, fewest); registers < fewest) {
        fewest = registers;
        result = each;
      }
    }
    return result;
  }

  // Registers of everything that still has to be computed for the instruction, the earlier steps of its sum
  // included. Counting stops at the limit.
  int cost(size_t at, int limit) const {
    int result = 0;
    std::vector<size_t> waiting(1, at);
    llvm::DenseSet<size_t> seen;
    while (!waiting.empty() && result < limit) {
      const size_t each = waiting.back();
      waiting.pop_back();
      if (scheduler_->is_listed(each) || !seen.insert(each).second) continue;
      result += pressure_.registers(*order_[each]);
      const std::vector<size_t>& needs = scheduler_->needs(each);
      waiting.insert(waiting.end(), needs.begin(), needs.end());
    }
    return result;
  }

  // The places, with the prefetches distributed evenly among them. LLVM's scheduler moves no load past a
  // prefetch, so that a prefetch next to each load would keep all loads in front of the first sum.
  std::vector<size_t> spread(const std::vector<std::vector<size_t>>& prefetches,
                             const std::vector<size_t>& places) const {
    std::vector<size_t> count_up_to(
        order_.size());  // of each instruction in `places`, its index plus one; of others 0
    for (size_t i = 0; i < places.size(); ++i) count_up_to[places[i]] = i + 1;
    std::vector<size_t> result;
    size_t done = 0;
    for (size_t i = 0; i < prefetches.size(); ++i) {
      size_t until = places.size() * (2 * i + 1) / (2 * prefetches.size());
      for (const size_t each : prefetches[i]) {
        for (const size_t need : scheduler_->needs(each)) until = std::max(until, count_up_to[need]);
      }
      for (; done < until; ++done) result.push_back(places[done]);
      result.insert(result.end(), prefetches[i].begin(), prefetches[i].end());
    }
    result.insert(result.end(), places.begin() + static_cast<std::ptrdiff_t>(done), places.end());
    return result;
  }

  // Whether the instruction loads from the address that is its first operand.
  static bool is_load(const Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    return llvm::isa<llvm::LoadInst>(instruction) ||
           (call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::masked_load);
  }

  bool can_load_again(const Instruction& instruction) {
    const auto [known, is_new] = can_load_again_.insert({&instruction, false});
    if (is_new) known->second = nothing_writes(instruction);
    return known->second;
  }
  bool nothing_writes(const Instruction& instruction) const {
    if (!is_load(instruction) || instruction.isVolatile() || pressure_.registers(instruction) == 0)
      return false;
    return moves_freely(instruction) ||
           llvm::all_of(graph_.conflicts(graph_.place(&instruction)),
                        [&](size_t each) { return is_apart(*graph_.instructions()[each]); });
  }

  // Vector registers of the value. A constant takes none: LLVM materialises it where it is used.
  int registers(const Value& value) const {
    return llvm::isa<llvm::Constant>(value) ? 0 : pressure_.registers(value);
  }

  // Finds where each value is used, as places in the new order, the last one first. Values that outlive the
  // block are used at its end.
  void find_uses() {
    const auto live = pressure_.live_at_end(block_);
    for (const Value* each : live) uses_[each].push_back(order_.size());
    for (size_t i = order_.size(); i-- > 0;) {
      for (const llvm::Use& use : order_[i]->operands()) {
        if (registers(*use.get()) == 0) continue;
        std::vector<size_t>& places = uses_[use.get()];
        if (places.empty() || places.back() != i) places.push_back(i);
      }
    }
  }

  // Walks along the order and tracks which values are in registers. Where there is no room for a value,
  // evicts the loaded value whose next use comes last (Belady's rule), and loads it again at that use.
  void load_again() {
    find_uses();
    int largest = 1;
    for (const auto& [value, places] : uses_) largest = std::max(largest, registers(*value));
    room_ = target_.vector_registers - largest;
    for (const auto& [value, places] : uses_) {
      if (!graph_.contains(value)) enter(value);
    }
    std::vector<Instruction*> result;
    for (size_t i = 0; i < order_.size(); ++i) {
      Instruction& own = *order_[i];
      for (llvm::Use& use : own.operands()) {
        if (registers(*use.get()) == 0) continue;
        const Value* value = use.get();
        if (!resident_.contains(value)) {
          auto& load = *llvm::cast<Instruction>(use.get());
          leave_room(load, own);
          again_[value] = copy_of(load, result);
          enter(value);
        }
        if (const auto copy = again_.find(value); copy != again_.end()) use.set(copy->second);
        originals_[use.get()] = value;
      }
      for (const llvm::Use& use : own.operands()) retire(original(use.get()), i);
      if (registers(own) > 0) {
        leave_room(own, own);
        if (uses_.contains(&own)) enter(&own);
      }
      result.push_back(&own);
    }
    order_ = std::move(result);
  }

  const Value* original(const Value* value) const {
    const auto found = originals_.find(value);
    return found == originals_.end() ? value : found->second;
  }

  void enter(const Value* value) {
    if (resident_.insert(value).second) used_ += registers(*value);
  }
  void leave(const Value* value) {
    if (resident_.erase(value)) used_ -= registers(*value);
  }
  // Forgets the uses up to the place.
  void retire(const Value* value, size_t place) {
    const auto found = uses_.find(value);
    if (found == uses_.end()) return;
    while (!found->second.empty() && found->second.back() <= place) found->second.pop_back();
    if (found->second.empty()) leave(value);
  }

  void leave_room(const Value& value, const Instruction& user) {
    while (used_ + registers(value) > room_) {
      const Value* last = nullptr;
      for (const Value* each : resident_) {
        if (!graph_.contains(each) || uses_[each].empty()) continue;
        if (std::any_of(user.op_begin(), user.op_end(),
                        [&](const llvm::Use& use) { return original(use.get()) == each; }))
          continue;
        if (!can_load_again(*llvm::cast<Instruction>(each))) continue;
        // Takes the first in the block of the loads with the same next use: the order of a set of pointers is
        // arbitrary.
        if (last == nullptr || uses_[each].back() > uses_[last].back() ||
            (uses_[each].back() == uses_[last].back() && graph_.place(each) < graph_.place(last))) {
          last = each;
        }
      }
      if (last == nullptr) return;
      leave(last);
    }
  }

  // Hides the address: LLVM would merge the copy with the load, if it saw that the address is the same.
  Instruction* copy_of(Instruction& load, std::vector<Instruction*>& order) {
    Instruction* copy = load.clone();
    Value* pointer = load.getOperand(0);
    auto* hidden =
        llvm::CallInst::Create(hidden_identity(pointer->getType()), {pointer}, "", block_.getTerminator());
    copy->setOperand(0, hidden);
    copy->insertBefore(block_.getTerminator());
    order.push_back(hidden);
    order.push_back(copy);
    return copy;
  }

  // Whether the block consists of sums of products of two vectors, as in a depthwise convolution, whose
  // columns read the same elements and weights. The next step is then always the one whose missing operands
  // take the fewest vector registers.
  bool chooses_steps_ = false;
  std::optional<ListScheduler> scheduler_;
  std::vector<int> wanted_;
  llvm::DenseMap<const Value*, std::vector<size_t>> uses_;
  llvm::DenseMap<const Value*, Value*> again_;            // the last copy of a load
  llvm::DenseMap<const Value*, const Value*> originals_;  // of copies
  llvm::DenseMap<const Instruction*, bool> can_load_again_;
  llvm::DenseSet<const Value*> resident_;
  int used_ = 0, room_ = 0;
};

// Scalar floating-point registers for elements that several multiply-adds share; the others hold elements
// that are loaded ahead.
constexpr size_t kSharedScalars = 30;
// The most elements that are kept in registers until another use.
constexpr size_t kKeptScalars = 8;

// Loads elements of overlapping windows again. LLVM loads an element that several columns of the windows
// read only once. Where more such elements wait for a late use than there are registers, each is loaded
// again, which costs no more than the reload of a spilled value and saves the spill.
class ReloadElements : public StraightLine {
 public:
  using StraightLine::StraightLine;

  void run() {
    find_uses();
    if (fits()) return;
    std::vector<llvm::LoadInst*> kept;  // the most recently used last
    llvm::SmallVector<llvm::WeakTrackingVH, 64> before;
    for (const Use& each : uses_) {
      const auto found = std::find(kept.begin(), kept.end(), each.load);
      const bool is_kept = found != kept.end();
      if (is_kept) kept.erase(found);
      before.emplace_back(each.operand->get());
      if (!is_kept && splats_.contains(each.load)) splats_[each.load] = splat_of(*each.load, *each.user);
      if (!splats_.contains(each.load)) splats_[each.load] = each.operand->get();
      each.operand->set(splats_[each.load]);
      kept.push_back(each.load);
      if (kept.size() > kKeptScalars) kept.erase(kept.begin());
    }
    llvm::RecursivelyDeleteTriviallyDeadInstructionsPermissive(before);
  }

 private:
  // mayWriteToMemory() holds for volatile loads, too, such as those that prefetch.
  static bool writes(const Instruction& instruction) {
    return instruction.mayWriteToMemory() && !llvm::isa<llvm::LoadInst>(instruction);
  }

  struct Use {
    size_t place;
    Instruction* user;
    llvm::Use* operand;
    llvm::LoadInst* load;  // the block's first load of that address
  };

  // Collects the uses of broadcast elements in this block, in its order. All loads of an address count as
  // one, since LLVM would merge them later.
  void find_uses() {
    for (Instruction* each : order_) {
      auto* load = llvm::dyn_cast<llvm::LoadInst>(each);
      if (load == nullptr || load->isVolatile() || !load->getType()->isFloatingPointTy()) continue;
      if (std::none_of(load->user_begin(), load->user_end(),
                       [](const llvm::User* user) { return is_splat(*user); }))
        continue;
      if (llvm::any_of(graph_.conflicts(graph_.place(load)),
                       [&](size_t other) { return writes(*order_[other]); }))
        continue;
      llvm::LoadInst*& first = first_[address_of(*load)];
      if (first == nullptr) first = load;
      for (llvm::User* insert : load->users()) {
        if (!is_splat(*insert)) continue;
        for (llvm::User* splat : insert->users()) {
          for (llvm::Use& use : splat->uses()) add(use, *first);
        }
      }
    }
    std::stable_sort(uses_.begin(), uses_.end(),
                     [](const Use& a, const Use& b) { return a.place < b.place; });
  }
  void add(llvm::Use& use, llvm::LoadInst& load) {
    auto* user = llvm::cast<Instruction>(use.getUser());
    if (const size_t place = graph_.place(user); place < graph_.size())
      uses_.push_back({place, user, &use, &load});
  }

  bool fits() const {
    llvm::DenseMap<const llvm::LoadInst*, size_t> last;
    for (const Use& each : uses_) last[each.load] = each.place;
    llvm::DenseSet<const llvm::LoadInst*> live;
    size_t most = 0;
    for (const Use& each : uses_) {
      live.insert(each.load);
      most = std::max(most, static_cast<size_t>(live.size()));
      if (last[each.load] == each.place) live.erase(each.load);
    }
    return most <= kSharedScalars;
  }

  using Address = std::pair<Value*, uint64_t>;  // a base, and bytes from it
  Address address_of(llvm::LoadInst& load) const {
    llvm::APInt offset(64, 0);
    Value* base = load.getPointerOperand()->stripAndAccumulateConstantOffsets(
        block_.getModule()->getDataLayout(), offset, true);
    return {base, offset.getZExtValue()};
  }

  // Copies the load to right before the user; returns the splat of the copy.
  Value* splat_of(llvm::LoadInst& load, Instruction& user) {
    const auto [base, offset] = address_of(load);
    const size_t again = copies_[&load]++;
    std::vector<Value*>& hidden = hidden_[base];
    if (hidden.size() <= again) hidden.push_back(hide(*base));
    llvm::IRBuilder<> builder(&user);
    Value* address = builder.CreateGEP(builder.getInt8Ty(), hidden[again], builder.getInt64(offset));
    Instruction* copy = load.clone();
    copy->setOperand(0, address);
    builder.Insert(copy);
    const auto lanes = llvm::cast<llvm::FixedVectorType>(splats_[&load]->getType())->getNumElements();
    return builder.CreateVectorSplat(lanes, copy);
  }

  // Hides the base address: LLVM would merge the copies with the first load, if it saw that their addresses
  // are the same. All first copies of loads share one hidden base, all second copies the next, and so on.
  Value* hide(Value& base) {
    auto* made = llvm::dyn_cast<Instruction>(&base);
    const bool here = made != nullptr && made->getParent() == &block_ && !llvm::isa<llvm::PHINode>(made);
    Instruction* before = here ? made->getNextNode() : &*block_.getFirstInsertionPt();
    return llvm::CallInst::Create(hidden_identity(base.getType()), {&base}, "", before);
  }

  std::vector<Use> uses_;
  std::map<Address, llvm::LoadInst*> first_;
  llvm::DenseMap<const llvm::LoadInst*, Value*> splats_;  // of the last copy of each load
  llvm::DenseMap<const llvm::LoadInst*, size_t> copies_;
  llvm::DenseMap<const Value*, std::vector<Value*>>
      hidden_;  // by base: the i-th serves the i-th copy of each load
};

}  // namespace

void reduce_register_pressure(llvm::Function& function, const Target& target) {
  const Pressure before(function, target);
  for (BasicBlock& block : function) ReloadElements(block, before, target).run();
  const Pressure pressure(function, target);
  for (BasicBlock& block : function) {
    PressureReducer fit(block, pressure, target);
    if (!fit.fits()) fit.run();
  }
}

}  // namespace tc
