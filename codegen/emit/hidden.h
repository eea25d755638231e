// Values that LLVM is not to see through.
#pragma once

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/InlineAsm.h>

namespace tc {

// A function that returns its argument, of a type of general registers, without an instruction, and of which
// LLVM does not know that. An address behind it is another one for LLVM, which would take a load from it for
// one that it knows; a constant is none.
inline llvm::FunctionCallee hidden_identity(llvm::Type* type) {
  auto* function = llvm::FunctionType::get(type, {type}, false);
  return {function, llvm::InlineAsm::get(function, "", "=r,0", false)};
}

}  // namespace tc
