#include "codegen/llvm/passes/hoist_machine_invariants.h"

#include <llvm/ADT/BitVector.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineLoopInfo.h>
#include <llvm/CodeGen/MachineRegisterInfo.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetRegisterInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>

#include <array>
#include <vector>

namespace tc {
namespace {

using llvm::MachineBasicBlock;
using llvm::MachineFunction;
using llvm::MachineInstr;
using llvm::MachineLoop;
using llvm::MachineOperand;
using llvm::MachineRegisterInfo;
using llvm::Register;

enum RegisterKind : size_t { kInteger, kFloat, kVector, kKinds };

// The most registers that live values take at one place of each block, by kind. A vector counts as the
// registers of its group.
class BlockPressure {
 public:
  BlockPressure(const MachineFunction& function)
      : function_(function),
        registers_(function.getRegInfo()),
        target_(*function.getSubtarget().getRegisterInfo()) {}

  RegisterKind kind(Register value) const {
    const llvm::TargetRegisterClass& type = *registers_.getRegClass(value);
    if (target_.isTypeLegalForClass(type, llvm::MVT::i64)) return kInteger;
    const bool is_float = target_.isTypeLegalForClass(type, llvm::MVT::f32) ||
                          target_.isTypeLegalForClass(type, llvm::MVT::f64) ||
                          target_.isTypeLegalForClass(type, llvm::MVT::f16);
    return is_float ? kFloat : kVector;
  }
  int weight(Register value) const {
    return kind(value) == kVector
               ? static_cast<int>(target_.getRegClassWeight(registers_.getRegClass(value)).RegWeight)
               : 1;
  }

  void measure() {
    find_live_ends();
    most_.assign(function_.getNumBlockIDs(), {});
    for (const MachineBasicBlock& block : function_) measure(block);
  }

  int most(const MachineBasicBlock& block, RegisterKind kind) const { return most_[index(block)][kind]; }
  int most(const MachineLoop& loop, RegisterKind kind) const {
    int result = 0;
    for (const MachineBasicBlock* block : loop.blocks()) result = std::max(result, most(*block, kind));
    return result;
  }
  // Counts a value that is live everywhere in the loop from now on; where it was live before, it counts
  // twice.
  void add(const MachineLoop& loop, Register value) {
    for (const MachineBasicBlock* block : loop.blocks()) most_[index(*block)][kind(value)] += weight(value);
  }

 private:
  using Counts = std::array<int, kKinds>;

  static size_t index(const MachineBasicBlock& block) { return static_cast<size_t>(block.getNumber()); }

  // Steps backwards over one instruction.
  template <class Define, class Use>
  static void step(const MachineInstr& instruction, const Define& define, const Use& use) {
    for (const MachineOperand& each : instruction.operands()) {
      if (each.isReg() && each.isDef() && each.getReg().isVirtual()) define(each.getReg());
    }
    if (instruction.isPHI()) return;
    for (const MachineOperand& each : instruction.operands()) {
      if (each.isReg() && each.isUse() && !each.isUndef() && each.getReg().isVirtual()) use(each.getReg());
    }
  }

  void find_live_ends() {
    const unsigned values = registers_.getNumVirtRegs();
    live_in_.assign(function_.getNumBlockIDs(), llvm::BitVector(values));
    live_out_ = live_in_;
    for (bool changed = true; changed;) {
      changed = false;
      for (const MachineBasicBlock* block : llvm::post_order(&function_)) {
        llvm::BitVector& out = live_out_[index(*block)];
        for (const MachineBasicBlock* next : block->successors()) {
          out |= live_in_[index(*next)];
          for (const MachineInstr& phi : next->phis()) {
            for (unsigned i = 1; i < phi.getNumOperands(); i += 2) {
              const Register value = phi.getOperand(i).getReg();
              if (phi.getOperand(i + 1).getMBB() == block && value.isVirtual())
                out.set(Register::virtReg2Index(value));
            }
          }
        }
        llvm::BitVector live = out;
        for (const MachineInstr& each : llvm::reverse(*block)) {
          step(
              each, [&](Register value) { live.reset(Register::virtReg2Index(value)); },
              [&](Register value) { live.set(Register::virtReg2Index(value)); });
        }
        changed |= live != live_in_[index(*block)];
        live_in_[index(*block)] = std::move(live);
      }
    }
  }

