// Compiled models as Python sees them: the runtime's handles with arrays through the buffer
// protocol.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Adds the classes Model, Context and Runner, and functions of the runtime, to the extension module.
void add_runner(pybind11::module_& module);

}  // namespace tc
