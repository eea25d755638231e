// An extension module whose functions throw what native code may throw, behind the boundary of tc's own
// modules (frontend/python/errors.cc, compiled together with it by test_boundaries.py).
#include <pybind11/pybind11.h>

#include <new>
#include <stdexcept>
#include <string>

#include "frontend/python/errors.h"
#include "ir/error.h"

namespace py = pybind11;

PYBIND11_MODULE(throwing, module) {
  tc::add_errors();
  module.def("bad_alloc", [] { throw std::bad_alloc(); });
  module.def("length_error", [] { throw std::length_error("vector::reserve"); });
  module.def("out_of_range", [] { throw std::out_of_range("map::at"); });
  module.def("exception", [] { throw std::exception(); });
  module.def("number", [] { throw 7; });
  module.def("shape_error", [] { tc::fail(tc::ErrorKind::Shape, "node '\xff': sizes differ"); });
  module.def("text", [] { return tc::python_text("\xff\xfeq"); });
  module.def("texts", [] { return tc::python_texts({"\xff", "q"}); });
  module.def("cast_error", [] { return py::str("x").cast<int>(); });
  module.def("call", [](const py::object& function) { return function(); });
}
