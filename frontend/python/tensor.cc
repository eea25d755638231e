#include "frontend/python/tensor.h"

#include <cstring>

#include "ir/error.h"

namespace py = pybind11;

namespace tc {

Tensor tensor_of(const std::string& dtype, const std::vector<int64_t>& shape, const py::buffer& data) {
  Tensor tensor(dtype_from_name(dtype), shape);
  const py::buffer_info info = data.request();
  const size_t bytes = static_cast<size_t>(info.size) * static_cast<size_t>(info.itemsize);
  TC_CHECK(bytes == tensor.bytes.size(), bytes, " bytes for a tensor of ", tensor.bytes.size());
  py::gil_scoped_release release;
  if (bytes) std::memcpy(tensor.bytes.data(), info.ptr, bytes);
  return tensor;
}

}  // namespace tc
