#include "codegen/llvm/passes/pipeline_epilogues.h"

#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/InstructionSimplify.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/ValueHandle.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/llvm/role_metadata.h"

namespace tc {
namespace {

// The least and the most products of a tile, all steps together: with more, the epilogue is a small part.
constexpr size_t kFewest = 16, kMost = 336;
// The most accumulators of a tile: those of two tiles, and what else both parts need, fit 32 registers.
constexpr size_t kMaxSums = 12;

using Instructions = std::vector<llvm::Instruction*>;

bool is_product(const llvm::Instruction& instruction) { return role_of(instruction) == Role::ByteProduct; }

// Blocks of a loop over tiles: `begin`, the loop over the sum, and `end`, which branches to `begin` again.
struct Tiles {
  llvm::BasicBlock *begin, *sum, *end;
};

std::optional<Tiles> tiles_around(llvm::BasicBlock* sum) {
  const auto* branch = llvm::dyn_cast<llvm::BranchInst>(sum->getTerminator());
  if (branch == nullptr || !branch->isConditional() ||
      (branch->getSuccessor(0) == sum) == (branch->getSuccessor(1) == sum))
    return std::nullopt;
  llvm::BasicBlock* end = branch->getSuccessor(branch->getSuccessor(0) == sum ? 1 : 0);
  if (end->getSinglePredecessor() != sum || !sum->hasNPredecessors(2) || !end->phis().empty())
    return std::nullopt;
  auto* again = llvm::dyn_cast<llvm::BranchInst>(end->getTerminator());
  if (again == nullptr || !again->isConditional()) return std::nullopt;
  for (llvm::BasicBlock* begin : again->successors()) {
    if (begin->getSingleSuccessor() == sum && begin->hasNPredecessors(2)) return Tiles{begin, sum, end};
  }
  return std::nullopt;
}

// Unrolls the loop over the sum into the end of `begin`, where it has few trips and their number is known;
// then merges `end` into `begin`.
bool unroll(const Tiles& tiles) {
  const size_t products =
      static_cast<size_t>(std::count_if(tiles.sum->begin(), tiles.sum->end(), is_product));
  if (products == 0) return false;
  const llvm::DataLayout& layout = tiles.sum->getModule()->getDataLayout();
  auto* branch = llvm::cast<llvm::BranchInst>(tiles.sum->getTerminator());
  llvm::Instruction* place = tiles.begin->getTerminator();
  std::vector<llvm::PHINode*> phis;
  for (llvm::PHINode& phi : tiles.sum->phis()) phis.push_back(&phi);
  llvm::ValueToValueMapTy values;
  for (llvm::PHINode* phi : phis) values[phi] = phi->getIncomingValueForBlock(tiles.begin);
  const auto current = [&](llvm::Value* value) -> llvm::Value* {
    const auto found = values.find(value);
    return found != values.end() ? static_cast<llvm::Value*>(found->second) : value;
  };
  Instructions copies;
  for (size_t trips = 1;; ++trips) {
    if (trips * products > kMost) break;
    for (llvm::Instruction& instruction : *tiles.sum) {
      if (llvm::isa<llvm::PHINode>(instruction) || instruction.isTerminator()) continue;
      llvm::Instruction* copy = instruction.clone();
      for (llvm::Use& use : copy->operands()) use.set(current(use.get()));
      copy->insertBefore(place);
      if (llvm::Value* known = llvm::simplifyInstruction(copy, llvm::SimplifyQuery(layout))) {
        values[&instruction] = known;
        copy->eraseFromParent();
        continue;
      }
      values[&instruction] = copy;
      copies.push_back(copy);
    }
    const auto* again = llvm::dyn_cast<llvm::ConstantInt>(current(branch->getCondition()));
    if (again == nullptr) break;
    if (branch->getSuccessor(again->isOne() ? 0 : 1) == tiles.end) {
      for (llvm::Instruction& instruction : *tiles.sum) {
        instruction.replaceUsesOutsideBlock(current(&instruction), tiles.sum);
      }
      llvm::ReplaceInstWithInst(place, llvm::BranchInst::Create(tiles.end));
      llvm::DeleteDeadBlock(tiles.sum);
      llvm::MergeBlockIntoPredecessor(tiles.end);
      return true;
    }
    std::vector<llvm::Value*> next;
    for (llvm::PHINode* phi : phis) next.push_back(current(phi->getIncomingValueForBlock(tiles.sum)));
    for (size_t i = 0; i < phis.size(); ++i) values[phis[i]] = next[i];
  }
  for (auto copy = copies.rbegin(); copy != copies.rend(); ++copy) {
    (*copy)->replaceAllUsesWith(llvm::PoisonValue::get((*copy)->getType()));
    (*copy)->eraseFromParent();
  }
  return false;
}

// The instructions of a loop of one block: what the sums and the loop itself need (`sums`), and all others,
// the epilogue (`rest`).
struct Parts {
  llvm::PHINode* variable = nullptr;
  Instructions sums, rest;
  std::vector<llvm::Instruction*> results;  // sums that `rest` reads
};

void collect(llvm::Value* value, const llvm::BasicBlock* block,
             llvm::SmallPtrSetImpl<llvm::Instruction*>& found) {
  auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (instruction == nullptr || instruction->getParent() != block || llvm::isa<llvm::PHINode>(instruction))
    return;
  if (!found.insert(instruction).second) return;
  for (llvm::Value* operand : instruction->operands()) collect(operand, block, found);
}

// Whether no load of `sums` reads what a store of `rest` writes: their addresses are of different arguments,
// which do not overlap.
bool are_apart(const Parts& parts) {
  llvm::SmallPtrSet<const llvm::Value*, 4> written;
  for (const llvm::Instruction* each : parts.rest) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(each);
    const auto* store = llvm::dyn_cast<llvm::StoreInst>(each);
    if (each->mayWriteToMemory() && store == nullptr && role_of(*each) != Role::Prefetch) return false;
    if (call != nullptr && !llvm::isa<llvm::IntrinsicInst>(call)) return false;
    if (store != nullptr) written.insert(llvm::getUnderlyingObject(store->getPointerOperand()));
  }
  const auto is_argument = [](const llvm::Value* object) {
    const auto* argument = llvm::dyn_cast<llvm::Argument>(object);
    return argument != nullptr && argument->hasNoAliasAttr();
  };
  if (!std::all_of(written.begin(), written.end(), is_argument)) return false;
  return std::all_of(parts.sums.begin(), parts.sums.end(), [&](const llvm::Instruction* each) {
    if (!each->mayReadOrWriteMemory()) return true;
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(each);
    if (load == nullptr) return false;
    const llvm::Value* object = llvm::getUnderlyingObject(load->getPointerOperand());
    return is_argument(object) && !written.contains(object);
  });
}

std::optional<Parts> parts_of(llvm::BasicBlock* block) {
  Parts parts;
  for (llvm::PHINode& phi : block->phis()) {
    if (parts.variable != nullptr || !phi.getType()->isIntegerTy()) return std::nullopt;
    parts.variable = &phi;
  }
  if (parts.variable == nullptr || parts.variable->isUsedOutsideOfBlock(block)) return std::nullopt;
  for (const llvm::BasicBlock* successor : llvm::successors(block)) {
    if (successor != block && !successor->phis().empty()) return std::nullopt;
  }
  llvm::SmallPtrSet<llvm::Instruction*, 32> needed;
  size_t products = 0;
  for (llvm::Instruction& instruction : *block) {
    if (is_product(instruction)) collect(&instruction, block, needed), ++products;
  }
  auto* branch = llvm::cast<llvm::BranchInst>(block->getTerminator());
  collect(branch->getCondition(), block, needed);
  collect(parts.variable->getIncomingValueForBlock(block), block, needed);
  for (llvm::Instruction& instruction : *block) {
    if (llvm::isa<llvm::PHINode>(instruction) || instruction.isTerminator()) continue;
    (needed.contains(&instruction) ? parts.sums : parts.rest).push_back(&instruction);
  }
  for (llvm::Instruction* each : parts.sums) {
    if (each->isUsedOutsideOfBlock(block)) return std::nullopt;
    const bool read = is_product(*each) &&
                      std::any_of(each->users().begin(), each->users().end(), [&](const llvm::User* user) {
                        return !needed.contains(llvm::cast<llvm::Instruction>(user));
                      });
    if (read) parts.results.push_back(each);
  }
  const bool fits =
      products >= kFewest && products <= kMost && !parts.results.empty() && parts.results.size() <= kMaxSums;
  return fits && are_apart(parts) ? std::optional(std::move(parts)) : std::nullopt;
}

// Moves addresses that are the same for all tiles out of the loop: the code after the loop uses them, too.
void hoist_addresses(llvm::BasicBlock* block) {
  llvm::BasicBlock* before = nullptr;
  for (llvm::BasicBlock* each : llvm::predecessors(block)) before = each != block ? each : before;
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(*block)) {
    const bool is_address = llvm::isa<llvm::GetElementPtrInst, llvm::BinaryOperator>(instruction) &&
                            !instruction.getType()->isVectorTy();
    const bool varies = std::any_of(instruction.op_begin(), instruction.op_end(), [&](const llvm::Use& use) {
      const auto* operand = llvm::dyn_cast<llvm::Instruction>(use.get());
      return operand != nullptr && operand->getParent() == block;
    });
    if (is_address && !varies && llvm::isSafeToSpeculativelyExecute(&instruction))
      instruction.moveBefore(before->getTerminator());
  }
}

