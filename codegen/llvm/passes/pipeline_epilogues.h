// Overlaps short sums of bytes with the epilogue of the tile before.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Works on each loop over tiles in which the sums are one inner loop of few trips, with products by
// `vpdpbusd`: the epilogue (scaling, additions, rounding, stores) then takes a good part of the time. A
// tile's sums are interleaved with the epilogue of the tile before: the loop over the sum is unrolled, the
// first tile's sums come before the loop over tiles and the last tile's epilogue after it, and in the loop
// instructions of both alternate. Products use only two of a Zen 4 core's four pipes, and the epilogue mostly
// the other two; an out-of-order processor does not look ahead as far as a tile is long.
void pipeline_epilogues(llvm::Function& function);

}  // namespace tc
