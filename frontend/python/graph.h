// Graphs between the import and the plan, for tools that run the pipeline stage by stage.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Adds Graph, passes and stored to the extension module.
void add_graph(pybind11::module_& module);

}  // namespace tc
