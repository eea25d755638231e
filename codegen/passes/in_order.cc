#include "codegen/passes/in_order.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsRISCV.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "codegen/passes/preload.h"
#include "codegen/passes/register_pressure.h"
#include "ir/loop.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

// Cycles from a load to its first use where each product has a vector of its own, which comes from beyond the
// caches: as many lines as may be under way are asked for where registers allow.
constexpr double kAheadOfVectors = 100;
// Of words, whose three sums, two pairs and the number that is put together take all registers: at 26 cycles
// nsNet2's steps take 1 % more of the model's, at 32 and at 20 values are saved.
constexpr double kAheadOfWords = 24;
// Operations between a sum and its store that are worth moving; more need registers of their own.
constexpr size_t kLongFinish = 8;
// Groups of vector registers that stay free where more than one load is ahead.
constexpr int kSpare = 3;

// The attribute of functions whose order is to stay.
constexpr const char* kOrdered = "tc-ordered";

class BlockOrder : public StraightLine {
 public:
  using StraightLine::StraightLine;

  const BasicBlock& block() const { return block_; }
  bool fits() const { return leaves_free(0); }
  // Whether nearly each operation takes a vector of its own from memory, or the block is a stream: what
  // decides is how early loads are.
  bool waits_for_loads() const {
    constexpr double kLoadsOfOperations = 0.75;  // depthwise convolutions have 0.5, average pooling 0.9
    constexpr size_t kFew = 8;                   // a block with fewer operations leads to a loop or leaves it
    size_t loads = 0, operations = 0;
    for (const Instruction* each : order_) {
      if (pressure_.registers(*each) == 0 || is_splat(*each)) continue;
      (llvm::isa<llvm::LoadInst>(each) ? loads : operations) += 1;
    }
    return weight_loads() != WeightLoads::None ||
           (operations >= kFew &&
            static_cast<double>(loads) > kLoadsOfOperations * static_cast<double>(operations));
  }

  // Where chains are interleaved, a store and what leads to it keep their places.
  void run(bool is_interleaved) {
    measure();
    keys_.resize(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) keys_[i] = static_cast<double>(i);
    if (!is_interleaved) raise_stores_that_fit();
    hoist_loads();
    hoist_widening();
    spread_prefetches();
    rearrange();
  }

 private:
  // What may come ahead: a load of memory, and where registers are full of values without broadcasts a
  // strided one.
  static bool is_load(const Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (call != nullptr)
      return call->getIntrinsicID() == llvm::Intrinsic::experimental_vp_strided_load ||
             call->getIntrinsicID() == llvm::Intrinsic::masked_gather;
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
    return load != nullptr && !load->isVolatile();
  }

  // Registers that stay free beside groups of the size. Where a block of channels is a single register, LLVM
  // takes a few more: it moves some loads ahead of the order that it is given.
  int spare(int size) const { return kSpare * (block_is_one_register() ? std::max(2, size) : size); }

  int largest_load() const {
    int result = 0;
    for (const Instruction* each : order_) {
      if (llvm::isa<llvm::LoadInst>(each)) result = std::max(result, pressure_.registers(*each));
    }
    return result;
  }

  // A matrix times a vector: each loaded vector serves one product; or, in words, two loaded vectors serve
  // three.
  enum class WeightLoads { None, Vectors, Words };
  WeightLoads weight_loads() const {
    size_t loads = 0, products = 0, conversions = 0;
    for (const Instruction* each : order_) {
      if (!each->getType()->isVectorTy()) continue;
      const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(each);
      loads += llvm::isa<llvm::LoadInst>(each);
      conversions += llvm::isa<llvm::SIToFPInst>(each);
      products += call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::fmuladd;
    }
    constexpr int kWide = 4;  // registers: smaller vectors have several streams
    if (!broadcasts() || products < kFewProducts || largest_load() < kWide) return WeightLoads::None;
    if (conversions >= products && loads * kValuesInWords >= products * kWordsOfValues)
      return WeightLoads::PackedWords;
    return loads >= products ? WeightLoads::Vectors : WeightLoads::None;
  }
  // How long before its use a vector is loaded.
  static double cycles_ahead(WeightLoads loads) {
    switch (loads) {
      case WeightLoads::Vectors: return kAheadOfVectors;
      case WeightLoads::PackedWords: return kAheadOfWords;
      case WeightLoads::None: break;
    }
    return kCyclesAhead;
  }

