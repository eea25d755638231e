// Tensors of the bytes that Python hands over.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "ir/tensor.h"

namespace tc {

// A copy of a dense buffer in row-major order as a tensor of `dtype`, whatever element type the buffer
// declares.
Tensor tensor_of(const std::string& dtype, const std::vector<int64_t>& shape, const pybind11::buffer& data);

}  // namespace tc
