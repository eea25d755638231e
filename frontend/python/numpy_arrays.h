#ifndef TC_FRONTEND_PYTHON_NUMPY_ARRAYS_H_
#define TC_FRONTEND_PYTHON_NUMPY_ARRAYS_H_

// NumPy's arrays, read and made through NumPy's C interface. The buffer protocol and a call of numpy.empty
// would do the same, but each takes 150 to 200 ns, and a whole run of a model of a few small layers only 2
// microseconds.

#include <pybind11/pybind11.h>

#include <cstdint>

namespace tc {

// The first fields of every array, as NumPy's headers declare them (PyArrayObject_fields): part of its binary
// interface, and the same in releases 1 and 2.
struct NumpyArray {
  PyObject_HEAD char* data;
  int rank;
  const Py_ssize_t* sizes;
  const Py_ssize_t* strides;
  PyObject* base;
  PyObject* type;
  int flags;

  bool is_writable() const { return (flags & 0x400) != 0; }  // NPY_ARRAY_WRITEABLE
};

class NumpyInterface {
 public:
  NumpyInterface();

  // The object as an array if it is a dense and aligned one with exactly this type object; else null. Also
  // null where another object stands for the same type, as in an array that was unpickled.
  const NumpyArray* dense_array(PyObject* object, const pybind11::object& type) const;

  // A new array. Throws std::bad_alloc where memory runs out.
  pybind11::object empty(int rank, const int64_t* sizes, const pybind11::object& type) const;

 private:
  using Empty = PyObject* (*)(int rank, const Py_ssize_t* sizes, PyObject* type, int columns_first);

  PyTypeObject* array_type_ = nullptr;
  Empty empty_ = nullptr;
};

}  // namespace tc

#endif  // TC_FRONTEND_PYTHON_NUMPY_ARRAYS_H_
