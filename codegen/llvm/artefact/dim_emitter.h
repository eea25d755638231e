// Dim expressions as i64 code.
#pragma once

#include <map>
#include <string>

#include "codegen/llvm/emit/kernel_context.h"
#include "ir/dim.h"

namespace tc {

// Emits Dims at the builder's insertion point. In checked mode overflows and divisions by zero are
// collected in one condition instead of wrapping silently.
class DimEmitter {
 public:
  DimEmitter(Builder& builder, bool checked) : builder_(builder), checked_(checked) {}

  // The values of symbols in scope, as i64.
  std::map<std::string, llvm::Value*> symbols;

  // Throws an Internal error for a symbol that is not in scope.
  llvm::Value* emit(const Dim& dim);
  // True where something overflowed so far (i1); checked mode only.
  llvm::Value* overflowed() const { return overflowed_; }

 private:
  llvm::Value* atom(const Dim::Atom& atom);
  llvm::Value* checked(llvm::Intrinsic::ID id, llvm::Value* a, llvm::Value* b);
  void note(llvm::Value* condition);

  Builder& builder_;
  bool checked_;
  llvm::Value* overflowed_ = nullptr;
};

}  // namespace tc
