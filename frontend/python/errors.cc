#include "frontend/python/errors.h"

#include <exception>

#include "ir/error.h"

namespace py = pybind11;

namespace tc {

py::str python_text(const std::string& words) {
  return py::reinterpret_steal<py::str>(
      PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "replace"));
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
  const py::object type = py::module_::import("tc.errors").attr(class_name(error.kind()));
  PyErr_SetObject(type.ptr(), python_text(error.what()).ptr());
}

// An exception of Python that passes through native code: those of its own making become errors of tc, those that a
// caller's function raised stay what they are.
void raise(py::error_already_set& error) {
  if (error.matches(PyExc_MemoryError)) return raise(as_error(std::make_exception_ptr(std::bad_alloc())));
  if (error.matches(PyExc_UnicodeError)) {
    return raise(Error(ErrorKind::Model, text("a name is not UTF-8: ", std::string(py::str(error.value())))));
  }
  error.restore();
}

// The boundary of an extension module: nothing but classes of tc.errors leaves native code, besides what Python's own
// rules ask for (TypeError for a call with wrong arguments, StopIteration) and what a caller's function raised.
void translate_error(std::exception_ptr pointer) {
  if (!pointer) return;
  try {
    std::rethrow_exception(pointer);
  } catch (py::error_already_set& error) {
    raise(error);
  } catch (const py::cast_error&) {
    raise(as_error(pointer));
  } catch (const py::builtin_exception&) {
    throw;
  } catch (...) {
    raise(as_error(pointer));
  }
}

}  // namespace

// Of this module alone: other libraries' exceptions are theirs.
void add_errors() { py::register_local_exception_translator(&translate_error); }

}  // namespace tc