  // When the value is needed, in this trip or in the next one; less than nothing where it is not.
  double time_of_use(const Instruction& value) const {
    if (const size_t use = first_use(value); use < order_.size()) return time_[use];
    for (const llvm::User* user : value.users()) {
      const auto* phi = llvm::dyn_cast<llvm::PHINode>(user);
      if (phi == nullptr || phi->getParent() != &block_) continue;
      if (const size_t use = first_use(*phi); use < order_.size()) return time_.back() + time_[use];
    }
    return -1;
  }

  void hoist_loads() {
    std::vector<int> vectors = pressure_.before_each(block_, order_);
    std::vector<int> scalars = pressure_.scalars_before_each(block_, order_);
    std::vector<bool> ahead(order_.size() + 1);  // where a vector is there early
    const bool even = broadcasts();
    const WeightLoads kind = weight_loads();
    const double ahead_of_vector = cycles_ahead(kind);
    // Where values fill the registers, more than one load ahead would only be kept on the stack.
    const bool fits =
        *std::max_element(vectors.begin(), vectors.end()) + largest_load() <= target_.vector_registers;
    size_t last = 0, previous = 0;  // places behind the last vector load, and behind the one before it
    for (size_t i = 0; i < order_.size(); ++i) {
      if (!is_load(*order_[i])) continue;
      const Instruction* load = order_[i];
      const int size = pressure_.registers(*load);
      const bool is_scalar = load->getType()->isFloatingPointTy();
      if (size == 0 && !is_scalar) continue;
      if (!is_scalar) previous = std::exchange(last, i + 1);
      if (!is_scalar && !fits && even) continue;
      const double use = time_of_use(*load);
      if (use < 0) continue;
      size_t to = i;
      const bool shares = target_.floats_in_vectors;
      std::vector<int>& live = is_scalar && !shares ? scalars : vectors;
      const int weight = is_scalar ? 1 : size;
      const double cycles_ahead = is_scalar ? kCyclesAhead : ahead_of_vector;
      // Several sizes of groups do not fill the registers, nor do groups that live for different times.
      const auto most = [&](size_t at) {
        if (is_scalar && !shares) return kScalarsAhead;
        if (!fits) return target_.vector_registers;
        if (kind == WeightLoads::PackedWords) return target_.vector_registers;
        if (ahead[at] || !even) return target_.vector_registers - spare(size);
        return target_.vector_registers - free_beside_sums();
      };
      // A chosen address ends a block of the machine's: LLVM makes a branch of it.
      if (llvm::isa<llvm::SelectInst>(load->getOperand(0))) continue;
      size_t least = std::max(free_from(i), earliest_operands(*load));
      if (!is_scalar && !fits) least = std::max(least, previous);
      while (to > least && use - time_[to] < cycles_ahead + size && live[to] + weight <= most(to)) --to;
      for (size_t at = to + 1; at <= i; ++at) {
        live[at] += weight;
        if (!is_scalar) ahead[at] = true;
      }
      if (to < i) move(*order_[i], static_cast<double>(to) - 0.5);
    }
  }

  // Bytes that become numbers of 16 bits: a product would wait for them as for a load from the first cache.
  void hoist_widening() {
    constexpr double kWait = 6;  // cycles from one to the first product: the latency, and its own
    for (size_t i = 0; i < order_.size(); ++i) {
      if (!llvm::isa<llvm::SExtInst, llvm::ZExtInst>(order_[i]) || !order_[i]->getType()->isVectorTy())
        continue;
      if (!llvm::isa<llvm::LoadInst>(order_[i]->getOperand(0)) ||
          order_[i]->getType()->getScalarSizeInBits() != 16)
        continue;
      // The load may have moved before.
      const auto load = place_.find(llvm::cast<Instruction>(order_[i]->getOperand(0)));
      const size_t least =
          load == place_.end() ? 0 : static_cast<size_t>(std::max(0.0, std::ceil(keys_[load->second])));
      const size_t use = first_use(*order_[i]);
      size_t to = i;
      while (to > least && time_[std::min(use, i)] - time_[to] < kWait) --to;
      if (to < i) move(*order_[i], static_cast<double>(to) - 0.375);
    }
  }

