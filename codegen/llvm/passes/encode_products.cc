#include "codegen/llvm/passes/encode_products.h"

#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineInstrBuilder.h>
#include <llvm/CodeGen/TargetInstrInfo.h>
#include <llvm/CodeGen/TargetRegisterInfo.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>
#include <llvm/IR/InlineAsm.h>

#include <map>
#include <string>

#include "ir/error.h"

namespace tc {
namespace {

using llvm::MachineFunction;
using llvm::MachineInstr;

// Of a pseudo instruction: the sums, the same sums before, the numbers of a and of b.
constexpr unsigned kSums = 0, kA = 2, kB = 3;

// "llvm.riscv.sf.vqmacc.4x8x4" is selected as "PseudoVQMACC_4x8x4_M1".
std::string pseudo_of(const std::string& intrinsic) {
  const std::string prefix = "llvm.riscv.sf.";
  TC_CHECK(intrinsic.rfind(prefix, 0) == 0, "for LLVM's ", intrinsic);
  std::string name = intrinsic.substr(prefix.size());
  const size_t point = name.find('.');
  TC_CHECK(point != std::string::npos, "for LLVM's ", intrinsic);
  for (size_t i = 0; i < point; ++i) name[i] = static_cast<char>(std::toupper(name[i]));
  name[point] = '_';
  return "Pseudo" + name + "_M1";
}

class EncodeProducts : public llvm::MachineFunctionPass {
 public:
  static char ID;
  explicit EncodeProducts(const Target& target) : MachineFunctionPass(ID) {
    for (const MatrixUnit::Format& format : target.matrix.formats) {
      const NarrowProduct& row = *format.instruction;
      if (row.encoding.opcode != 0 && row.intrinsic[0] != 0) rows_[pseudo_of(row.intrinsic)] = &row;
    }
  }
  llvm::StringRef getPassName() const override { return "encoded products"; }

  bool runOnMachineFunction(MachineFunction& function) override {
    const llvm::TargetInstrInfo& instructions = *function.getSubtarget().getInstrInfo();
    const llvm::TargetRegisterInfo& registers = *function.getSubtarget().getRegisterInfo();
    bool changed = false;
    for (llvm::MachineBasicBlock& block : function) {
      for (MachineInstr& each : llvm::make_early_inc_range(block)) {
        const auto found = rows_.find(instructions.getName(each.getOpcode()).str());
        if (found == rows_.end()) continue;
        const auto number = [&](unsigned operand) {
          return registers.getEncodingValue(each.getOperand(operand).getReg());
        };
        const ProductEncoding& encoding = found->second->encoding;
        const std::string code =
            text(".insn r ", encoding.opcode, ", ", encoding.function3, ", ", encoding.function7, ", v",
                 number(kSums), ", v", number(kA), ", v", number(kB));
        // What it reads and writes, for the passes that follow.
        llvm::BuildMI(block, each, each.getDebugLoc(), instructions.get(llvm::TargetOpcode::INLINEASM))
            .addExternalSymbol(function.createExternalSymbolName(code))
            .addImm(0)
            .addReg(each.getOperand(kSums).getReg(), llvm::RegState::ImplicitDefine)
            .addReg(each.getOperand(kSums).getReg(), llvm::RegState::Implicit)
            .addReg(each.getOperand(kA).getReg(), llvm::RegState::Implicit)
            .addReg(each.getOperand(kB).getReg(), llvm::RegState::Implicit);
        each.eraseFromParent();
        changed = true;
      }
    }
    return changed;
  }

 private:
  std::map<std::string, const NarrowProduct*> rows_;  // by the names of LLVM's instructions
};

char EncodeProducts::ID = 0;

}  // namespace

llvm::Pass* create_encode_products(const Target& target) { return new EncodeProducts(target); }

}  // namespace tc
