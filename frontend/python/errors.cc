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

void translate_error(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const py::object type = py::module_::import("tc.errors").attr(class_name(error.kind()));
    PyErr_SetObject(type.ptr(), python_text(error.what()).ptr());
  }
}

}  // namespace

void add_errors() { py::register_exception_translator(&translate_error); }

}  // namespace tc
