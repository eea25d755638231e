#include "codegen/llvm/passes/sums_in_place.h"

#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineRegisterInfo.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>

namespace tc {
namespace {

using llvm::MachineFunction;
using llvm::MachineInstr;

class SumsInPlace : public llvm::MachineFunctionPass {
 public:
  static char ID;
  SumsInPlace() : MachineFunctionPass(ID) {}
  llvm::StringRef getPassName() const override { return "sums in place"; }

  bool runOnMachineFunction(MachineFunction& function) override {
    const llvm::TargetInstrInfo& instructions = *function.getSubtarget().getInstrInfo();
    const llvm::MachineRegisterInfo& registers = function.getRegInfo();
    bool changed = false;
    for (llvm::MachineBasicBlock& block : function) {
      for (MachineInstr& each : block) {
        if (!instructions.getName(each.getOpcode()).starts_with("PseudoVFMADD_V")) continue;
        // Another user of the sum would need it copied.
        const llvm::Register sum = each.getOperand(kAddend).getReg();
        if (!sum.isVirtual() || !registers.hasOneNonDBGUse(sum)) continue;
        changed |= instructions.commuteInstruction(each, /*NewMI=*/false, kOverwritten, kAddend) != nullptr;
      }
    }
    return changed;
  }

 private:
  // Operands of LLVM's pseudo instruction: the result, the factor that it overwrites, the other factor, the
  // addend.
  static constexpr unsigned kOverwritten = 1, kAddend = 3;
};

char SumsInPlace::ID = 0;

}  // namespace

llvm::Pass* create_sums_in_place() { return new SumsInPlace(); }

}  // namespace tc
