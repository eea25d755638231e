// The part of a model with strings that the host runs.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Adds split_strings to the extension module.
void add_strings(pybind11::module_& module);

}  // namespace tc