  void measure(const MachineBasicBlock& block) {
    llvm::BitVector live = live_out_[index(block)];
    Counts now{};
    const auto count = [&](Register value, int sign) { now[kind(value)] += sign * weight(value); };
    for (const unsigned each : live.set_bits()) count(Register::index2VirtReg(each), 1);
    Counts& most = most_[index(block)];
    const auto note = [&] {
      for (size_t i = 0; i < kKinds; ++i) most[i] = std::max(most[i], now[i]);
    };
    note();
    for (const MachineInstr& each : llvm::reverse(block)) {
      step(
          each,
          [&](Register value) {
            if (!live.test(Register::virtReg2Index(value))) return;
            live.reset(Register::virtReg2Index(value));
            count(value, -1);
          },
          [&](Register value) {
            if (live.test(Register::virtReg2Index(value))) return;
            live.set(Register::virtReg2Index(value));
            count(value, 1);
          });
      note();
    }
  }

  const MachineFunction& function_;
  const MachineRegisterInfo& registers_;
  const llvm::TargetRegisterInfo& target_;
  std::vector<llvm::BitVector> live_in_, live_out_;
  std::vector<Counts> most_;
};

class HoistMachineInvariants : public llvm::MachineFunctionPass {
 public:
  static char ID;
  explicit HoistMachineInvariants(int vector_registers)
      : MachineFunctionPass(ID), vector_registers_(vector_registers) {}

