#include "codegen/stack_frames.h"

#include <llvm/CodeGen/MachineFrameInfo.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/TargetFrameLowering.h>

#include <algorithm>

namespace tc {
namespace {

constexpr uint64_t kLeastAlignment = 8, kAlignment = 16;   // of a scalable object, of all of a function together

class StackFrames : public llvm::MachineFunctionPass {
 public:
  static char ID;
  explicit StackFrames(std::map<std::string, StackFrame>& frames) : MachineFunctionPass(ID), frames_(frames) {}

  llvm::StringRef getPassName() const override { return "Stack frames"; }
  void getAnalysisUsage(llvm::AnalysisUsage& usage) const override {
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    const llvm::MachineFrameInfo& info = function.getFrameInfo();
    uint64_t scalable = 0;
    for (int i = info.getObjectIndexBegin(); i < info.getObjectIndexEnd(); ++i) {
      if (info.getStackID(i) != llvm::TargetStackID::ScalableVector || info.isDeadObjectIndex(i)) continue;
      const uint64_t alignment = std::max(info.getObjectAlign(i).value(), kLeastAlignment);
      scalable += llvm::alignTo(static_cast<uint64_t>(info.getObjectSize(i)), alignment);
    }
    frames_[function.getName().str()] = {static_cast<int64_t>(info.getStackSize()), static_cast<int64_t>(llvm::alignTo(scalable, kAlignment))};
    return false;
  }

 private:
  std::map<std::string, StackFrame>& frames_;
};

char StackFrames::ID = 0;

}  // namespace

llvm::Pass* create_stack_frames(std::map<std::string, StackFrame>& frames) { return new StackFrames(frames); }

}  // namespace tc
