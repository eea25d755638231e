// Roofs and profiles as Python sees them.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Adds measure_limits, step_work and vector_bits to the extension module.
void add_roof(pybind11::module_& module);

}  // namespace tc
