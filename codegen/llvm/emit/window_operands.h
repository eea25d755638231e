// The two operands of a sum of products of bytes over a window, of whose map a mark "widen" makes a copy.
#pragma once

#include <vector>

#include "codegen/llvm/emit/kernel_context.h"

namespace tc {

// `inner` has the ranges of the loops between the one with the mark and the leaf; those of the leaf are
// added.
class WindowOperands {
 public:
  WindowOperands(const KernelContext& context, const TileStatement& tile, Ranges inner);

 protected:
  // Finds the pixels, bytes of an input, and the weights, bytes of a constant; both are read at subscripts
  // and in shapes that do not depend on data or on symbols.
  bool find_operands();

  Scope scope_of(const Expr& load) const;
  const BufferSlot& slot_of(const Expr& load) const {
    return context_.buffers[static_cast<size_t>(load.access.buffer)];
  }
  Affine subscript(const Expr& load, size_t d) const;
  // Whether all variables of the expression have values where the mark is.
  bool is_bound(const Affine& affine) const;
  // Whether the constraint holds always, or only says that the pixel is in the map along one of the
  // dimensions.
  bool is_padding(const Affine& constraint, const std::vector<size_t>& dims) const;

  const KernelContext& context_;
  const TileStatement& tile_;
  const std::vector<TileLoop>& loops_;
  const Statement& statement_;
  Ranges inner_;
  const Expr *pixels_ = nullptr, *weights_ = nullptr;  // loads

 private:
  bool is_plain(const Expr& load) const;
};

// Bytes from the start of the buffer to what the load reads where all variables that have no value yet are 0,
// as are the subscripts in `zero`.
Affine bound_bytes(const KernelContext& context, const TileStatement& tile, const Expr& load,
                   const std::vector<size_t>& zero);

}  // namespace tc
