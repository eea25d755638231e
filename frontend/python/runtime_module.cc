// The extension module tc._runtime: compiled models as Python sees them. It contains no part of the compiler.
#include <pybind11/pybind11.h>

#include "frontend/python/errors.h"
#include "frontend/python/runner.h"

PYBIND11_MODULE(_runtime, module) {
  module.doc() = "Loads and runs compiled models.";
  tc::add_errors();
  tc::add_runner(module);
}