  // The place from which on nothing stands in the way of the memory access at `i`.
  size_t free_from(size_t i) const {
    if (order_[i]->hasMetadata(llvm::LLVMContext::MD_invariant_load)) return 0;
    size_t result = i;
    while (result > 0 &&
           (is_prefetch_load(*order_[result - 1]) || !conflict(*order_[result - 1], *order_[i])))
      --result;
    return result;
  }

  // Many sums to each of which something else is added would wait with all that is loaded for it, and fill
  // the registers for so long that LLVM finds no place for some.
  void raise_stores_that_fit() {
    int own = 0, largest = 1;  // loads for one sum
    for (const Instruction* each : order_) {
      const int registers = pressure_.registers(*each);
      largest = std::max(largest, registers);
      own += registers > 0 && llvm::isa<llvm::LoadInst>(each) && each->hasOneUse();
    }
    const int room = target_.vector_registers - (own >= kSpare && !broadcasts() ? spare(largest) : 0);
    const std::vector<double> before = keys_;
    raise_stores();
    std::vector<Instruction*> raised;
    for (const size_t i : sorted_by_keys()) raised.push_back(order_[i]);
    const auto most = [&](const std::vector<Instruction*>& order) {
      const std::vector<int> live = pressure_.before_each(block_, order);
      return *std::max_element(live.begin(), live.end());
    };
    if (most(raised) > room && (room < target_.vector_registers || most(order_) <= room)) keys_ = before;
  }

  // What is made of a sum behind it comes as soon as the sum is there, so that its store waits for nothing.
  void raise_stores() {
    for (size_t i = 0; i < order_.size(); ++i) {
      const auto* store = llvm::dyn_cast<llvm::StoreInst>(order_[i]);
      if (store == nullptr || store->isVolatile() || !store->getValueOperand()->getType()->isVectorTy())
        continue;
      const size_t least = std::max(free_from(i), earliest_operands(*store));
      llvm::SmallPtrSet<const Instruction*, 16> finish;
      collect_finish(store->getValueOperand(), finish);
      if (finish.size() > kLongFinish) continue;
      llvm::DenseMap<const Value*, double> known;
      double ready = place_finishing(store->getValueOperand(), known);
      ready = std::max(ready, static_cast<double>(least)) - 0.125;
      if (ready < static_cast<double>(i)) move(*store, ready);
    }
  }

