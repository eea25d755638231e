// Tuning and its log as Python sees them.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

void add_tune(pybind11::module_& module);

}  // namespace tc
