// Questions of the Python package to trackers.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Adds the functions tracker_state(address, credentials) and credentials_warning(address, credentials) to
// the extension module.
void add_fleet(pybind11::module_& module);

}  // namespace tc
