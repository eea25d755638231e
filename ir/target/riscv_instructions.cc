// Multiply-accumulate instructions of RISC-V: those of the vector extension (the RISC-V Instruction Set
// Manual, volume I, chapter "V"), and those of vendors.
//
// SpacemiT's `smt.vmadot` (the X60 core; LLVM's name of the extension is XSMTVDot) multiplies 4 rows of 8
// bytes by 4 columns of 8 bytes, at a vector length of 256 bits. Its sums take two registers. LLVM 19 does
// not know it: SiFive's instruction of the same shape stands for it until the code is written, and
// `tuning` makes LLVM accept that one. The two letters of the variants are the signs of a and b.
#include "ir/target/tables.h"

namespace tc::targets {

const std::vector<ProductGroup>& riscv_products() {
  using enum DType;
  using enum ProductRoute;
  constexpr const char* kStandIn = "+xsfvqmaccqoq";
  static const std::vector<ProductGroup> groups = {
      // name, intrinsic, feature; a, b, sum; rows, columns, depth, pack; cycles, kept, depth multiples
      // clang-format off
      {"v", Lanes, 1, 0, 32, {
          {"vwmacc", "llvm.riscv.vwmacc", "v", I16, I16, I32, 1, 0, 1, 1, 1},
          {"vwmaccsu", "llvm.riscv.vwmaccsu", "v", I8, U8, I16, 1, 0, 1, 1, 0.5}}},
      {"zvl256b", Vectors, 4, 16, 32, {
          {"smt.vmadotus", "llvm.riscv.sf.vqmaccus.4x8x4", "xsmtvdot", U8, I8, I32, 4, 4, 8, 8, 1, I32, {8, 4, 2},
           kStandIn, {0x2b, 1, 0x71, 8}},
          {"smt.vmadot", "llvm.riscv.sf.vqmacc.4x8x4", "xsmtvdot", I8, I8, I32, 4, 4, 8, 8, 1, I32, {8, 4, 2},
           kStandIn, {0x2b, 3, 0x71, 8}}}}};
  // clang-format on
  return groups;
}

// Of 32 bits, for microcontrollers: a multiplication of words multiplies two weights that one word holds by
// the same number (the primitive `pairs`).
const std::vector<ProductGroup>& riscv32_products() {
  using enum DType;
  using enum ProductRoute;
  static const std::vector<ProductGroup> groups = {
      {"m", Lanes, 1, 2, 27, {{"mul", "", "m", I8, I8, I32, 1, 2, 1, 1, 1}}}};
  return groups;
}

}  // namespace tc::targets
