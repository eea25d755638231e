// Interruption and progress of the compiler's long work, for Python's users.
#include "frontend/python/interruption.h"

#include "frontend/python/signals.h"
#include "ir/interrupt.h"

namespace py = pybind11;

namespace tc {
namespace {

// One per thread. A plain pointer, since a thread may end without the interpreter's lock.
thread_local PyObject* progress_callback = nullptr;

// Whether Python's error is set after signal handlers and the progress callback have run.
bool is_interrupted() {
  if (has_raised_signal()) return true;
  if (progress_callback == nullptr) return false;
  const WorkProgress& progress = work_progress();
  const py::gil_scoped_acquire acquire;
  PyObject* const result =
      PyObject_CallFunction(progress_callback, "sLL", progress.phase, static_cast<long long>(progress.done),
                            static_cast<long long>(progress.total));
  Py_XDECREF(result);
  return result == nullptr;
}

}  // namespace

void add_interruption(py::module_& module) {
  set_interruption_check(&is_interrupted);
  module.def("set_progress", [](const py::object& function) {
    py::object before =
        progress_callback == nullptr ? py::none() : py::reinterpret_steal<py::object>(progress_callback);
    progress_callback = function.is_none() ? nullptr : py::object(function).release().ptr();
    return before;
  });
}

}  // namespace tc
