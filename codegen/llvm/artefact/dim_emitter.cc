// Dim expressions as i64 code.
#include "codegen/llvm/artefact/dim_emitter.h"

#include <llvm/IR/Intrinsics.h>

#include "ir/error.h"

namespace tc {

void DimEmitter::note(llvm::Value* condition) {
  if (!checked_) return;
  overflowed_ = overflowed_ == nullptr ? condition : builder_.CreateOr(overflowed_, condition);
}

llvm::Value* DimEmitter::checked(llvm::Intrinsic::ID id, llvm::Value* a, llvm::Value* b) {
  if (!checked_) {
    return id == llvm::Intrinsic::smul_with_overflow ? builder_.CreateMul(a, b) : builder_.CreateAdd(a, b);
  }
  llvm::Value* pair = builder_.CreateBinaryIntrinsic(id, a, b);
  note(builder_.CreateExtractValue(pair, 1));
  return builder_.CreateExtractValue(pair, 0);
}

llvm::Value* DimEmitter::emit(const Dim& dim) {
  llvm::Value* sum = nullptr;
  for (const Dim::Term& term : dim.terms()) {
    llvm::Value* product = builder_.getInt64(static_cast<uint64_t>(term.coefficient));
    bool first = true;
    for (const Dim::AtomPtr& factor : term.factors) {
      llvm::Value* value = atom(*factor);
      product = first && term.coefficient == 1 ? value
                                               : checked(llvm::Intrinsic::smul_with_overflow, product, value);
      first = false;
    }
    sum = sum == nullptr ? product : checked(llvm::Intrinsic::sadd_with_overflow, sum, product);
  }
  return sum == nullptr ? builder_.getInt64(0) : sum;
}

llvm::Value* DimEmitter::atom(const Dim::Atom& atom) {
  if (atom.kind == Dim::AtomKind::Symbol) {
    const auto found = symbols.find(atom.name);
    TC_CHECK(found != symbols.end(), "in the plan: symbol '", atom.name, "' has no value here");
    return found->second;
  }
  llvm::Value* a = emit(atom.left);
  llvm::Value* b = emit(atom.right);
  if (atom.kind == Dim::AtomKind::Min) {
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  }
  if (atom.kind == Dim::AtomKind::Max) {
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b);
  }
  // Floor division and its remainder; a divisor below 1 is an overflow.
  llvm::Value* bad = builder_.CreateICmpSLT(b, builder_.getInt64(1));
  note(bad);
  b = builder_.CreateSelect(bad, builder_.getInt64(1), b);
  llvm::Value* remainder = builder_.CreateSRem(a, b);
  llvm::Value* negative = builder_.CreateICmpSLT(remainder, builder_.getInt64(0));
  remainder = builder_.CreateSelect(negative, builder_.CreateAdd(remainder, b), remainder);
  if (atom.kind == Dim::AtomKind::Mod) return remainder;
  return builder_.CreateSDiv(builder_.CreateSub(a, remainder), b);
}

}  // namespace tc
