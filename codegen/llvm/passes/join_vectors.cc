#include "codegen/llvm/passes/join_vectors.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/MapVector.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/Local.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/pass_support/dependences.h"
#include "codegen/llvm/pass_support/register_pressure.h"

namespace tc {
namespace {

using llvm::Instruction;
using llvm::LoadInst;
using llvm::PHINode;
using llvm::Value;

// The number of products in a function from which joining pays for separating the sums at the end.
constexpr size_t kFewProducts = 64;

// weights * element + sum, or weights * element where a sum begins.
struct Product {
  LoadInst* weights = nullptr;
  Value *element = nullptr, *sum = nullptr;
};

// Not by its role: the operands are needed anyway, and the multiplication with which a sum begins has none.
std::optional<Product> product_of(Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
  const bool adds = call != nullptr && call->getIntrinsicID() == llvm::Intrinsic::fmuladd;
  if (!adds && instruction.getOpcode() != Instruction::FMul) return std::nullopt;
  if (!llvm::isa<llvm::FixedVectorType>(instruction.getType())) return std::nullopt;
  Value *a = instruction.getOperand(0), *b = instruction.getOperand(1);
  if (llvm::isa<LoadInst>(b)) std::swap(a, b);
  auto* weights = llvm::dyn_cast<LoadInst>(a);
  Value* element = const_cast<Value*>(llvm::getSplatValue(b));
  if (weights == nullptr || element == nullptr || llvm::isa<llvm::Constant>(element) || weights->isVolatile())
    return std::nullopt;
  return Product{weights, element, adds ? instruction.getOperand(2) : nullptr};
}

class Joiner {
 public:
  Joiner(llvm::Function& function, const Target& target)
      : function_(function), target_(target), dominators_(function) {}

  void run() {
    for (llvm::BasicBlock& block : function_) pair_products(block);
    pair_phis();
    while (drop_alone()) {}
    const auto products = std::count_if(second_.begin(), second_.end(), [](const auto& each) {
      const auto product = product_of(*each.first);
      return product && product->sum != nullptr;
    });
    if (static_cast<size_t>(products) < kFewProducts || !fits() || joins_in_part()) return;
    join();
  }

 private:
  // Bytes from the address of `first` to that of `second`; nothing where that is not known.
  std::optional<int64_t> distance(const LoadInst& first, const LoadInst& second) const {
    const llvm::DataLayout& layout = function_.getParent()->getDataLayout();
    llvm::APInt a(64, 0), b(64, 0);
    const Value* from =
        first.getPointerOperand()->stripAndAccumulateConstantOffsets(layout, a, /*AllowNonInbounds=*/true);
    const Value* to =
        second.getPointerOperand()->stripAndAccumulateConstantOffsets(layout, b, /*AllowNonInbounds=*/true);
    return from == to ? std::optional((b - a).getSExtValue()) : std::nullopt;
  }

  bool is_half(const llvm::Type& type) const {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(&type);
    return vector != nullptr && vector->getElementType()->isFloatTy() &&
           static_cast<int>(vector->getNumElements()) * 32 <= 2 * target_.vector_bits;
  }

  // Whether one load at the place of the later one reads what both read: nothing writes it in between.
  static bool may_load_together(const LoadInst& a, const LoadInst& b) {
    const LoadInst &first = a.comesBefore(&b) ? a : b, &last = &first == &a ? b : a;
    for (const Instruction* each = &first; each != &last; each = each->getNextNode()) {
      if (each->mayWriteToMemory() && role_of(*each) != Role::Prefetch && conflict(*each, first))
        return false;
    }
    return true;
  }

  // Pairs the products of adjacent vectors of weights with the same element.
  void pair_products(llvm::BasicBlock& block) {
    llvm::MapVector<Value*, std::vector<std::pair<Instruction*, Product>>> by_element;
    for (Instruction& each : block) {
      if (!is_half(*each.getType())) continue;
      const auto product = product_of(each);
      if (product && product->weights->getParent() == &block)
        by_element[product->element].push_back({&each, *product});
    }
    for (const auto& [element, products] : by_element) {
      for (size_t i = 0; i < products.size(); ++i) {
        for (size_t j = 0; j < products.size(); ++j) {
          const auto& [first, a] = products[i];
          const auto& [second, b] = products[j];
          if (i == j || second_.contains(first) || first_.contains(second) || second_.contains(second) ||
              first_.contains(first))
            continue;
          if ((a.sum == nullptr) != (b.sum == nullptr) ||
              distance(*a.weights, *b.weights) != bytes_of(*a.weights))
            continue;
          if (may_load_together(*a.weights, *b.weights)) pair(*first, *second);
        }
      }
    }
  }

  static int64_t bytes_of(const LoadInst& load) {
    return static_cast<int64_t>(load.getType()->getPrimitiveSizeInBits().getFixedValue()) / 8;
  }

  void pair(Instruction& first, Instruction& second) {
    second_[&first] = &second;
    first_[&second] = &first;
  }

