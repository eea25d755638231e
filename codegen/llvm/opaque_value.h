// Values whose origin is hidden from LLVM.
#pragma once

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/InlineAsm.h>

namespace tc {

// A function that returns its argument, whose type fits a general register, and takes no instruction; LLVM
// does not know what it returns. To LLVM, an address that went through it is a different one (otherwise a
// load from it would be merged with an earlier load), and a constant is no constant any more.
inline llvm::FunctionCallee hidden_identity(llvm::Type* type) {
  auto* function = llvm::FunctionType::get(type, {type}, false);
  return {function, llvm::InlineAsm::get(function, "", "=r,0", false)};
}

}  // namespace tc
