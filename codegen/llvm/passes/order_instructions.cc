#include "codegen/llvm/passes/order_instructions.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "codegen/llvm/passes/pipeline_operand_loads.h"
#include "codegen/llvm/pass_support/straight_line.h"
#include "ir/loop.h"
#include "ir/target/register_groups.h"

namespace tc {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

// The most operations between a sum and its store that are moved with the store; more need registers of
// their own.
constexpr size_t kLongFinish = 8;
// The most bytes that are loaded early to general-purpose registers.
constexpr int kBytesAhead = 6;
// Groups of vector registers that stay free where more than one load is ahead of its use.
constexpr int kSpare = 3;

// The attribute of functions whose order of instructions LLVM has to keep.
constexpr const char* kOrdered = "tc-ordered";

class BlockOrder : public StraightLine {
 public:
  using StraightLine::StraightLine;

  const BasicBlock& block() const { return block_; }
  bool fits() const { return leaves_free(0); }
  // Whether nearly every operation reads a vector of its own from memory, or the block streams weights: the
  // time then depends on how early loads are issued.
  bool waits_for_loads() const {
    constexpr double kLoadsOfOperations = 0.75;  // depthwise convolutions have 0.5, average pooling 0.9
    constexpr size_t kFew = 8;                   // blocks with fewer operations enter or leave a loop
    size_t loads = 0, operations = 0;
    for (const Instruction* each : order_) {
      if (pressure_.registers(*each) == 0 || is_splat(*each)) continue;
      (llvm::isa<llvm::LoadInst>(each) ? loads : operations) += 1;
    }
    return weight_loads() != WeightLoads::None ||
           (operations >= kFew &&
            static_cast<double>(loads) > kLoadsOfOperations * static_cast<double>(operations));
  }

  bool has_strided_stores() const {
    return std::any_of(order_.begin(), order_.end(),
                       [](const Instruction* each) { return is_strided(*each) && each->mayWriteToMemory(); });
  }

  // Where chains are interleaved, a store and what leads to it keep their places.
  void run(bool is_interleaved) {
    measure();
    keys_.resize(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) keys_[i] = static_cast<double>(i);
    if (!is_interleaved) raise_stores_that_fit();
    if (!multiplies_matrices() || !spread_loads()) hoist_loads();
    hoist_widening();
    spread_prefetches();
    rearrange();
  }

 private:
  // Whether the instruction is a load that may move ahead of its use: a plain load that is not volatile, a
  // strided or a masked one.
  static bool is_load(const Instruction& instruction) {
    if (const auto* call = llvm::dyn_cast<llvm::CallBase>(&instruction)) {
      const llvm::Intrinsic::ID id = call->getIntrinsicID();
      return id == llvm::Intrinsic::experimental_vp_strided_load || id == llvm::Intrinsic::masked_gather ||
             id == llvm::Intrinsic::masked_load;
    }
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
    return load != nullptr && !load->isVolatile();
  }

  // Registers that stay free in addition to groups of this size. Where a block of channels is a single
  // register, LLVM uses a few more, since it moves some loads ahead of the order that it is given.
  int spare(int size) const { return kSpare * (block_is_one_register() ? std::max(2, size) : size); }

  int largest_load() const {
    int result = 0;
    for (const Instruction* each : order_) {
      if (llvm::isa<llvm::LoadInst>(each)) result = std::max(result, pressure_.registers(*each));
    }
    return result;
  }

