// Whether the compiler counts the vector registers that a kernel needs.
#pragma once

#include "ir/target/target.h"

namespace tc {

// Whether schedules and code generation count the registers (in groups) that vectors take, and place the
// loads themselves: on in-order cores, which wait for loads, and on all cores whose vectors are groups of
// registers (RISC-V). On the latter, LLVM's order of the loads keeps more groups live than there are
// registers and spills them, which costs an out-of-order core as much as an in-order one.
inline bool counts_registers(const Target& target) { return !target.out_of_order() || target.scalable; }

}  // namespace tc
