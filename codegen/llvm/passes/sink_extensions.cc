#include "codegen/llvm/passes/sink_extensions.h"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

#include <vector>

namespace tc {
namespace {

// The factor's extension from 32 bits, where it is in another block than the product.
llvm::Instruction* distant_extension(const llvm::Instruction& product, llvm::Value* factor) {
  auto* extension = llvm::dyn_cast<llvm::CastInst>(factor);
  if (extension == nullptr || !llvm::isa<llvm::SExtInst, llvm::ZExtInst>(extension)) return nullptr;
  if (extension->getParent() == product.getParent()) return nullptr;
  return extension->getSrcTy()->getScalarType()->isIntegerTy(32) ? extension : nullptr;
}

}  // namespace

void sink_extensions(llvm::Function& function) {
  std::vector<llvm::Instruction*> products;
  for (llvm::Instruction& each : llvm::instructions(function)) {
    if (each.getOpcode() == llvm::Instruction::Mul && each.getType()->getScalarType()->isIntegerTy(64))
      products.push_back(&each);
  }
  for (llvm::Instruction* product : products) {
    for (llvm::Use& factor : product->operands()) {
      llvm::Instruction* extension = distant_extension(*product, factor.get());
      if (extension == nullptr) continue;
      llvm::Instruction* copy = extension->clone();
      copy->insertBefore(product);
      factor.set(copy);
      if (extension->use_empty()) extension->eraseFromParent();
    }
  }
}

}  // namespace tc