  // How a block that multiplies a matrix by a vector loads its weights: as vectors, each of which serves one
  // product, or packed in words, where two loaded vectors serve three products.
  enum class WeightLoads { None, Vectors, PackedWords };
  WeightLoads weight_loads() const {
    size_t loads = 0, products = 0, conversions = 0;
    for (const Instruction* each : order_) {
      if (!each->getType()->isVectorTy()) continue;
      loads += llvm::isa<llvm::LoadInst>(each);
      conversions += llvm::isa<llvm::SIToFPInst>(each);
      products += adds_product(*each);
    }
    constexpr int kWide = 4;  // registers; smaller vectors are read in several streams
    if (!broadcasts() || products < kFewProducts || largest_load() < kWide) return WeightLoads::None;
    if (conversions >= products && loads * kValuesInWords >= products * kWordsOfValues)
      return WeightLoads::PackedWords;
    return loads >= products ? WeightLoads::Vectors : WeightLoads::None;
  }
  // How long before its use a vector is loaded.
  double cycles_ahead(WeightLoads loads) const {
    switch (loads) {
      case WeightLoads::Vectors: return times_.streamed_load();
      case WeightLoads::PackedWords: return times_.packed_load();
      case WeightLoads::None: break;
    }
    return times_.load();
  }

  // The time at which the value is needed, in this trip or in the next one; negative where it is not needed.
  double time_of_use(const Instruction& value) const {
    if (const size_t use = first_use(value); use < order_.size()) return time_[use];
    for (const llvm::User* user : value.users()) {
      const auto* phi = llvm::dyn_cast<llvm::PHINode>(user);
      if (phi == nullptr || phi->getParent() != &block_) continue;
      if (const size_t use = first_use(*phi); use < order_.size()) return time_.back() + time_[use];
    }
    return -1;
  }

  // Products of matrices take a cycle each, about as long as the loads of their operands: loads and products
  // alternate evenly, with as many loads ahead as registers allow. Returns whether any order fits them.
  bool spread_loads() {
    std::vector<size_t> products;
    std::vector<std::pair<size_t, size_t>> loads;  // place of the first use, and of the load
    for (size_t i = 0; i < order_.size(); ++i) {
      if (role_of(*order_[i]) == Role::MatrixProduct) products.push_back(i);
      if (!is_load(*order_[i]) || pressure_.registers(*order_[i]) == 0) continue;
      if (const size_t use = product_of(*order_[i]); use < order_.size()) loads.emplace_back(use, i);
    }
    std::sort(loads.begin(), loads.end());
    constexpr size_t kMostAhead = 10;
    const std::vector<double> before = keys_;
    for (size_t ahead = kMostAhead; ahead > 0; --ahead) {
      for (size_t j = 0; j < loads.size(); ++j) {
        const size_t product = j < ahead ? 0 : (j - ahead) * products.size() / loads.size();
        const auto [use, place] = loads[j];
        const double least = static_cast<double>(std::max(graph_.free_from(place), products[0]));
        const double key = std::max(static_cast<double>(std::min(products[product], use)), least);
        keys_[place] = key - 0.5 + 0.25 * static_cast<double>(j) / static_cast<double>(loads.size());
      }
      std::vector<Instruction*> spread;
      for (const size_t i : sorted_by_keys()) spread.push_back(order_[i]);
      const std::vector<int> live = pressure_.before_each(block_, spread);
      if (*std::max_element(live.begin(), live.end()) <= target_.vector_registers) return true;
      keys_ = before;
    }
    return false;
  }

  // The place of the first product that reads the vector, also through a change of its kind.
  size_t product_of(const Value& value) const {
    size_t result = order_.size();
    for (const llvm::User* user : value.users()) {
      const size_t place = graph_.place(user);
      if (place >= graph_.size()) continue;
      result = std::min(result, changes_kind(*user) ? product_of(*user) : place);
    }
    return result;
  }

  // A byte that products multiply all lanes by.
  static bool is_byte_of_all_lanes(const Instruction& load) {
    return load.getType()->isIntegerTy(8) && !load.use_empty() &&
           std::all_of(load.user_begin(), load.user_end(), [](const llvm::User* user) {
             const auto* product = llvm::dyn_cast<Instruction>(user);
             return product != nullptr && role_of(*product) == Role::BroadcastProduct;
           });
  }

