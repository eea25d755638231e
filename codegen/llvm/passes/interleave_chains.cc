#include "codegen/llvm/passes/interleave_chains.h"

#include <llvm/ADT/DenseSet.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "codegen/llvm/pass_support/straight_line.h"

namespace tc {
namespace {

using llvm::BasicBlock;
using llvm::Instruction;
using llvm::Value;

// The least operations that a chain has for each of its loads; sums of products have one.
constexpr size_t kLong = 6;
// The least number of chains that take turns: a target stands for a class of cores, some of which have wider
// units than its table says.
constexpr int kMinChains = 2;

class Chains : public StraightLine {
 public:
  using StraightLine::StraightLine;

  // Returns whether it changed the order.
  bool run() {
    find_chains();
    if (chains_.size() < kMinChains) return false;
    // Where the constants do not fit as well, LLVM broadcasts each again before its use.
    const auto [all, largest] = constant_registers();
    return interleaves(all) || interleaves(largest);
  }

 private:
  // Interleaves as many chains as fit the vector registers beside so many for constants. Returns whether two
  // or more do.
  bool interleaves(int constants) {
    for (int count = wanted(); count >= kMinChains; --count) {
      std::vector<Instruction*> instructions;
      for (const size_t each : in_turns(static_cast<size_t>(count))) instructions.push_back(order_[each]);
      const std::vector<int> live = pressure_.before_each(block_, instructions);
      if (*std::max_element(live.begin(), live.end()) + constants > target_.vector_registers) continue;
      for (Instruction* each : instructions) each->moveBefore(block_.getTerminator());
      return true;
    }
    return false;
  }

  bool computes(const Instruction& instruction) const {
    return pressure_.registers(instruction) > 0 && !llvm::isa<llvm::LoadInst>(instruction) &&
           !is_splat(instruction);
  }

  // Finds a chain for each store of a vector: the instructions that it needs and no earlier store does.
  // Where one chain is short, there are none: other passes order such blocks.
  void find_chains() {
    std::vector<bool> taken(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) {
      const auto* store = llvm::dyn_cast<llvm::StoreInst>(order_[i]);
      if (store == nullptr || store->isVolatile() || pressure_.registers(*store->getValueOperand()) == 0)
        continue;
      std::vector<bool> own(order_.size());
      collect(i, taken, own);
      std::vector<size_t> chain;
      size_t operations = 0, loads = 0;
      for (size_t at = 0; at < order_.size(); ++at) {
        if (!own[at]) continue;
        taken[at] = true;
        chain.push_back(at);
        operations += computes(*order_[at]) ? 1 : 0;
        loads += llvm::isa<llvm::LoadInst>(*order_[at]) ? 1 : 0;
      }
      if (operations < kLong * std::max<size_t>(loads, 1)) {
        chains_.clear();
        return;
      }
      chains_.push_back(std::move(chain));
    }
  }
  void collect(size_t at, const std::vector<bool>& taken, std::vector<bool>& own) const {
    if (taken[at] || own[at]) return;
    own[at] = true;
    for (const size_t each : graph_.operands(at)) collect(each, taken, own);
  }

  // The number of chains that hides the latency of the vector unit.
  int wanted() const {
    int registers = 1;
    for (const Instruction* each : order_) registers = std::max(registers, pressure_.registers(*each));
    return std::max(kMinChains, times_.operations_in_flight(registers));
  }

  // Registers of all constants to which a product is added, and of the largest of them: no operation takes
  // those as scalars.
  std::pair<int, int> constant_registers() const {
    llvm::DenseSet<const Value*> constants;
    int all = 0, largest = 0;
    for (const Instruction* each : order_) {
      const auto* call = llvm::dyn_cast<llvm::CallBase>(each);
      if (call == nullptr || call->arg_size() != 3 || pressure_.registers(*each) == 0) continue;
      const Value* added = call->getArgOperand(2);
      if (!llvm::isa<llvm::Constant>(added) || !constants.insert(added).second) continue;
      all += pressure_.registers(*each);
      largest = std::max(largest, pressure_.registers(*each));
    }
    return {all, largest};
  }

  // The places of instructions in the new order: one operation of each of at most `count` chains in turn,
  // then likewise for the next chains, and the rest at the end.
  std::vector<size_t> in_turns(size_t count) const {
    ListScheduler scheduler(graph_.needs([](const Instruction& later, const Instruction& earlier) {
      return role_of(later) == Role::Prefetch || role_of(earlier) == Role::Prefetch;
    }));
    std::vector<size_t> result;
    // Groups are equally large: four chains become two and two rather than three and one.
    const size_t groups = (chains_.size() + count - 1) / count, size = (chains_.size() + groups - 1) / groups;
    for (size_t first = 0; first < chains_.size(); first += size) {
      const size_t end = std::min(first + size, chains_.size());
      std::vector<size_t> next(end - first);
      for (bool more = true; more;) {
        more = false;
        for (size_t chain = first; chain < end; ++chain) {
          size_t& at = next[chain - first];
          bool computed = false;
          while (at < chains_[chain].size() && !computed) {
            const size_t place = chains_[chain][at++];
            computed = computes(*order_[place]);
            scheduler.list(place, result);
          }
          more = more || at < chains_[chain].size();
        }
      }
    }
    for (size_t i = 0; i < order_.size(); ++i) scheduler.list(i, result);
    return result;
  }

  std::vector<std::vector<size_t>> chains_;  // places of the instructions of each
};

}  // namespace

llvm::SmallPtrSet<const BasicBlock*, 4> interleave_chains(llvm::Function& function, const Target& target) {
  const Pressure pressure(function, target);
  llvm::SmallPtrSet<const BasicBlock*, 4> changed;
  for (BasicBlock& block : function) {
    if (Chains(block, pressure, target).run()) changed.insert(&block);
  }
  return changed;
}

}  // namespace tc
