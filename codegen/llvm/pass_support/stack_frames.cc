#include "codegen/llvm/pass_support/stack_frames.h"

#include <llvm/CodeGen/MachineFrameInfo.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/TargetFrameLowering.h>

#include <algorithm>

namespace tc {
namespace {

constexpr uint64_t kMinAlignment = 8,
                   kAlignment = 16;  // of a scalable object, of all of a function together

constexpr const char *kBytes = "tc-stack", *kScalableBytes = "tc-scalable-stack";  // attributes of functions

void note(llvm::Function& function, const StackFrame& frame) {
  function.addFnAttr(kBytes, std::to_string(frame.bytes));
  function.addFnAttr(kScalableBytes, std::to_string(frame.scalable_bytes));
}

class StackFrames : public llvm::MachineFunctionPass {
 public:
  static char ID;
  StackFrames() : MachineFunctionPass(ID) {}

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
      const uint64_t alignment = std::max(info.getObjectAlign(i).value(), kMinAlignment);
      scalable += llvm::alignTo(static_cast<uint64_t>(info.getObjectSize(i)), alignment);
    }
    note(function.getFunction(), {static_cast<int64_t>(info.getStackSize()),
                                  static_cast<int64_t>(llvm::alignTo(scalable, kAlignment))});
    return false;
  }
};

char StackFrames::ID = 0;

}  // namespace

llvm::Pass* create_stack_frames() { return new StackFrames(); }

std::map<std::string, StackFrame> stack_frames(const llvm::Module& module) {
  std::map<std::string, StackFrame> frames;
  for (const llvm::Function& function : module) {
    if (!function.hasFnAttribute(kBytes)) continue;
    StackFrame& frame = frames[function.getName().str()];
    function.getFnAttribute(kBytes).getValueAsString().getAsInteger(10, frame.bytes);
    function.getFnAttribute(kScalableBytes).getValueAsString().getAsInteger(10, frame.scalable_bytes);
  }
  return frames;
}

void note_stack_frames(llvm::Module& module, const std::map<std::string, StackFrame>& frames) {
  for (llvm::Function& function : module) {
    if (const auto found = frames.find(function.getName().str()); found != frames.end())
      note(function, found->second);
  }
}

}  // namespace tc