  void hoist_loads() {
    std::vector<int> vectors = pressure_.before_each(block_, order_);
    std::vector<int> scalars = pressure_.scalars_before_each(block_, order_);
    std::vector<int> bytes(order_.size() + 1);   // those loaded early
    std::vector<bool> ahead(order_.size() + 1);  // where a vector has been loaded early
    const bool even = broadcasts();
    const WeightLoads kind = weight_loads();
    const double ahead_of_vector = cycles_ahead(kind);
    // Where values fill the registers, more than one load ahead of its use would only be spilled.
    const bool fits =
        *std::max_element(vectors.begin(), vectors.end()) + largest_load() <= target_.vector_registers;
    size_t last = 0, previous = 0;  // places after the last vector load, and after the one before it
    for (size_t i = 0; i < order_.size(); ++i) {
      if (!is_load(*order_[i])) continue;
      const Instruction* load = order_[i];
      const int size = pressure_.registers(*load);
      const bool is_byte = is_byte_of_all_lanes(*load);
      const bool is_scalar = load->getType()->isFloatingPointTy() || is_byte;
      if (size == 0 && !is_scalar) continue;
      if (!is_scalar) previous = std::exchange(last, i + 1);
      if (!is_scalar && !fits && even) continue;
      const double use = time_of_use(*load);
      if (use < 0) continue;
      size_t to = i;
      const bool shares = target_.floats_in_vectors;
      std::vector<int>& live = is_byte ? bytes : is_scalar && !shares ? scalars : vectors;
      const int weight = is_scalar ? 1 : size;
      const double cycles_ahead = is_scalar ? times_.load() : ahead_of_vector;
      // Groups of several sizes, or with different lifetimes, leave gaps between them.
      const auto most = [&](size_t at) {
        if (is_byte) return kBytesAhead;
        if (is_scalar && !shares) return kScalarsAhead;
        if (!fits) return target_.vector_registers;
        if (kind == WeightLoads::PackedWords) return target_.vector_registers;
        if (ahead[at] || !even) return target_.vector_registers - spare(size);
        return target_.vector_registers - free_beside_sums();
      };
      // LLVM makes a branch of the select of an address, which ends the basic block of machine code.
      if (llvm::isa<llvm::SelectInst>(load->getOperand(0))) continue;
      size_t least = std::max(graph_.free_from(i), graph_.after_operands(i));
      if (!is_scalar && !fits) least = std::max(least, previous);
      while (to > least && use - time_[to] < cycles_ahead + size && live[to] + weight <= most(to)) --to;
      for (size_t at = to + 1; at <= i; ++at) {
        live[at] += weight;
        if (!is_scalar) ahead[at] = true;
      }
      if (to < i) move(i, static_cast<double>(to) - 0.5);
    }
  }

  // Moves the widening of bytes to 16 bits ahead of the products: they would wait for it as long as for a
  // load from the first-level cache.
  void hoist_widening() {
    for (size_t i = 0; i < order_.size(); ++i) {
      if (role_of(*order_[i]) != Role::Widening) continue;
      // The load may have moved before.
      const size_t load = graph_.place(order_[i]->getOperand(0));
      const size_t least =
          load == graph_.size() ? 0 : static_cast<size_t>(std::max(0.0, std::ceil(keys_[load])));
      // Cycles from it to the first product: its latency, and those that it takes in the vector unit.
      const double wait = times_.result() + times_.occupied(pressure_.registers(*order_[i]));
      const size_t use = first_use(*order_[i]);
      size_t to = i;
      while (to > least && time_[std::min(use, i)] - time_[to] < wait) --to;
      if (to < i) move(i, static_cast<double>(to) - 0.375);
    }
  }

