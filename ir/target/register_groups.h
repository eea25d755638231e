// Whether the compiler counts the vector registers that a kernel needs.
#pragma once

#include <algorithm>

#include "ir/target/target.h"

namespace tc {

// Whether schedules and code generation count the registers (in groups) that vectors take, and place the
// loads themselves: on in-order cores, which wait for loads, and on all cores whose vectors are groups of
// registers (RISC-V). On the latter, LLVM's order of the loads keeps more groups live than there are
// registers and spills them, which costs an out-of-order core as much as an in-order one.
inline bool counts_registers(const Target& target) { return !target.out_of_order() || target.scalable; }

// How many vector registers the sums of one instruction of the unit take, where they are vectors: several,
// where a row of columns does not fill a register and several rows do not fit one.
inline int sum_registers(const Target& target, const NarrowProduct& row) {
  return std::max(1, row.rows * row.columns * static_cast<int>(8 * size_of(row.sum)) / target.vector_bits);
}

// Whether an accumulator of the unit is a row of sums that each have a register of their own, so that a step
// of the sum has few instructions.
inline bool sums_are_scalars(const MatrixUnit& unit) {
  return unit.vectors && unit.rows == 1 && unit.parts > 1;
}

// The type in which kernels store the numbers of the first operand for the unit.
inline DType first_operand(const MatrixUnit::Format& format) {
  return format.instruction != nullptr && format.instruction->centred ? DType::I8 : format.operand;
}

// The unit's format for first operands that kernels store in this type; null where it has none.
inline const MatrixUnit::Format* format_of_stored(const MatrixUnit& unit, DType type) {
  if (const MatrixUnit::Format* format = unit.format(type)) return format;
  for (const MatrixUnit::Format& each : unit.formats) {
    if (first_operand(each) == type) return &each;
  }
  return nullptr;
}

// The type of kernels' second operands. Signed numbers are multiplied by signed ones, also by instructions
// that take the second ones as unsigned.
inline DType second_operand(const MatrixUnit::Format& format) {
  return is_float(format.operand) || is_signed(format.operand) ? format.operand : format.instruction->b;
}

}  // namespace tc
