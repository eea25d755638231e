// Software-pipelines loops over tiles with short sums of bytes, on x86-64 with AVX-512.
#pragma once

#include <llvm/IR/Function.h>

namespace tc {

// Changes each loop over tiles whose sums are one inner loop of few iterations, with products by `vpdpbusd`:
// the epilogue (scaling, additions, rounding, stores) then takes much of the time. The inner loop is
// unrolled. The sums of the first tile are moved before the loop over tiles, and the epilogue of the last
// tile after it; in the loop, the instructions of a tile's epilogue alternate with those of the next tile's
// sums. Products use only two of the four vector pipes of a Zen 4 core, and the epilogue usually the other
// two; the window of an out-of-order core is shorter than the code of a tile.
void pipeline_epilogues(llvm::Function& function);

}  // namespace tc
