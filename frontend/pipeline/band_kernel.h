// A kernel that computes some rows of its result only.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ir/loop.h"

namespace tc {

// Elements `begin` to `end` (exclusive) of a buffer along one of its dimensions, with all elements of the
// other dimensions.
struct BufferRows {
  size_t axis = 0;
  int64_t begin = 0, end = 0;
  // Some windows reach beyond the buffer's last row. Code may then load what is there and not use it.
  bool beyond = false;
};

// The memory of a buffer: how many rows it has, and which row is the first.
struct StoredRows {
  int64_t rows = 0, first = 0;
};

// By the buffer's name: what a kernel reads of its operands, and what it writes, for some rows of its result.
// Operands that it reads as a whole, whichever rows it computes, have no entry.
using RowsOfBuffers = std::map<std::string, BufferRows>;

// The rows of all buffers that computing those rows of the result takes. Nothing where the kernel computes
// something else as well, where it would have to compute some intermediate result again for each band of
// rows, or where it is unknown which rows it reads. All sizes have to be numbers.
std::optional<RowsOfBuffers> rows_for(const Kernel& kernel, const BufferRows& result);

// The kernel that computes only the rows of the result that `rows`, which rows_for() made, tells. `stored`
// has the memory of each argument that has rows; rows beyond it must not be needed. Conditions that hold for
// all rows of the band are left out, so that kernels of bands without padding are equal.
Kernel band_kernel(const Kernel& kernel, const RowsOfBuffers& rows,
                   const std::map<std::string, StoredRows>& stored);

}  // namespace tc
