// Multiply-accumulate instructions of 64-bit Arm, on NEON's registers: products of small matrices where the
// machine has them, else dot products.
//
// Cycles are those of cores with two pipes for these instructions (Cortex-A710, Neoverse V1 and later, by
// Arm's optimization guides). An accumulator is as wide as a vector of f32; with matrix instructions it has
// two rows, in two registers of two columns each. A step of dot products covers a depth of 16 numbers, by
// several instructions; a step of matrix instructions covers the depth of one instruction, so that its two
// rows are adjacent in memory.
#include "ir/target/tables.h"

namespace tc::targets {

const std::vector<ProductGroup>& aarch64_products() {
  using enum DType;
  using enum ProductRoute;
  static const std::vector<ProductGroup> groups = {
      // name, intrinsic, feature; a, b, sum; rows, columns, depth, pack; cycles, kept, depth multiples
      {"i8mm",
       Vectors,
       2,
       4,
       32,
       {{"bfmmla", "llvm.aarch64.neon.bfmmla", "bf16", BF16, BF16, F32, 2, 2, 4, 4, 0.5, F32, {1}},
        {"smmla", "llvm.aarch64.neon.smmla", "i8mm", I8, I8, I32, 2, 2, 8, 8, 0.5, I32, {1}}}},
      {"neon",
       Vectors,
       1,
       4,
       32,
       {{"bfdot", "llvm.aarch64.neon.bfdot", "bf16", BF16, BF16, F32, 1, 4, 2, 2, 0.5, F32, {8}},
        {"sdot", "llvm.aarch64.neon.sdot", "dotprod", I8, I8, I32, 1, 4, 4, 4, 0.5, I32, {4}}}}};
  return groups;
}

}  // namespace tc::targets