  // Moves stores ahead by raise_stores(), but undoes that where values then do not fit the registers. Where
  // each of many sums is added to a loaded value of its own, these values would fill the registers for so
  // long that LLVM finds no place for some.
  void raise_stores_that_fit() {
    int own = 0, largest = 1;  // loads that serve one sum alone
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

  // Moves the operations between a sum and its store to right after the sum, so that the store waits for
  // nothing.
  void raise_stores() {
    for (size_t i = 0; i < order_.size(); ++i) {
      const auto* store = llvm::dyn_cast<llvm::StoreInst>(order_[i]);
      if (store == nullptr || store->isVolatile() || !store->getValueOperand()->getType()->isVectorTy())
        continue;
      const size_t least = std::max(graph_.free_from(i), graph_.after_operands(i));
      llvm::SmallPtrSet<const Instruction*, 16> finish;
      collect_finish(store->getValueOperand(), finish);
      if (finish.size() > kLongFinish) continue;
      llvm::DenseMap<const Value*, double> known;
      double ready = place_finishing(store->getValueOperand(), known);
      ready = std::max(ready, static_cast<double>(least)) - 0.125;
      if (ready < static_cast<double>(i)) move(i, ready);
    }
  }

  // Whether the call is an operation that converts an integer sum to bytes; most other calls are
  // multiply-adds of a sum.
  static bool makes_bytes(const llvm::CallBase& call) {
    if (changes_kind(call) || role_of(call) == Role::Rounding) return true;
    if (call.getIntrinsicID() == llvm::Intrinsic::fmuladd)
      return llvm::isa<llvm::SIToFPInst>(call.getArgOperand(0));
    return call.getType()->getScalarSizeInBits() == 16;
  }
  // Whether the instruction is one of the operations between a sum and its store. The upper halves of joined
  // vectors are not, so that they stay where they are: all at the beginning, they would take twice the
  // registers.
  bool finishes(const Instruction& made) const {
    if (is_upper_part(made)) return false;
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&made);
    return graph_.contains(&made) && (call == nullptr || makes_bytes(*call)) && !made.mayReadOrWriteMemory();
  }

  // Collects the operations that compute the value from sums and loads.
  void collect_finish(const Value* value, llvm::SmallPtrSetImpl<const Instruction*>& found) const {
    const auto* made = llvm::dyn_cast<Instruction>(value);
    if (made == nullptr || !finishes(*made) || found.size() > kLongFinish) return;
    if (!changes_kind(*made) && !found.insert(made).second) return;
    for (const llvm::Use& use : made->operands()) collect_finish(use.get(), found);
  }

  // Moves the operations that compute the value to right after their operands; returns the place at which
  // the value is available.
  double place_finishing(const Value* value, llvm::DenseMap<const Value*, double>& known) {
    const size_t own = graph_.place(value);
    if (own == graph_.size()) return 0;
    if (const auto before = known.find(value); before != known.end()) return before->second;
    const Instruction& made = *order_[own];
    double ready = 0;
    if (llvm::isa<llvm::LoadInst>(made)) {
      ready = static_cast<double>(std::max(graph_.free_from(own), graph_.after_operands(own)));
    } else if (!finishes(made)) {
      ready = behind(keys_[own]);
    } else {
      for (const llvm::Use& use : made.operands()) ready = std::max(ready, place_finishing(use.get(), known));
      if (ready < keys_[own]) move(own, ready - 0.125);
      ready = behind(ready);
    }
    known[value] = ready;
    return ready;
  }

  // The place at which the result of what is computed at `place` is available.
  double behind(double place) const {
    auto at = static_cast<size_t>(std::max(0.0, place));
    const double start = time_[std::min(at, order_.size())];
    while (at < order_.size() && time_[at] < start + times_.result()) ++at;
    return static_cast<double>(at);
  }

  // Moves the instruction at this place, together with its operands.
  void move(size_t place, double key) {
    keys_[place] = std::min(keys_[place], key);
    for (const size_t each : graph_.operands(place)) {
      if (keys_[each] > key) move(each, key);
    }
  }

