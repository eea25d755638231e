#include "codegen/llvm/role_metadata.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Metadata.h>

#include <array>
#include <utility>

namespace tc {
namespace {

constexpr const char* kKind = "tc.role";
constexpr std::array<std::pair<Role, const char*>, 7> kNames = {{
    {Role::Prefetch, "prefetch"},
    {Role::Product, "product"},
    {Role::BroadcastProduct, "broadcast product"},
    {Role::MatrixProduct, "matrix product"},
    {Role::ByteProduct, "byte product"},
    {Role::Widening, "widening"},
    {Role::Rounding, "rounding"},
}};

}  // namespace

void set_role(llvm::Value* value, Role role) {
  auto* instruction = llvm::dyn_cast<llvm::Instruction>(value);
  if (instruction == nullptr) return;
  llvm::MDNode* node = nullptr;
  for (const auto& [each, name] : kNames) {
    if (each == role)
      node =
          llvm::MDNode::get(instruction->getContext(), llvm::MDString::get(instruction->getContext(), name));
  }
  instruction->setMetadata(kKind, node);
}

Role role_of(const llvm::Instruction& instruction) {
  if (!instruction.hasMetadataOtherThanDebugLoc()) return Role::None;
  const llvm::MDNode* node = instruction.getMetadata(kKind);
  if (node == nullptr || node->getNumOperands() != 1) return Role::None;
  const auto* found = llvm::dyn_cast<llvm::MDString>(node->getOperand(0));
  for (const auto& [role, name] : kNames) {
    if (found != nullptr && found->getString() == name) return role;
  }
  return Role::None;
}

}  // namespace tc
