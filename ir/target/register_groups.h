// Where plans and code count vector registers.
#pragma once

#include "ir/target/target.h"

namespace tc {

// Whether plans and code count the registers that vectors take, in groups, and decide what is loaded when:
// for cores that execute in order, which wait for loads, and for all cores whose vectors are groups of
// registers (RISC-V). There LLVM's order of the loads has more groups live than there are registers, and
// saves them on the stack, which costs a core out of order as much.
inline bool counts_registers(const Target& target) { return !target.out_of_order() || target.scalable; }

}  // namespace tc