  void spread_prefetches() {
    std::vector<size_t> prefetches;
    for (size_t i = 0; i < order_.size(); ++i) {
      if (role_of(*order_[i]) == Role::Prefetch) prefetches.push_back(i);
    }
    if (time_.back() == 0) return;
    // Of a window's rows only the last has not been prefetched by an earlier tile, and stores come at the
    // block's end: the prefetches are placed in reverse.
    std::reverse(prefetches.begin(), prefetches.end());
    size_t place = 0;
    for (size_t k = 0; k < prefetches.size(); ++k) {
      const double wanted =
          time_.back() * (static_cast<double>(k) + 0.5) / static_cast<double>(prefetches.size());
      while (place < order_.size() && time_[place] < wanted) ++place;
      const size_t least = graph_.after_operands(prefetches[k]);
      keys_[prefetches[k]] = static_cast<double>(std::max(place, least)) - 0.25;
      if (keys_[prefetches[k]] < static_cast<double>(prefetches[k]))
        move(prefetches[k], keys_[prefetches[k]]);
    }
  }

  // Prefetches have no place among the accesses of their buffer, nor have loads of what nothing writes.
  std::vector<size_t> sorted_by_keys() const {
    const auto moves = [](const Instruction& each) {
      return role_of(each) == Role::Prefetch || each.hasMetadata(llvm::LLVMContext::MD_invariant_load);
    };
    ListScheduler scheduler(graph_.needs([&](const Instruction& later, const Instruction& earlier) {
      return moves(later) || moves(earlier);
    }));
    std::vector<size_t> result;
    scheduler.list_by(keys_, result);
    return result;
  }

  void rearrange() {
    std::vector<size_t> sorted = sorted_by_keys();
    delay_wide_loads(sorted);
    for (const size_t i : sorted) order_[i]->moveBefore(block_.getTerminator());
    if (std::any_of(order_.begin(), order_.end(), [](const Instruction* each) { return is_strided(*each); }))
      delay_prefetches();
  }

  // Moves each load of four long registers after the loads of elements that follow it, to right before the
  // next product. It occupies the memory port for so long that the load of an element after it would delay
  // that product.
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

  // Moves prefetches to right before the next strided access, with their addresses, each of which is
  // computed from the one before. A strided access occupies the memory port for as many cycles as it has
  // elements; a prefetch after it would wait for the port and delay the arithmetic that follows.
  void delay_prefetches() {
    std::vector<Instruction*> order, waiting, prefetches;
    for (Instruction& each : block_) order.push_back(&each);
    for (Instruction* each : order) {
      if (role_of(*each) == Role::Prefetch) waiting.push_back(each);
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

  std::vector<double> keys_;  // of each instruction: its place, or a fraction between two places
};

}  // namespace

void order_instructions(llvm::Function& function, const Target& target,
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
  // After register allocation LLVM's scheduler uses the scheduling model of another core, `rescheduled_for`,
  // in place of that of `scheduled_for`. Not where loads decide the time: that model assumes loads that hit
  // the first-level cache, and moves them back to right before their use (a row times AlexNet's largest
  // matrix took 50.7 instead of 34.1 M cycles). Nor where stores are strided: while the first one occupies
  // the memory port, LLVM would issue the arithmetic of all, and the others would have none to hide.
  const bool strides = std::any_of(blocks.begin(), blocks.end(),
                                   [](const BlockOrder& each) { return each.has_strided_stores(); });
  if (waits || strides || target.rescheduled_for.empty()) return;
  function.addFnAttr("tune-cpu", target.rescheduled_for);
  if (!target.is_riscv()) return;
  // Two features of that core are off: it would take a register for each constant that an operation can take
  // as a scalar, and branches in place of selects, which only that core fuses.
  const std::string features = function.getFnAttribute("target-features").getValueAsString().str();
  function.addFnAttr("target-features", features + (features.empty() ? "" : ",") +
                                            "-optimized-zero-stride-load,-short-forward-branch-opt");
}

}  // namespace tc
