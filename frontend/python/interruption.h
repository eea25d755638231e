// The compiler's long work as Python's users see it: it ends at Ctrl-C and tells how far it has come.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Has interruption_point() run Python's signal handlers on its main thread, and leave where one raises.
// Defines set_progress(function): from then on the long work of the calling thread calls function(phase,
// done, total) now and then; it returns the function before, or None.
void add_interruption(pybind11::module_& module);

}  // namespace tc
