// The matrix unit of a machine, from the rows of its architecture's instructions.
#include <algorithm>
#include <cmath>
#include <set>

#include "ir/error.h"
#include "ir/target/tables.h"
#include "ir/target/weight_pairs.h"

namespace tc {
namespace targets {
namespace {

bool contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The format of products for which a kernel's depth is `depth_multiples` times the instruction's. Its step is
// as many instructions as cover the columns of an accumulator and that depth.
MatrixUnit::Format format_of(const NarrowProduct& row, const MatrixUnit& unit, int depth_multiples) {
  const int instructions = depth_multiples * unit.columns / row.columns;
  const double conversion = row.kept == row.sum ? 0 : 1;
  return {row.a,
          row.kept,
          depth_multiples * row.depth / row.pack,
          row.pack,
          instructions * row.cycles + conversion,
          &row};
}

}  // namespace

const std::vector<ProductGroup>& narrow_products(Arch arch) {
  static const std::vector<ProductGroup> none;
  switch (arch) {
    case Arch::X86_64: return x86_products();
    case Arch::AArch64: return aarch64_products();
    case Arch::ArmM: return cortex_m_products();
    case Arch::RiscV64: return riscv_products();
    case Arch::RiscV32: return riscv32_products();
  }
  return none;
}

MatrixUnit matrix_unit(Arch arch, const std::vector<std::string>& features) {
  const std::vector<ProductGroup>& groups = narrow_products(arch);
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const ProductGroup& group) {
    return group.route != ProductRoute::Lanes && contains(features, group.feature);
  });
  if (found == groups.end()) return {};
  MatrixUnit unit;
  unit.rows = found->rows;
  unit.columns = found->columns;
  unit.registers = found->registers;
  unit.vectors = found->route == ProductRoute::Vectors;
  for (const NarrowProduct& row : found->instructions) {
    TC_CHECK(row.rows == unit.rows && unit.columns % row.columns == 0, "for instruction ", row.name);
    if (!contains(features, row.feature)) continue;
    unit.parts = unit.columns / row.columns;
    for (const int depth_multiples : row.depth_multiples) {
      if (depth_multiples > 0) unit.formats.push_back(format_of(row, unit, depth_multiples));
    }
  }
  return unit.formats.empty() ? MatrixUnit{} : unit;
}

std::vector<const NarrowProduct*> lane_products(Arch arch, const std::vector<std::string>& features) {
  std::vector<const NarrowProduct*> result;
  for (const ProductGroup& group : narrow_products(arch)) {
    if (group.route != ProductRoute::Lanes || !contains(features, group.feature)) continue;
    for (const NarrowProduct& row : group.instructions) {
      if (contains(features, row.feature)) result.push_back(&row);
    }
  }
  return result;
}

std::string tuning_features(const MatrixUnit& unit) {
  std::string result;
  for (const MatrixUnit::Format& format : unit.formats) {
    const std::string tuning = format.instruction->tuning;
    if (!tuning.empty() && result.find(tuning) == std::string::npos)
      result += (result.empty() ? "" : ",") + tuning;
  }
  return result;
}

bool is_encoded_feature(Arch arch, const std::string& feature) {
  for (const ProductGroup& group : narrow_products(arch)) {
    for (const NarrowProduct& each : group.instructions) {
      if (each.feature == feature) return each.encoding.opcode != 0;
    }
  }
  return false;
}

bool needs_tile_unit(Arch arch, const std::string& feature) {
  for (const ProductGroup& group : narrow_products(arch)) {
    if (group.route != ProductRoute::Tiles) continue;
    if (group.feature == feature) return true;
    for (const NarrowProduct& each : group.instructions) {
      if (each.feature == feature) return true;
    }
  }
  return false;
}

std::vector<std::string> product_features(Arch arch) {
  std::set<std::string> result;
  for (const ProductGroup& group : narrow_products(arch)) {
    result.insert(group.feature);
    for (const NarrowProduct& each : group.instructions) result.insert(each.feature);
  }
  return {result.begin(), result.end()};
}

}  // namespace targets

const MatrixUnit::Format* MatrixUnit::format(DType operand, int64_t numbers) const {
  const Format* best = nullptr;
  double least = 0;
  for (const Format& each : formats) {
    const int64_t depth = int64_t{each.groups} * each.pack;
    const double cycles = each.cycles * std::ceil(static_cast<double>(numbers) / static_cast<double>(depth));
    if (each.operand != operand || (best != nullptr && cycles >= least)) continue;
    best = &each;
    least = cycles;
  }
  return best;
}

const NarrowProduct* lane_product(const Target& target, int64_t lanes, DType a, DType b, DType sum) {
  for (const NarrowProduct* row : target.lane_products) {
    const bool operands = (row->a == a && row->b == b) || (row->a == b && row->b == a);
    if (operands && row->sum == sum && (row->columns == 0 || row->columns == lanes)) return row;
  }
  return nullptr;
}

// A target that adds up products of 16-bit numbers in lanes of 32 bits can do so with bytes, too: it widens
// two bytes of each operand to 16 bits, and then the other two.
int byte_products(const Target& target) {
  constexpr int kLaneBytes = 4;
  for (const NarrowProduct* row : target.lane_products) {
    if (row->depth * size_of(row->a) == kLaneBytes && row->sum == DType::I32) return kLaneBytes;
  }
  return 0;
}

const NarrowProduct* short_product(const Target& target, int64_t lanes) {
  const NarrowProduct* row = lane_product(target, lanes, DType::I8, DType::U8, DType::I16);
  return row != nullptr && row->depth == 1 ? row : nullptr;
}

int digit_products(const Target& target) {
  if (byte_products(target) > 0) return byte_products(target);
  return short_product(target, target.lanes(DType::I32)) != nullptr ? 1 : 0;
}

bool adds_products_in_scalars(const Target& target) {
  return target.vector_bits == 0 && lane_product(target, 1, DType::I16, DType::I16, DType::I32) != nullptr;
}

bool reads_widened_words(const Target& target) {
  return adds_products_in_scalars(target) && target.float_unit;
}

bool pairs_weights(const Target& target) {
  const NarrowProduct* row = lane_product(target, 2, DType::I8, DType::I8, DType::I32);
  return target.vector_bits == 0 && row != nullptr && row->columns == 2 && row->depth == 1;
}

Target for_least_constants(Target target) {
  if (pairs_weights(target)) target.lane_products.clear();
  return target;
}

bool has_byte_instruction(const Target& target, int64_t lanes, DType a, DType b) {
  return lane_product(target, lanes, a, b, DType::I32) != nullptr;
}

}  // namespace tc
