// Words of bytes that a loop widens to 16 bits before the register tiles inside of it read them, again and
// again (mark "widen").
#pragma once

#include <optional>

#include "codegen/llvm/emit/kernel_context.h"

namespace tc {

// A leaf's sum of products of bytes that can read its shared operand as such words.
struct WidenedSum {
  int statement = -1;  // index into kernel.statements
  const TileStatement* tile = nullptr;
  const Expr *shared = nullptr, *weights = nullptr;  // loads
  size_t sums = 0;  // the loops that sum are the first ones; then come columns, bytes and lanes
  int64_t columns = 0, steps = 0;  // words of each column
};

// Nothing where the leaf has no such sum, or what it reads depends on a variable that is not bound yet.
std::optional<WidenedSum> widened_sum(const KernelContext& context, const LoopNode& leaf);

// Loads the words of all columns, widens them, and stores them on the stack, whose address it returns: for
// each step the even bytes of each column's word, then the odd ones; 0 where a constraint excludes a word.
llvm::Value* widen_words(KernelContext& context, const WidenedSum& sum);

}  // namespace tc
