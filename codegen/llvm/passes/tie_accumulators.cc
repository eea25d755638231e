#include "codegen/llvm/passes/tie_accumulators.h"

#include <algorithm>
#include <iterator>

#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineRegisterInfo.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>

namespace tc {
namespace {

using llvm::MachineFunction;
using llvm::MachineInstr;

class TieAccumulators : public llvm::MachineFunctionPass {
 public:
  static char ID;
  TieAccumulators() : MachineFunctionPass(ID) {}
  llvm::StringRef getPassName() const override { return "sums in place"; }

  bool runOnMachineFunction(MachineFunction& function) override {
    const llvm::TargetInstrInfo& instructions = *function.getSubtarget().getInstrInfo();
    const llvm::MachineRegisterInfo& registers = function.getRegInfo();
    bool changed = false;
    for (llvm::MachineBasicBlock& block : function) {
      for (MachineInstr& each : block) {
        const llvm::StringRef name = instructions.getName(each.getOpcode());
        if (!name.starts_with("PseudoVFMADD_V")) continue;
        if (!is_last_use(each, registers) && !copies_factor(each, registers, name.contains("_VFPR")))
          continue;
        changed |= instructions.commuteInstruction(each, /*NewMI=*/false, kOverwritten, kAddend) != nullptr;
      }
    }
    return changed;
  }

 private:
  // Another user of the sum would need it copied.
  static bool is_last_use(const MachineInstr& product, const llvm::MachineRegisterInfo& registers) {
    const llvm::Register sum = product.getOperand(kAddend).getReg();
    return sum.isVirtual() && registers.hasOneNonDBGUse(sum);
  }

  // Whether both factors are read again later, so that one register has to be copied for the result, and the
  // addend is computed before the loop: a copy of the addend can be made ahead, where that of a factor would
  // wait for the factor.
  static bool copies_factor(const MachineInstr& product, const llvm::MachineRegisterInfo& registers,
                            bool by_scalar) {
    const llvm::Register sum = product.getOperand(kAddend).getReg();
    const MachineInstr* of_sum = sum.isVirtual() ? registers.getUniqueVRegDef(sum) : nullptr;
    if (of_sum == nullptr || of_sum->getParent() == product.getParent()) return false;
    return is_read_later(product, kOverwritten, registers) &&
           (by_scalar || is_read_later(product, kOther, registers));
  }

  static bool is_read_later(const MachineInstr& product, unsigned operand,
                            const llvm::MachineRegisterInfo& registers) {
    const llvm::Register factor = product.getOperand(operand).getReg();
    const llvm::MachineBasicBlock* block = product.getParent();
    const MachineInstr* maker = factor.isVirtual() ? registers.getUniqueVRegDef(factor) : nullptr;
    if (maker == nullptr || maker->getParent() != block) return false;
    return std::any_of(std::next(product.getIterator()), block->instr_end(), [&](const MachineInstr& later) {
      return later.readsRegister(factor, /*TRI=*/nullptr);
    });
  }

  // Operands of LLVM's pseudo instruction: the result, the factor that it overwrites, the other factor, the
  // addend.
  static constexpr unsigned kOverwritten = 1, kOther = 2, kAddend = 3;
};

char TieAccumulators::ID = 0;

}  // namespace

llvm::Pass* create_tie_accumulators() { return new TieAccumulators(); }

}  // namespace tc