  // A call is a multiply-add of a sum, mostly, but where it makes bytes of an integer's sum.
  static bool makes_bytes(const llvm::CallBase& call) {
    if (changes_kind(call)) return true;
    switch (call.getIntrinsicID()) {
      case llvm::Intrinsic::riscv_vfncvt_x_f_w:
      case llvm::Intrinsic::riscv_vfncvt_xu_f_w:
      case llvm::Intrinsic::riscv_vnclip:
      case llvm::Intrinsic::riscv_vnclipu: return true;
      case llvm::Intrinsic::fmuladd: return llvm::isa<llvm::SIToFPInst>(call.getArgOperand(0));
      default: return call.getType()->getScalarSizeInBits() == 16;
    }
  }
  // The upper halves of joined vectors stay where they are: all at the beginning, they would take twice the
  // registers.
  bool finishes(const Instruction& made) const {
    if (is_upper_part(made)) return false;
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&made);
    return place_.contains(&made) && (call == nullptr || makes_bytes(*call)) && !made.mayReadOrWriteMemory();
  }

  // What makes the value behind sums and loads.
  void collect_finish(const Value* value, llvm::SmallPtrSetImpl<const Instruction*>& found) const {
    const auto* made = llvm::dyn_cast<Instruction>(value);
    if (made == nullptr || !finishes(*made) || found.size() > kLongFinish) return;
    if (!changes_kind(*made) && !found.insert(made).second) return;
    for (const llvm::Use& use : made->operands()) collect_finish(use.get(), found);
  }

  // Moves what makes the value behind its operands; returns the place where it is there.
  double place_finishing(const Value* value, llvm::DenseMap<const Value*, double>& known) {
    const auto found = place_.find(llvm::dyn_cast<Instruction>(value));
    if (found == place_.end()) return 0;
    if (const auto before = known.find(value); before != known.end()) return before->second;
    const size_t own = found->second;
    const Instruction& made = *order_[own];
    double ready = 0;
    if (llvm::isa<llvm::LoadInst>(made)) {
      ready = static_cast<double>(std::max(free_from(own), earliest_operands(made)));
    } else if (!finishes(made)) {
      ready = behind(keys_[own]);
    } else {
      for (const llvm::Use& use : made.operands()) ready = std::max(ready, place_finishing(use.get(), known));
      if (ready < keys_[own]) move(made, ready - 0.125);
      ready = behind(ready);
    }
    known[value] = ready;
    return ready;
  }

  // The place by which what is computed at `place` is there.
  double behind(double place) const {
    auto at = static_cast<size_t>(std::max(0.0, place));
    const double start = time_[std::min(at, order_.size())];
    while (at < order_.size() && time_[at] < start + target_.latency) ++at;
    return static_cast<double>(at);
  }

  // Addresses move along; what they are made of in other ways does not.
  static bool is_address(const Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
    return llvm::isa<llvm::GetElementPtrInst>(instruction) ||
           (call != nullptr && call->isInlineAsm() && call->getType()->isPointerTy());
  }
  size_t earliest_operands(const Instruction& instruction) const {
    size_t result = 0;
    for (const llvm::Use& use : instruction.operands()) {
      const auto found = place_.find(llvm::dyn_cast<Instruction>(use.get()));
      if (found == place_.end()) continue;
      const Instruction& made = *order_[found->second];
      result = std::max(result, is_address(made) ? earliest_operands(made) : found->second + 1);
    }
    return result;
  }

  void move(const Instruction& instruction, double key) {
    double& own = keys_[place_.find(&instruction)->second];
    own = std::min(own, key);
    for (const llvm::Use& use : instruction.operands()) {
      const auto found = place_.find(llvm::dyn_cast<Instruction>(use.get()));
      if (found != place_.end() && keys_[found->second] > key) move(*order_[found->second], key);
    }
  }

  void spread_prefetches() {
    std::vector<size_t> prefetches;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (is_prefetch_load(*order_[i])) prefetches.push_back(i);
    }
    if (time_.back() == 0) return;
    // Of a window's rows the last is the one that no other tile has brought near; stores come at the block's
    // end.
    std::reverse(prefetches.begin(), prefetches.end());
    size_t place = 0;
    for (size_t k = 0; k < prefetches.size(); ++k) {
      const double wanted =
          time_.back() * (static_cast<double>(k) + 0.5) / static_cast<double>(prefetches.size());
      while (place < order_.size() && time_[place] < wanted) ++place;
      const size_t least = earliest_operands(*order_[prefetches[k]]);
      keys_[prefetches[k]] = static_cast<double>(std::max(place, least)) - 0.25;
      if (keys_[prefetches[k]] < static_cast<double>(prefetches[k]))
        move(*order_[prefetches[k]], keys_[prefetches[k]]);
    }
  }

  std::vector<size_t> sorted_by_keys() const {
    std::vector<size_t> result(order_.size());
    for (size_t i = 0; i < result.size(); ++i) result[i] = i;
    std::stable_sort(result.begin(), result.end(), [&](size_t a, size_t b) { return keys_[a] < keys_[b]; });
    return result;
  }

  void rearrange() {
    std::vector<size_t> sorted = sorted_by_keys();
    delay_wide_loads(sorted);
    for (const size_t i : sorted) order_[i]->moveBefore(block_.getTerminator());
    if (std::any_of(order_.begin(), order_.end(), [](const Instruction* each) { return is_strided(*each); }))
      delay_prefetches();
  }

  // A load of four long registers takes the memory port for so long that an element's load behind it would
  // hold back the next product: it comes right before that one, behind the elements.
  void delay_wide_loads(std::vector<size_t>& sorted) const {
    constexpr int kWide = 4, kLongBits = 256;
    if (target_.vector_bits < kLongBits) return;
    for (size_t i = sorted.size(); i-- > 0;) {
      const Instruction& load = *order_[sorted[i]];
      if (!llvm::isa<llvm::LoadInst>(load) || pressure_.registers(load) < kWide) continue;
      size_t to = i;
      while (to + 1 < sorted.size()) {
        const Instruction& next = *order_[sorted[to + 1]];
        const bool is_element = llvm::isa<llvm::LoadInst>(next) && pressure_.registers(next) == 0;
        const bool uses = std::any_of(next.op_begin(), next.op_end(),
                                      [&](const llvm::Use& use) { return use.get() == &load; });
        if (uses || (!is_element && (next.mayReadOrWriteMemory() || cycles(next) > 0))) break;
        ++to;
      }
      std::rotate(sorted.begin() + static_cast<std::ptrdiff_t>(i),
                  sorted.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  sorted.begin() + static_cast<std::ptrdiff_t>(to) + 1);
    }
  }

  static bool is_strided(const Instruction& instruction) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction);
    if (call == nullptr) return false;
    const llvm::Intrinsic::ID id = call->getIntrinsicID();
    return id == llvm::Intrinsic::experimental_vp_strided_load || id == llvm::Intrinsic::masked_gather ||
           id == llvm::Intrinsic::masked_scatter || id == llvm::Intrinsic::experimental_vp_strided_store;
  }

  // A strided access takes the memory port for as many cycles as it has elements, and a prefetching load
  // behind it, which waits for the port, would hold back the arithmetic behind itself: prefetches come right
  // before the next one. Their addresses, each made of the one before, come with them.
  void delay_prefetches() {
    std::vector<Instruction*> order, waiting, prefetches;
    for (Instruction& each : block_) order.push_back(&each);
    for (Instruction* each : order) {
      if (is_prefetch_load(*each)) waiting.push_back(each);
      if (!is_strided(*each) && !each->isTerminator()) continue;
      for (Instruction* prefetch : waiting) prefetch->moveBefore(each);
      prefetches.insert(prefetches.end(), waiting.begin(), waiting.end());
      waiting.clear();
    }
    for (Instruction* prefetch : llvm::reverse(prefetches)) {
      auto* address = llvm::dyn_cast<llvm::GetElementPtrInst>(prefetch->getOperand(0));
      if (address == nullptr || address->getParent() != &block_) continue;
      const bool is_needed_before =
          std::any_of(address->user_begin(), address->user_end(), [&](const llvm::User* user) {
            const auto* each = llvm::cast<Instruction>(user);
            return each->getParent() == &block_ && each->comesBefore(prefetch);
          });
      if (!is_needed_before) address->moveBefore(prefetch);
    }
  }

  std::vector<double> keys_;  // of each instruction: places in the order, between which others go
};

}  // namespace

