// The header of an accelerator's driver, and a driver that simulates the accelerator.
#pragma once

#include <string>

#include "ir/accelerator.h"

namespace tc::c {

// NAME.h: the functions that a driver of the accelerator has to define, and those that write commands.
std::string driver_header(const Accelerator& accelerator);
// NAME_simulator.c: a driver that executes the commands itself and counts the accelerator's cycles.
std::string simulator_source(const Accelerator& accelerator);

}  // namespace tc::c
