// Multiply-accumulate instructions of Arm's cores for microcontrollers (the Arm v7-M Architecture Reference
// Manual, "DSP extension"), on general-purpose registers: each lane of a register tile is a register of its
// own.
#include "ir/target/tables.h"

namespace tc::targets {

const std::vector<ProductGroup>& cortex_m_products() {
  using enum DType;
  using enum ProductRoute;
  static const std::vector<ProductGroup> groups = {
      // name, intrinsic, feature; a, b, sum; rows, columns, depth, pack; cycles
      {"dsp", Lanes, 1, 1, 13, {{"smlad", "llvm.arm.smlad", "dsp", I16, I16, I32, 1, 1, 2, 2, 1}}}};
  return groups;
}

}  // namespace tc::targets
