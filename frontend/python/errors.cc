#include "frontend/python/errors.h"

#include <exception>

#include "ir/error.h"

namespace py = pybind11;

namespace tc {

py::str python_text(const std::string& words) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "replace"));
}

py::list python_texts(const std::vector<std::string>& lines) {
  py::list result;
  for (const std::string& line : lines) result.append(python_text(line));
  return result;
}

namespace {

// Name of the Python class in tc.errors; bugs in tc have none of their own.
const char* class_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Model: return "ModelError";
    case ErrorKind::Unsupported: return "UnsupportedError";
    case ErrorKind::Shape: return "ShapeError";
    case ErrorKind::Target: return "TargetError";
    case ErrorKind::Schedule: return "ScheduleError";
    case ErrorKind::Device: return "DeviceError";
    case ErrorKind::Log: return "LogError";
    case ErrorKind::Internal: break;
  }
  return "Error";
}

void raise(const Error& error) {
  // Native code ended because a signal handler raised: Python's error is set already.
  if (PyErr_Occurred() != nullptr) return;
  const py::object type = py::module_::import("tc.errors").attr(class_name(error.kind()));
  // Error(text, shown=True): an Error's text is fit to be seen.
  PyErr_SetObject(type.ptr(), py::make_tuple(python_text(error.what()), true).ptr());
}

// The boundary of an extension module: native code raises only classes of tc.errors, except for what Python's
// own rules ask for (TypeError for a call with wrong arguments, StopIteration). Exceptions that a function of
// the caller raised do not come here: pybind11 passes them on.
void translate_error(std::exception_ptr pointer) {
  if (!pointer) return;
  try {
    std::rethrow_exception(pointer);
  } catch (const py::cast_error&) {
    raise(as_error(pointer));
  } catch (const py::builtin_exception&) {
    throw;
  } catch (...) {
    raise(as_error(pointer));
  }
}

}  // namespace

// Registered for this module alone, so that exceptions of other libraries are left to them.
void add_errors() { py::register_local_exception_translator(&translate_error); }

void raise_current_exception() {
  try {
    throw;
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (...) {
    raise(as_error(std::current_exception()));
  }
}

}  // namespace tc
