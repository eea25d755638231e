// Multiply-accumulate instructions of Arm's cores for microcontrollers.
//
// Those of the DSP extension (the Arm v7-M Architecture Reference Manual) are on general-purpose registers:
// each lane of a register tile is a register of its own. Those of MVE (Armv8.1-M) multiply the 16 bytes of
// two vectors and add all products to a sum in one of eight general-purpose registers, those of even numbers;
// these are counted as registers of the unit, in addition to the eight vectors.
#include "ir/target/tables.h"

namespace tc::targets {

const std::vector<ProductGroup>& cortex_m_products() {
  using enum DType;
  using enum ProductRoute;
  static const std::vector<ProductGroup> groups = {
      // name, intrinsic, feature; a, b, sum; rows, columns, depth, pack; cycles, kept, depth multiples,
      // tuning, encoding, centred
      {"mve",
       Vectors,
       1,
       4,
       16,
       {{"vmladava.s8",
         "llvm.arm.mve.vmldava",
         "mve",
         U8,
         I8,
         I32,
         1,
         1,
         16,
         16,
         0.5,
         I32,
         {1},
         "",
         {},
         true}}},
      {"dsp", Lanes, 1, 1, 13, {{"smlad", "llvm.arm.smlad", "dsp", I16, I16, I32, 1, 1, 2, 2, 1}}}};
  return groups;
}

}  // namespace tc::targets
