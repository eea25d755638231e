// Windows of bytes that slide over one channel's map, as products of vectors: a patch of the map, whose bytes
// one load gathers, by weights with zeros beyond the window (mark "widen" where the target adds up products
// of two vectors in a general-purpose register).
#pragma once

#include <memory>

#include "codegen/llvm/emit/kernel_context.h"

namespace tc {

constexpr int64_t kBytesOfPatch = 16;  // of a vector

// The sum of a leaf over such a window, and where its operands are. Leaves of this kind have three loops:
// rows of the window, its columns, and four results as the lanes of a vector.
struct GatheredWindows {
  struct Tap {
    int64_t of_weights = 0,
            of_map = 0;  // bytes from the first weight, and from the first element in the copy
  };

  int statement = -1;  // index into kernel.statements
  const TileStatement* tile = nullptr;
  const Expr *pixels = nullptr, *weights = nullptr;  // loads
  size_t row_dim = 0, column_dim = 0;                // subscripts of the pixels
  std::vector<Tap> taps;
  int64_t lane_step = 0;  // bytes in the copy from a result's first element to that of the next one
  // The map: elements that are copied of its rows and columns, and the row above the first one.
  int64_t first_row = 0, rows = 0, columns = 0, rows_above = 0;
  // The copy: bytes from row to row, and in all; `kBytesOfPatch` precede the first row.
  int64_t pitch = 0, bytes = 0;
  Affine offset;  // bytes from the start to the first element of a leaf, in variables of the loops around it
  // Results that a patch serves, and its bytes from the first element on, a vector each.
  int64_t results = 1;
  std::vector<std::vector<int64_t>> patch;

  // From the start of the pixels' and of the weights' buffer to the map and to the first weight.
  Affine map_bytes, weight_bytes;

  llvm::Value* start = nullptr;
  // For each result of a patch and vector of it; null where all weights would be zeros.
  std::vector<std::vector<llvm::Value*>> factors;
  llvm::Value* excess = nullptr;  // of the sums: each element is stored less 128; null where it is not

  // Whether both read the same copy of the same map, and multiply it by the same weights.
  bool shares_copy_with(const GatheredWindows& other) const {
    return statement == other.statement && map_bytes == other.map_bytes &&
           weight_bytes == other.weight_bytes && pitch == other.pitch && bytes == other.bytes &&
           results == other.results && patch == other.patch;
  }
  void read_copy_of(const GatheredWindows& other) {
    start = other.start;
    factors = other.factors;
    excess = other.excess;
  }
};

// Null where the leaf has no such sum. `inner` has the ranges of the loops between here and the leaf.
std::shared_ptr<GatheredWindows> gathered_windows(const KernelContext& context, const LoopNode& leaf,
                                                  const Ranges& inner);

// Copies the channel's map to the stack, with zeros for padding, and loads its weights.
void copy_map(KernelContext& context, GatheredWindows& windows);

// The sums of the four results of a leaf, a vector.
llvm::Value* sums_of_windows(KernelContext& context, const GatheredWindows& windows);

}  // namespace tc