  // Pairs the phi nodes that carry paired sums, of inner loops and of those around them.
  void pair_phis() {
    std::vector<std::pair<Value*, Value*>> sums;
    for (const auto& [first, second] : second_)
      sums.emplace_back(product_of(*first)->sum, product_of(*second)->sum);
    while (!sums.empty()) {
      auto *p = llvm::dyn_cast_or_null<PHINode>(sums.back().first),
           *q = llvm::dyn_cast_or_null<PHINode>(sums.back().second);
      sums.pop_back();
      if (p == nullptr || q == nullptr || p == q || p->getParent() != q->getParent() || second_.contains(p) ||
          first_.contains(q))
        continue;
      pair(*p, *q);
      for (llvm::BasicBlock* before : p->blocks())
        sums.emplace_back(p->getIncomingValueForBlock(before), q->getIncomingValueForBlock(before));
    }
  }

  // Whether both values exist as one joined value: they are a pair, or the same constant.
  bool is_joined(Value* a, Value* b) const {
    const auto found = second_.find(llvm::dyn_cast<Instruction>(a));
    if (found != second_.end()) return found->second == b;
    return a == b && llvm::isa<llvm::Constant>(a);
  }

  // Whether a user of the half comes before the place of the joined value.
  bool is_needed_early(Instruction& half, const Instruction& place) const {
    return std::any_of(half.user_begin(), half.user_end(), [&](const llvm::User* user) {
      const auto* each = llvm::cast<Instruction>(user);
      if (second_.contains(const_cast<Instruction*>(each)) || first_.contains(const_cast<Instruction*>(each)))
        return false;
      return each->getParent() == place.getParent() && !llvm::isa<PHINode>(each) && each->comesBefore(&place);
    });
  }

  static Instruction& later(Instruction& a, Instruction& b) { return a.comesBefore(&b) ? b : a; }

  bool is_alone(Instruction& first, Instruction& second) const {
    if (auto* p = llvm::dyn_cast<PHINode>(&first)) {
      auto* q = llvm::cast<PHINode>(&second);
      for (llvm::BasicBlock* before : p->blocks()) {
        if (!is_joined(p->getIncomingValueForBlock(before), q->getIncomingValueForBlock(before))) return true;
      }
      return false;
    }
    const auto a = product_of(first), b = product_of(second);
    if (a->sum != nullptr && !is_joined(a->sum, b->sum)) return true;
    const Instruction& place = later(first, second);
    return is_needed_early(first, place) || is_needed_early(second, place);
  }

  // Drops pairs whose operands are no pair; returns whether there were any.
  bool drop_alone() {
    std::vector<Instruction*> alone;
    for (const auto& [first, second] : second_) {
      if (is_alone(*first, *second)) alone.push_back(first);
    }
    for (Instruction* each : alone) {
      first_.erase(second_.find(each)->second);
      second_.erase(each);
    }
    return !alone.empty();
  }

  // Whether the joined sums of each block leave registers for the weights of one step and of the next.
  bool fits() const {
    llvm::DenseMap<const llvm::BasicBlock*, int> sums;
    int most = 0, registers = 1;
    for (const auto& [first, second] : second_) {
      const auto product = product_of(*first);
      if (llvm::isa<PHINode>(first) || (product && product->sum == nullptr))
        most = std::max(most, ++sums[first->getParent()]);
      registers = static_cast<int>(
          std::max<uint64_t>(1, joined_type(*first)->getPrimitiveSizeInBits().getFixedValue() /
                                    static_cast<uint64_t>(target_.vector_bits)));
    }
    return (most + 2) * registers <= target_.vector_registers;
  }

  // Whether some block would contain joined and single vectors: its instructions would alternate between two
  // vector lengths, and each change takes an instruction that sets the length.
  bool joins_in_part() const {
    llvm::DenseSet<const llvm::BasicBlock*> apart;  // blocks with products that are in no pair
    for (Instruction& each : llvm::instructions(function_)) {
      const auto product = is_half(*each.getType()) ? product_of(each) : std::nullopt;
      if (product && product->sum != nullptr && !second_.contains(&each) && !first_.contains(&each))
        apart.insert(each.getParent());
    }
    return std::any_of(second_.begin(), second_.end(),
                       [&](const auto& each) { return apart.contains(each.first->getParent()); });
  }

  llvm::FixedVectorType* joined_type(const Value& half) const {
    auto* type = llvm::cast<llvm::FixedVectorType>(half.getType());
    return llvm::FixedVectorType::get(type->getElementType(), 2 * type->getNumElements());
  }

  Value* joined(Value* half) {
    if (auto* constant = llvm::dyn_cast<llvm::Constant>(half)) {
      return llvm::ConstantVector::getSplat(joined_type(*half)->getElementCount(),
                                            constant->getAggregateElement(0U));
    }
    return joined_.lookup(half);
  }

  Value* joined_weights(LoadInst& first, LoadInst& second) {
    Value*& result = joined_[&first];
    if (result == nullptr) {
      llvm::IRBuilder<> builder(&later(first, second));
      auto* load = builder.CreateAlignedLoad(joined_type(first), first.getPointerOperand(), first.getAlign());
      load->copyMetadata(first);
      result = load;
    }
    return result;
  }

