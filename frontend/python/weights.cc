#include "frontend/python/weights.h"

#include <pybind11/stl.h>

#include "ir/error.h"

namespace py = pybind11;

namespace tc {
namespace {

py::list rows() {
  py::list result;
  for (const WeightFormat& format : weight_formats()) {
    py::list planes;
    for (const WeightPlane& plane : format.planes)
      planes.append(py::make_tuple(plane.name, name_of(plane.dtype), plane.elements));
    py::dict row;
    row["name"] = format.name;
    row["doc"] = format.doc;
    row["block"] = format.block;
    row["bytes"] = format.bytes;
    row["planes"] = planes;
    result.append(row);
  }
  return result;
}

// (name, element type, shape, bytes) of each plane of the matrix.
py::list plane_rows(const std::string& name, const py::buffer& data, int64_t rows, int64_t columns) {
  const WeightFormat& format = weight_format(name);
  std::vector<Tensor> planes = planes_of(format, data, rows, columns);
  py::list result;
  for (size_t i = 0; i < planes.size(); ++i) {
    const Tensor& tensor = planes[i];
    const py::bytes bytes(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    result.append(py::make_tuple(format.planes[i].name, name_of(tensor.dtype), tensor.shape, bytes));
    planes[i] = Tensor();
  }
  return result;
}

}  // namespace

std::vector<Tensor> planes_of(const WeightFormat& format, const py::buffer& data, int64_t rows,
                              int64_t columns) {
  const py::buffer_info info = data.request();
  const size_t size = static_cast<size_t>(info.size) * static_cast<size_t>(info.itemsize);
  const py::gil_scoped_release release;
  return split_blocks(format, static_cast<const uint8_t*>(info.ptr), size, rows, columns);
}

void add_weights(py::module_& module) {
  module.def("weight_formats", rows);
  module.def("split_blocks", plane_rows);
}

}  // namespace tc
