#include "codegen/llvm/pass_support/count_spills.h"

#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineLoopInfo.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>

#include <algorithm>

namespace tc {
namespace {

using llvm::MachineInstr;

class CountSpills : public llvm::MachineFunctionPass {
 public:
  static char ID;
  explicit CountSpills(int& count) : MachineFunctionPass(ID), count_(count) {}

  llvm::StringRef getPassName() const override { return "Count of spilled vectors"; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override {
    usage.addRequired<llvm::MachineLoopInfoWrapperPass>();
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    const llvm::MachineLoopInfo& loops = getAnalysis<llvm::MachineLoopInfoWrapperPass>().getLI();
    const llvm::TargetInstrInfo& instructions = *function.getSubtarget().getInstrInfo();
    for (const llvm::MachineBasicBlock& block : function) {
      if (loops.getLoopFor(&block) == nullptr) continue;
      count_ += static_cast<int>(std::count_if(block.begin(), block.end(), [&](const MachineInstr& each) {
        return is_spill(each, instructions);
      }));
    }
    return false;
  }

 private:
  // LLVM's names of the accesses to whole registers: on RISC-V `vs2r.v`, `vl2re8.v`, and pseudo instructions
  // for several groups; on Arm those of one register, scalar floats included.
  static bool is_spill(const MachineInstr& instruction, const llvm::TargetInstrInfo& instructions) {
    const llvm::StringRef name = instructions.getName(instruction.getOpcode());
    if (name.starts_with("PseudoVSPILL") || name.starts_with("PseudoVRELOAD")) return true;
    const bool arm = name == "STRQui" || name == "LDRQui" || name == "STRDui" || name == "LDRDui" ||
                     name == "STRSui" || name == "LDRSui";
    const bool whole = arm || (name.starts_with("VS") && name.ends_with("R_V")) ||
                       (name.starts_with("VL") && name.contains("RE8_V"));
    return whole && std::any_of(instruction.operands_begin(), instruction.operands_end(),
                                [](const llvm::MachineOperand& each) { return each.isFI(); });
  }

  int& count_;
};

char CountSpills::ID = 0;

}  // namespace

llvm::Pass* create_count_spills(int& count) { return new CountSpills(count); }

}  // namespace tc