  void join() {
    std::vector<Instruction*> phis, products;  // of pairs, the first
    for (Instruction& each : llvm::instructions(function_)) {
      const auto found = second_.find(&each);
      if (found != second_.end() && llvm::isa<PHINode>(each)) phis.push_back(&each);
      // Products are ordered by the places of the joined ones.
      const auto other = first_.find(&each);
      if (llvm::isa<PHINode>(each)) continue;
      if (found != second_.end() && found->second->getParent() == each.getParent() &&
          found->second->comesBefore(&each))
        products.push_back(&each);
      if (other != first_.end() && other->second->comesBefore(&each)) products.push_back(other->second);
    }
    for (Instruction* each : phis) {
      auto* phi = llvm::cast<PHINode>(each);
      joined_[phi] = llvm::IRBuilder<>(phi).CreatePHI(joined_type(*phi), phi->getNumIncomingValues());
    }
    // Blocks are listed in any order; a sum that continues one of another block gets it through a phi node
    // or from a block that dominates.
    std::stable_sort(products.begin(), products.end(), [&](Instruction* a, Instruction* b) {
      return a->getParent() != b->getParent() && dominators_.dominates(a->getParent(), b->getParent());
    });
    for (Instruction* first : products) {
      Instruction& second = *second_.find(first)->second;
      const auto a = product_of(*first), b = product_of(second);
      Value* weights = joined_weights(*a->weights, *b->weights);
      llvm::IRBuilder<> builder(&later(*first, second));
      builder.setFastMathFlags(first->getFastMathFlags());
      Value* element = builder.CreateVectorSplat(joined_type(*first)->getElementCount(), a->element);
      Value* product = a->sum == nullptr
                           ? builder.CreateFMul(weights, element)
                           : builder.CreateIntrinsic(llvm::Intrinsic::fmuladd, {weights->getType()},
                                                     {weights, element, joined(a->sum)});
      set_role(product, role_of(*first));
      joined_[first] = product;
    }
    for (Instruction* each : phis) {
      auto *phi = llvm::cast<PHINode>(each), *wide = llvm::cast<PHINode>(joined_[each]);
      for (llvm::BasicBlock* before : phi->blocks())
        wide->addIncoming(joined(phi->getIncomingValueForBlock(before)), before);
    }
    for (Instruction* each : phis) take_apart(*each);
    for (Instruction* each : products) take_apart(*each);
    delete_halves();
  }

  // Extracts the halves for those of their users that are in no pair.
  void take_apart(Instruction& first) {
    auto* wide = llvm::cast<Instruction>(joined_[&first]);
    const auto lanes = static_cast<int>(joined_type(first)->getNumElements() / 2);
    for (const bool upper : {false, true}) {
      Instruction& half = upper ? *second_.find(&first)->second : first;
      std::vector<llvm::Use*> uses;
      for (llvm::Use& use : half.uses()) {
        auto* user = llvm::cast<Instruction>(use.getUser());
        if (!second_.contains(user) && !first_.contains(user)) uses.push_back(&use);
      }
      llvm::SmallVector<int, 64> mask;
      for (int i = 0; i < lanes; ++i) mask.push_back(i + (upper ? lanes : 0));
      // Right before the first user in each block, so that few halves are live at a time.
      llvm::MapVector<llvm::BasicBlock*, Instruction*> places;
      for (const llvm::Use* use : uses) {
        auto* user = llvm::cast<Instruction>(use->getUser());
        const auto* phi = llvm::dyn_cast<PHINode>(user);
        Instruction* place = phi == nullptr ? user : phi->getIncomingBlock(*use)->getTerminator();
        Instruction*& first_place = places[place->getParent()];
        if (first_place == nullptr || place->comesBefore(first_place)) first_place = place;
      }
      for (const auto& [block, place] : places) {
        Value* part = llvm::IRBuilder<>(place).CreateShuffleVector(wide, mask);
        for (llvm::Use* use : uses) {
          const auto* phi = llvm::dyn_cast<PHINode>(use->getUser());
          if ((phi == nullptr ? llvm::cast<Instruction>(use->getUser())->getParent()
                              : phi->getIncomingBlock(*use)) == block)
            use->set(part);
        }
      }
    }
  }

  void delete_halves() {
    llvm::SmallVector<llvm::WeakTrackingVH, 64> dead;
    for (const auto& [first, second] : second_) {
      for (Instruction* each : {first, second}) {
        each->replaceAllUsesWith(llvm::PoisonValue::get(each->getType()));
        dead.emplace_back(each);
      }
    }
    llvm::RecursivelyDeleteTriviallyDeadInstructions(dead);
  }

  llvm::Function& function_;
  const Target& target_;
  llvm::DominatorTree dominators_;
  llvm::MapVector<Instruction*, Instruction*> second_;  // of each pair, by its first
  llvm::DenseMap<Instruction*, Instruction*> first_;    // and the other way round
  llvm::DenseMap<Value*, Value*> joined_;               // by the first of the pair
};

}  // namespace

void join_vectors(llvm::Function& function, const Target& target) { Joiner(function, target).run(); }

}  // namespace tc