  llvm::StringRef getPassName() const override { return "Loop-invariant code by registers"; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override {
    usage.addRequired<llvm::MachineLoopInfoWrapperPass>();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

  bool runOnMachineFunction(MachineFunction& function) override {
    registers_ = &function.getRegInfo();
    instructions_ = function.getSubtarget().getInstrInfo();
    target_ = function.getSubtarget().getRegisterInfo();
    const llvm::MachineLoopInfo& loops = getAnalysis<llvm::MachineLoopInfoWrapperPass>().getLI();
    if (loops.empty()) return false;
    BlockPressure pressure(function);
    pressure_ = &pressure;
    pressure.measure();
    largest_group_ = largest_group();
    masks_ = uses_masks(function);
    bool changed = false;
    for (MachineBasicBlock& block : function) {
      if (loops.getLoopFor(&block) != nullptr) changed |= split_splats(block, loops);
    }
    if (changed) pressure.measure();
    for (MachineLoop* loop : loops) changed |= visit(*loop);
    return changed;
  }

 private:
  // The most scalars that may be live in a loop. Integers are mostly offsets. More of them than there are
  // registers measured best in the core model: with 60, a row times a matrix is 2.8 times as fast as with
  // 27; why was not found out.
  static constexpr int kIntegers = 60;
  static constexpr int kFloats = 28;

  int largest_group() const {
    int result = 1;
    for (unsigned i = 0; i < registers_->getNumVirtRegs(); ++i) {
      const Register value = Register::index2VirtReg(i);
      if (!registers_->reg_nodbg_empty(value)) result = std::max(result, pressure_->weight(value));
    }
    return result;
  }

  // One group stays free, since groups with different lifetimes leave gaps between them. Where there are
  // masks, they take the first group.
  int room_for_vectors() const { return vector_registers_ - (masks_ ? 2 : 1) * largest_group_; }

  // Whether the instruction makes a vector of scalars alone.
  bool is_splat(const MachineInstr& instruction) const {
    if (instruction.isPHI() || instruction.isCopy() || instruction.isImplicitDef() ||
        instruction.isInlineAsm() || instruction.mayLoadOrStore() || instruction.hasUnmodeledSideEffects() ||
        instruction.mayRaiseFPException()) {
      return false;
    }
    int results = 0;
    for (const MachineOperand& each : instruction.operands()) {
      if (!each.isReg() || !each.getReg()) continue;
      if (each.getReg().isPhysical()) {
        if (each.isDef() ||
            (!registers_->isConstantPhysReg(each.getReg()) && !instructions_->isIgnorableUse(each)))
          return false;
      } else if (each.isDef()) {
        if (pressure_->kind(each.getReg()) != kVector || ++results > 1) return false;
      } else if (pressure_->kind(each.getReg()) == kVector) {
        const MachineInstr* made = registers_->getVRegDef(each.getReg());
        if (made == nullptr || !made->isImplicitDef()) return false;
      }
    }
    return results == 1;
  }

  // Computes a block's splats anew for each use where registers are full; a loop's splats can still leave
  // the loop as one. The use may also be in a later block that runs no more often, where LLVM had found that
  // the earlier block computes the same.
  bool split_splats(MachineBasicBlock& block, const llvm::MachineLoopInfo& loops) {
    bool changed = false;
    // Only those that exist now: the new copies would be found again and again.
    llvm::SmallVector<MachineInstr*, 32> splats;
    for (MachineInstr& each : block) {
      if (is_splat(each)) splats.push_back(&each);
    }
    for (MachineInstr* splat : splats) {
      MachineInstr& each = *splat;
      const Register value = each.getOperand(0).getReg();
      llvm::SmallSetVector<MachineInstr*, 8> uses;
      for (MachineInstr& use : registers_->use_nodbg_instructions(value)) {
        const bool is_full = pressure_->most(*use.getParent(), kVector) > room_for_vectors();
        if (!use.isPHI() && is_full && loops.getLoopDepth(use.getParent()) <= loops.getLoopDepth(&block))
          uses.insert(&use);
      }
      for (MachineInstr* use : uses) {
        const Register own = registers_->createVirtualRegister(registers_->getRegClass(value));
        MachineInstr* made = block.getParent()->CloneMachineInstr(&each);
        made->getOperand(0).setReg(own);
        use->getParent()->insert(use->getIterator(), made);
        use->substituteRegister(value, own, 0, *target_);
        changed = true;
      }
      for (const MachineOperand& operand : each.operands()) {
        if (operand.isReg() && operand.getReg().isVirtual()) registers_->clearKillFlags(operand.getReg());
      }
      if (registers_->use_nodbg_empty(value)) each.eraseFromParent();
    }
    return changed;
  }

  // Whether the first vector register holds masks.
  bool uses_masks(const MachineFunction& function) const {
    return llvm::any_of(function, [&](const MachineBasicBlock& block) {
      return llvm::any_of(block, [&](const MachineInstr& each) {
        return llvm::any_of(each.operands(), [&](const MachineOperand& operand) {
          return operand.isReg() && operand.getReg().isPhysical() &&
                 llvm::StringRef(target_->getName(operand.getReg())) == "V0";
        });
      });
    });
  }

  // Inner loops first: what leaves one may leave the next one, too.
  bool visit(MachineLoop& loop) {
    bool changed = false;
    for (MachineLoop* inner : loop) changed |= visit(*inner);
    MachineBasicBlock* before = loop.getLoopPreheader();
    if (before == nullptr) return changed;
    llvm::ReversePostOrderTraversal<MachineBasicBlock*> order(loop.getHeader());
    for (MachineBasicBlock* block : order) {
      if (!loop.contains(block)) continue;
      for (MachineInstr& each : llvm::make_early_inc_range(*block)) {
        if (is_invariant(each, loop)) changed |= take_out(each, loop, *before);
      }
    }
    return changed;
  }

  bool is_invariant(const MachineInstr& instruction, const MachineLoop& loop) const {
    if (instruction.isPHI() || instruction.isPosition() || instruction.isTerminator() ||
        instruction.isCall() || instruction.isCopy() || instruction.isImplicitDef() ||
        instruction.isInlineAsm() || instruction.isConvergent() || instruction.mayStore() ||
        instruction.hasUnmodeledSideEffects() || instruction.mayRaiseFPException()) {
      return false;
    }
    if (instruction.mayLoad() && !instruction.isDereferenceableInvariantLoad()) return false;
    int results = 0;
    for (const MachineOperand& each : instruction.operands()) {
      if (!each.isReg() || !each.getReg()) continue;
      if (each.isDef()) {
        if (!each.getReg().isVirtual() || ++results > 1) return false;
      } else if (each.getReg().isPhysical()) {
        if (!registers_->isConstantPhysReg(each.getReg()) && !instructions_->isIgnorableUse(each))
          return false;
      } else if (const MachineInstr* made = registers_->getVRegDef(each.getReg());
                 made == nullptr || loop.contains(made)) {
        return false;
      }
    }
    return results == 1;
  }

  // Whether a sum begins with the value, directly or through a copy: LLVM copies a constant for each such
  // sum.
  bool begins_a_phi(Register value) const {
    return llvm::any_of(registers_->use_nodbg_instructions(value), [&](const MachineInstr& each) {
      if (each.isPHI()) return true;
      return each.isCopy() && each.getOperand(0).getReg().isVirtual() &&
             begins_a_phi(each.getOperand(0).getReg());
    });
  }

  bool take_out(MachineInstr& instruction, const MachineLoop& loop, MachineBasicBlock& before) {
    const Register value = instruction.getOperand(0).getReg();
    if (!value.isVirtual() || begins_a_phi(value)) return false;
    if (MachineInstr* same = same_value(instruction, before)) {
      const Register other = same->getOperand(0).getReg();
      if (registers_->constrainRegClass(other, registers_->getRegClass(value)) != nullptr) {
        registers_->clearKillFlags(other);
        registers_->replaceRegWith(value, other);
        instruction.eraseFromParent();
        return true;
      }
    }
    const RegisterKind kind = pressure_->kind(value);
    if (kind == kVector) return take_out_vector(instruction, loop, before);
    const int room = kind == kInteger ? kIntegers : kFloats;
    if (!instructions_->isTriviallyReMaterializable(instruction) && pressure_->most(loop, kind) >= room)
      return false;
    move(instruction, before);
    pressure_->add(loop, value);
    return true;
  }

  // Moves the value, measures, and moves it back where it does not fit: where it was live already, only a
  // new measurement tells.
  bool take_out_vector(MachineInstr& instruction, const MachineLoop& loop, MachineBasicBlock& before) {
    const int room = room_for_vectors();
    if (pressure_->most(loop, kVector) > room) return false;
    MachineBasicBlock& own = *instruction.getParent();
    const auto next = std::next(instruction.getIterator());
    move(instruction, before);
    pressure_->measure();
    if (pressure_->most(loop, kVector) <= room) return true;
    own.splice(next, &before, instruction.getIterator());
    pressure_->measure();
    return false;
  }

  MachineInstr* same_value(const MachineInstr& instruction, MachineBasicBlock& block) const {
    for (MachineInstr& each : block) {
      if (each.getOpcode() == instruction.getOpcode() && &each != &instruction &&
          instructions_->produceSameValue(instruction, each, registers_)) {
        return &each;
      }
    }
    return nullptr;
  }

  void move(MachineInstr& instruction, MachineBasicBlock& before) const {
    before.splice(before.getFirstTerminator(), instruction.getParent(), instruction.getIterator());
    for (const MachineOperand& each : instruction.operands()) {
      if (each.isReg() && each.getReg().isVirtual()) registers_->clearKillFlags(each.getReg());
    }
  }

  int vector_registers_;
  MachineRegisterInfo* registers_ = nullptr;
  const llvm::TargetInstrInfo* instructions_ = nullptr;
  const llvm::TargetRegisterInfo* target_ = nullptr;
  BlockPressure* pressure_ = nullptr;
  int largest_group_ = 1;
  bool masks_ = false;
};

char HoistMachineInvariants::ID = 0;

}  // namespace

llvm::Pass* create_hoist_machine_invariants(int vector_registers) {
  return new HoistMachineInvariants(vector_registers);
}

}  // namespace tc
