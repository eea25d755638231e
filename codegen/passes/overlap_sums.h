// Sums of bytes that are so short that what follows them takes a good part of the time.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// In each loop over tiles whose sums are one loop of few trips of `vpdpbusd`, lets a tile's sums run together
// with what becomes of the sums of the tile before (scaling, additions, rounding, stores): the loop over the
// sum is unrolled, the loop over tiles begins with the first tile's sums and ends with the last one's stores,
// and in between instructions of both alternate. Products alone use two of a Zen 4 core's four pipes, and
// what follows mostly the other two; an out-of-order processor looks less far ahead than a tile is long.
void overlap_sums(llvm::Function& function);

}  // namespace tc
