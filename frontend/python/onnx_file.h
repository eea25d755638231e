// ONNX files taken apart, for `verify`.
#pragma once

#include <pybind11/pybind11.h>

namespace tc {

// Adds OnnxFile and onnx_of to the extension module; Source exists already.
void add_onnx_file(pybind11::module_& module);

}  // namespace tc