// Copies instructions, with operands from `values`, and adds the copies there. Instructions of the sums that
// the epilogue needs in addition to the sums themselves (addresses) are copied when they are first needed.
class Copier {
 public:
  Copier(const llvm::BasicBlock* from, llvm::ValueToValueMapTy& values) : from_(from), values_(values) {}

  void copy(llvm::Instruction* instruction, llvm::IRBuilder<>& builder) {
    for (llvm::Value* operand : instruction->operands()) {
      auto* before = llvm::dyn_cast<llvm::Instruction>(operand);
      if (before != nullptr && before->getParent() == from_ && values_.find(before) == values_.end())
        copy(before, builder);
    }
    llvm::Instruction* made = builder.Insert(instruction->clone());
    llvm::RemapInstruction(made, values_, llvm::RF_NoModuleLevelChanges | llvm::RF_IgnoreMissingLocals);
    values_[instruction] = made;
  }

 private:
  const llvm::BasicBlock* from_;
  llvm::ValueToValueMapTy& values_;
};

// Rewrites the loop over tiles as pipeline_epilogues.h describes.
void rotate(llvm::BasicBlock* block, const Parts& parts) {
  llvm::Function* function = block->getParent();
  auto* branch = llvm::cast<llvm::BranchInst>(block->getTerminator());
  const bool goes_on = branch->getSuccessor(0) == block;
  llvm::BasicBlock* after = branch->getSuccessor(goes_on ? 1 : 0);
  llvm::BasicBlock* before =
      parts.variable->getIncomingBlock(parts.variable->getIncomingBlock(0) == block ? 1 : 0);
  const auto new_block = [&](const char* name) {
    return llvm::BasicBlock::Create(function->getContext(), block->getName() + name, function, after);
  };
  llvm::BasicBlock *first = new_block(".first"), *both = new_block(".both"), *last = new_block(".last");
  llvm::Value* next = parts.variable->getIncomingValueForBlock(block);
  const auto branch_on = [&](llvm::IRBuilder<>& builder, llvm::ValueToValueMapTy& values) {
    llvm::Value* condition = branch->getCondition();
    if (const auto found = values.find(condition); found != values.end()) condition = found->second;
    builder.CreateCondBr(condition, goes_on ? both : last, goes_on ? last : both);
  };

  llvm::ValueToValueMapTy one;
  one[parts.variable] = parts.variable->getIncomingValueForBlock(before);
  llvm::IRBuilder<> builder(first);
  for (llvm::Instruction* each : parts.sums) Copier(block, one).copy(each, builder);
  branch_on(builder, one);

  // The values of the tile whose sums are computed, of the tile before it, and of the last tile.
  llvm::ValueToValueMapTy made, kept, ending;
  builder.SetInsertPoint(both);
  std::vector<llvm::PHINode*> carried;
  llvm::PHINode* variable = builder.CreatePHI(parts.variable->getType(), 2);
  llvm::PHINode* previous = builder.CreatePHI(parts.variable->getType(), 2);
  for (llvm::Instruction* result : parts.results) carried.push_back(builder.CreatePHI(result->getType(), 2));
  made[parts.variable] = variable;
  kept[parts.variable] = previous;
  for (size_t i = 0; i < carried.size(); ++i) kept[parts.results[i]] = carried[i];
  Copier sums(block, made), rest(block, kept);
  size_t done = 0;
  for (size_t i = 0; i < parts.sums.size(); ++i) {
    sums.copy(parts.sums[i], builder);
    for (; done < (i + 1) * parts.rest.size() / parts.sums.size(); ++done)
      rest.copy(parts.rest[done], builder);
  }
  branch_on(builder, made);
  const auto in = [](llvm::ValueToValueMapTy& values, llvm::Value* value) -> llvm::Value* {
    const auto found = values.find(value);
    return found != values.end() ? static_cast<llvm::Value*>(found->second) : value;
  };
  variable->addIncoming(in(one, next), first);
  variable->addIncoming(in(made, next), both);
  previous->addIncoming(in(one, parts.variable), first);
  previous->addIncoming(variable, both);

  builder.SetInsertPoint(last);
  llvm::PHINode* final = builder.CreatePHI(parts.variable->getType(), 2);
  final->addIncoming(in(one, parts.variable), first);
  final->addIncoming(variable, both);
  ending[parts.variable] = final;
  for (size_t i = 0; i < carried.size(); ++i) {
    llvm::PHINode* phi = builder.CreatePHI(carried[i]->getType(), 2);
    for (llvm::PHINode* each : {carried[i], phi}) {
      each->addIncoming(in(one, parts.results[i]), first);
      each->addIncoming(in(made, parts.results[i]), both);
    }
    ending[parts.results[i]] = phi;
  }
  for (llvm::Instruction* each : parts.rest) {
    Copier(block, ending).copy(each, builder);
    each->replaceUsesOutsideBlock(in(ending, each), block);
  }
  builder.CreateBr(after);

  before->getTerminator()->replaceSuccessorWith(block, first);
  llvm::DeleteDeadBlock(block);
}

}  // namespace

void pipeline_epilogues(llvm::Function& function) {
  // Where a loop keeps results in registers beside its sums (held_sums.h), two tiles at a time would not fit.
  if (function.hasFnAttribute("tc-holds-sums")) return;
  std::vector<llvm::WeakVH> blocks;  // weak: unrolling a loop deletes the block after it, too
  for (llvm::BasicBlock& block : function) {
    if (std::any_of(block.begin(), block.end(), is_product)) blocks.emplace_back(&block);
  }
  for (const llvm::WeakVH& each : blocks) {
    auto* block = llvm::cast_or_null<llvm::BasicBlock>(static_cast<llvm::Value*>(each));
    if (block == nullptr) continue;
    if (const auto tiles = tiles_around(block); tiles && unroll(*tiles)) block = tiles->begin;
    const auto* branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
    const bool is_loop = branch != nullptr && branch->isConditional() &&
                         (branch->getSuccessor(0) == block) != (branch->getSuccessor(1) == block);
    if (!is_loop || !block->hasNPredecessors(2)) continue;
    hoist_addresses(block);
    if (const auto parts = parts_of(block)) rotate(block, *parts);
  }
}

}  // namespace tc
