// Multiply-accumulate instructions of RISC-V (the RISC-V Instruction Set Manual, volume I, chapter "V").
#include "ir/target/tables.h"

namespace tc::targets {

const std::vector<ProductGroup>& riscv_products() {
  using enum DType;
  using enum ProductRoute;
  static const std::vector<ProductGroup> groups = {
      // name, intrinsic, feature; a, b, sum; rows, columns, depth, pack; cycles
      {"v", Lanes, 1, 0, 32, {{"vwmacc", "llvm.riscv.vwmacc", "v", I16, I16, I32, 1, 0, 1, 1, 1}}}};
  return groups;
}

}  // namespace tc::targets
