// The code of one basic block as the passes that reorder it see it: dependences, registers, cycles.
#pragma once

#include <llvm/IR/BasicBlock.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <vector>

#include "codegen/llvm/role_metadata.h"
#include "codegen/llvm/pass_support/dependences.h"
#include "codegen/llvm/pass_support/list_scheduler.h"
#include "codegen/llvm/pass_support/register_pressure.h"
#include "ir/target/target.h"

namespace tc {

// The number of products from which a block counts as a sum.
constexpr size_t kFewProducts = 8;
// Scalar floating-point registers for elements that are loaded early.
constexpr int kScalarsAhead = 22;

// A block's instructions between its phi nodes and its end.
class StraightLine {
 public:
  StraightLine(llvm::BasicBlock& block, const Pressure& pressure, const Target& target)
      : block_(block),
        pressure_(pressure),
        target_(target),
        times_(target),
        graph_(block),
        order_(graph_.instructions()) {}

  // Whether the vectors that are live leave so many registers free at each place.
  bool leaves_free(int registers) const {
    const std::vector<int> vectors = pressure_.before_each(block_, order_);
    return *std::max_element(vectors.begin(), vectors.end()) <= target_.vector_registers - registers;
  }
  // Whether the block multiplies by broadcast scalars. Such a tile of sums fills the registers evenly: its
  // groups have one size and live throughout. Sums whose steps take several instructions have no role, and
  // LLVM may have moved a splat out of a loop.
  bool broadcasts() const {
    return std::any_of(order_.begin(), order_.end(), [](const llvm::Instruction* each) {
      return is_splat(*each) || role_of(*each) == Role::BroadcastProduct;
    });
  }

 protected:
  // Cycles that the instruction takes in the vector arithmetic unit, on a core that processes one register
  // per cycle.
  double cycles(const llvm::Instruction& instruction) const {
    if (llvm::isa<llvm::LoadInst, llvm::StoreInst>(instruction) || is_splat(instruction) ||
        changes_kind(instruction))
      return 0;
    if (role_of(instruction) == Role::MatrixProduct) return std::min(1.0, target_.multiply_adds);
    return pressure_.registers(instruction);
  }

  void measure() {
    time_.resize(order_.size() + 1);
    for (size_t i = 0; i < order_.size(); ++i) time_[i + 1] = time_[i] + cycles(*order_[i]);
  }

  // The place of the block's first instruction that uses the value itself or its splat; the block's end
  // where there is none.
  size_t first_use(const llvm::Value& value) const {
    size_t result = order_.size();
    for (const llvm::User* user : value.users()) {
      if (const size_t place = graph_.place(user); place < graph_.size())
        result = std::min(result, is_splat(*user) ? first_use(*user) : place);
    }
    return result;
  }

  // Whether the block multiplies small matrices: pairs of registers have sums throughout, and what remains
  // has operands of one register each, so that no gaps arise.
  bool multiplies_matrices() const {
    return std::any_of(order_.begin(), order_.end(),
                       [](const llvm::Instruction* each) { return role_of(*each) == Role::MatrixProduct; });
  }
  bool block_is_one_register() const { return target_.block * 32 <= target_.vector_bits; }
  // Registers that stay free where weights are loaded ahead of a sum's products. Where weights take groups
  // of registers, those of two steps alternate and none stays free; where they take single registers, those
  // of several steps are live, and LLVM's allocator needs two more to place them.
  int free_beside_sums() const { return block_is_one_register() ? 2 : 0; }

  llvm::BasicBlock& block_;
  const Pressure& pressure_;
  const Target& target_;
  CoreTimes times_;
  Dependences graph_;  // of the block as it was
  std::vector<llvm::Instruction*> order_;
  std::vector<double> time_;  // cycles of vector arithmetic before each
};

}  // namespace tc
