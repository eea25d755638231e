// Interruption and progress of the compiler's long work, for Python's users: it ends at Ctrl-C and reports
// how far it has come.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Makes interruption_point() run Python's signal handlers on Python's main thread, and end the work where one
// raises. Defines set_progress(function): from then on long work of the calling thread calls function(phase,
// done, total) from time to time. It returns the function set before, or None.
void add_interruption(pybind11::module_& module);

}  // namespace tc