bool orders_code(const Target& target) { return counts_registers(target) && target.vector_bits > 0; }

void order_for_core(llvm::Function& function, const Target& target,
                    const llvm::SmallPtrSetImpl<const BasicBlock*>& interleaved) {
  const Pressure pressure(function, target);
  std::vector<BlockOrder> blocks;
  for (BasicBlock& block : function) blocks.emplace_back(block, pressure, target);
  const bool fits =
      std::all_of(blocks.begin(), blocks.end(), [](const BlockOrder& each) { return each.fits(); });
  const bool broadcasts =
      std::any_of(blocks.begin(), blocks.end(), [](const BlockOrder& each) { return each.broadcasts(); });
  // LLVM's scheduler finds an order that needs fewer registers, at the price of loads right before their use.
  if (!fits && !broadcasts) return;
  for (BlockOrder& each : blocks) each.run(interleaved.contains(&each.block()));
  function.addFnAttr(kOrdered);
  const bool waits = std::any_of(blocks.begin(), blocks.end(),
                                 [](const BlockOrder& each) { return each.waits_for_loads(); });
  // Behind register allocation LLVM's scheduler takes the table of another core, `rescheduled_for`, in place
  // of `scheduled_for`. Not so where loads decide: such a table has loads that hit the first cache, and
  // brings them back to right before their use (a row times AlexNet's largest matrix took 50.7 for 34.1 M
  // cycles).
  if (waits || target.rescheduled_for.empty()) return;
  function.addFnAttr("tune-cpu", target.rescheduled_for);
  if (!target.is_riscv()) return;
  // But no register for each constant that an operation takes as a scalar, and no branches in place of
  // choices, which that core alone joins.
  const std::string features = function.getFnAttribute("target-features").getValueAsString().str();
  function.addFnAttr("target-features", features + (features.empty() ? "" : ",") +
                                            "-optimized-zero-stride-load,-short-forward-branch-opt");
}

}  // namespace tc
