#include "frontend/python/numpy_arrays.h"

#include <new>
#include <type_traits>

namespace py = pybind11;

namespace tc {
namespace {

// Indices in NumPy's table of functions (numpy/core/code_generators/numpy_api.py), which never change.
constexpr int kArrayType = 2;
constexpr int kEmpty = 184;

// NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED.
constexpr int kDense = 0x1 | 0x100;

// numpy.core is numpy._core since release 2.
py::module_ core_module() {
  try {
    return py::module_::import("numpy._core.multiarray");
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_ImportError)) throw;
  }
  return py::module_::import("numpy.core.multiarray");
}

}  // namespace

NumpyInterface::NumpyInterface() {
  const py::object capsule = core_module().attr("_ARRAY_API");
  auto* const table = static_cast<void**>(PyCapsule_GetPointer(capsule.ptr(), nullptr));
  if (table == nullptr) throw py::error_already_set();
  array_type_ = static_cast<PyTypeObject*>(table[kArrayType]);
  empty_ = reinterpret_cast<Empty>(table[kEmpty]);
}

const NumpyArray* NumpyInterface::dense_array(PyObject* object, const py::object& type) const {
  if (!PyObject_TypeCheck(object, array_type_)) return nullptr;
  const auto* array = reinterpret_cast<const NumpyArray*>(object);
  return array->type == type.ptr() && (array->flags & kDense) == kDense ? array : nullptr;
}

py::object NumpyInterface::empty(int rank, const int64_t* sizes, const py::object& type) const {
  static_assert(std::is_same_v<Py_ssize_t, int64_t>, "NumPy counts elements as tc does");
  PyObject* const array =
      empty_(rank, sizes, type.inc_ref().ptr(), 0);  // takes over one reference to the type
  if (array != nullptr) return py::reinterpret_steal<py::object>(array);
  if (PyErr_ExceptionMatches(PyExc_MemoryError) == 0) throw py::error_already_set();
  PyErr_Clear();
  throw std::bad_alloc();
}

}  // namespace tc
