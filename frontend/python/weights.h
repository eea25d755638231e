// Formats of stored weights, for Python front ends.
#pragma once

#include <pybind11/pybind11.h>

#include <vector>

#include "ir/ops/weight_formats.h"

namespace tc {

// The planes of a matrix [rows, columns], made by split_blocks() from bytes that Python hands over.
std::vector<Tensor> planes_of(const WeightFormat& format, const pybind11::buffer& data, int64_t rows,
                              int64_t columns);

// Adds `weight_formats` and `split_blocks` to the extension module.
void add_weights(pybind11::module_& module);

}  // namespace tc
