// Rows of a map whose bytes a loop widens to 16 bits and puts next to each other channel by channel, before
// the register tiles inside of it slide a window over them (mark "widen").
#pragma once

#include <memory>

#include "codegen/llvm/emit/kernel_context.h"

namespace tc {

// Channels that are stored side by side: the bytes of a word.
constexpr int64_t kLanesOfRows = 4;

// The sum of a leaf over a window of bytes, one channel at a time, and where its operands are on the stack.
// Leaves of this kind have three loops: rows of the window, its three columns, and columns of the tile.
struct WidenedRows {
  int statement = -1;  // index into kernel.statements
  const TileStatement* tile = nullptr;
  const Expr *pixels = nullptr, *weights = nullptr;  // loads
  int64_t columns = 0, stride = 1;                   // of the tile; from one column to the next
  int64_t taps = 0, dilation = 1;                    // rows of the window; from one of them to the next
  size_t row_dim = 0, column_dim = 0;                // subscripts of the pixels
  Affine first_row;                                  // of the map, in variables that are bound by now
  int64_t first_column = 0;                          // of the map; the border before it is negative
  int64_t rows = 0, pairs = 0;                       // that are widened: rows, and pairs of pixels of a row
  // Bytes from the start to the first pixel of a leaf, in variables of the loops around it; to its weights.
  Affine offset, offset_of_weights;
  llvm::Value* start = nullptr;

  int64_t row_bytes() const { return 4 * pairs; }
  int64_t lane_bytes() const { return rows * row_bytes(); }
  int64_t weight_bytes() const { return 8 * taps; }  // of a channel: per row, two words
};

// Null where the leaf has no such sum. `inner` has the ranges of the loops between here and the leaf.
std::shared_ptr<WidenedRows> widened_rows(const KernelContext& context, const LoopNode& leaf,
                                          const Ranges& inner);

// Stores on the stack, for each of four channels, the rows of the map as numbers of 16 bits, with zeros for
// padding, and the weights as pairs of neighbours: columns 0 and 1 of each row, then 1 and 2.
void widen_rows(KernelContext& context, WidenedRows& rows);

}  // namespace tc
