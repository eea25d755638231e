// The extension module tc._tc: what Python sees of the compiler.
#include <pybind11/pybind11.h>

PYBIND11_MODULE(_tc, module) { module.doc() = "The native half of tc."; }
