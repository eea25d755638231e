#include "codegen/llvm/passes/drop_unused_products.h"

#include <llvm/ADT/SmallSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tc {
namespace {

// The results of the piece that nothing reads, as the assembly names them; nothing where they are unknown.
llvm::SmallSet<llvm::StringRef, 8> unread_results(const llvm::CallInst& piece,
                                                  std::vector<std::string>& names) {
  llvm::SmallSet<llvm::StringRef, 8> unread;
  const auto* type = llvm::dyn_cast<llvm::StructType>(piece.getType());
  if (type == nullptr) return unread;
  std::vector<bool> read(type->getNumElements());
  for (const llvm::User* user : piece.users()) {
    const auto* part = llvm::dyn_cast<llvm::ExtractValueInst>(user);
    if (part == nullptr || part->getNumIndices() != 1) return unread;
    if (!part->use_empty()) read[part->getIndices()[0]] = true;
  }
  for (size_t i = 0; i < read.size(); ++i) names.push_back("$" + std::to_string(i));
  for (size_t i = 0; i < read.size(); ++i) {
    if (!read[i] && type->getElementType(static_cast<unsigned>(i))->isIntegerTy()) unread.insert(names[i]);
  }
  return unread;
}

// Without the products of those results. An instruction is a name, what it writes, and what it reads.
std::string without(llvm::StringRef text, const llvm::SmallSet<llvm::StringRef, 8>& unread) {
  llvm::SmallVector<llvm::StringRef> lines, kept;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  llvm::SmallSet<llvm::StringRef, 8> needed;  // vectors that later instructions read
  for (const llvm::StringRef line : llvm::reverse(lines)) {
    const auto [name, operands] = line.split(' ');
    const auto [written, read] = operands.split(", ");
    if (name.starts_with("vmlav")) {
      if (unread.contains(written)) continue;
      const auto [first, second] = read.split(", ");
      needed.insert(first);
      needed.insert(second);
    } else if (name != "addw" && name != "subw" && !name.starts_with("vldr")) {
      return text.str();  // what it reads is not known
    } else if (name.starts_with("vldr")) {
      // A load that moves its address stays.
      if (!needed.contains(written) && read.ends_with("]")) continue;
      needed.erase(written);
    }
    kept.push_back(line);
  }
  std::reverse(kept.begin(), kept.end());
  return llvm::join(kept, "\n") + "\n";
}

}  // namespace

void drop_unused_products(llvm::Function& function) {
  for (llvm::Instruction& each : llvm::instructions(function)) {
    auto* piece = llvm::dyn_cast<llvm::CallInst>(&each);
    if (piece == nullptr || !piece->isInlineAsm()) continue;
    const auto* assembly = llvm::cast<llvm::InlineAsm>(piece->getCalledOperand());
    if (!llvm::StringRef(assembly->getAsmString()).contains("vmlav")) continue;
    std::vector<std::string> names;
    const auto unread = unread_results(*piece, names);
    if (unread.empty()) continue;
    piece->setCalledOperand(
        llvm::InlineAsm::get(assembly->getFunctionType(), without(assembly->getAsmString(), unread),
                             assembly->getConstraintString(), assembly->hasSideEffects()));
  }
}

}  // namespace tc
