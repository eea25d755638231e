// Models that Python front ends describe.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Adds the classes DescribedNode, GraphDescription and ModelDescription to the extension module; Source
// exists already.
void add_description(pybind11::module_& module);

}  // namespace tc
