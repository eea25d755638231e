// The matrix unit of a machine, from the rows of its architecture's instructions.
#include <algorithm>
#include <cmath>

#include "ir/error.h"
#include "ir/target/tables.h"

namespace tc {
namespace targets {
namespace {

bool contains(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The format that uses the instruction as often as an accumulator's columns and a depth of a kernel need it.
MatrixUnit::Format format_of(const MultiplyAdd& row, const MatrixUnit& unit, int depth_multiples) {
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

const std::vector<UnitRow>& units_of(Arch arch) {
  static const std::vector<UnitRow> none;
  switch (arch) {
    case Arch::X86_64: return x86_units();
    case Arch::AArch64: return aarch64_units();
    case Arch::RiscV64:
    case Arch::RiscV32: break;
  }
  return none;
}

MatrixUnit matrix_unit(Arch arch, const std::vector<std::string>& features) {
  const std::vector<UnitRow>& rows = units_of(arch);
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const UnitRow& row) { return contains(features, row.feature); });
  if (found == rows.end()) return {};
  MatrixUnit unit;
  unit.rows = found->rows;
  unit.columns = found->columns;
  unit.registers = found->registers;
  unit.vectors = found->vectors;
  for (const MultiplyAdd& row : found->instructions) {
    TC_CHECK(row.rows == unit.rows && unit.columns % row.columns == 0, "for instruction ", row.name);
    if (!contains(features, row.feature)) continue;
    unit.parts = unit.columns / row.columns;
    for (const int depth_multiples : row.depth_multiples) {
      if (depth_multiples > 0) unit.formats.push_back(format_of(row, unit, depth_multiples));
    }
  }
  return unit.formats.empty() ? MatrixUnit{} : unit;
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

bool is_of_tiles(Arch arch, const std::string& feature) {
  for (const UnitRow& row : units_of(arch)) {
    if (row.vectors) continue;
    if (row.feature == feature) return true;
    for (const MultiplyAdd& each : row.instructions) {
      if (each.feature == feature) return true;
    }
  }
  return false;
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

}  // namespace tc
