// Descriptions of accelerators from Python.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Adds register_accelerator(name, memories, instructions, block, issue_cycles, queue, wait) to the module;
// frontend/tc/accelerator.py calls it.
void add_accelerators(pybind11::module_& module);

}  // namespace tc
