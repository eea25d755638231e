// Tensors of an ONNX file, with their data inside it or in a file beside it.
#pragma once

#include <string>

#include "frontend/import/onnx/onnx.pb.h"
#include "ir/tensor.h"

namespace tc {

// The element type with this number in the format; Unsupported error naming `what` otherwise.
DType dtype_of_onnx(int32_t number, const std::string& what);
int32_t onnx_number_of(DType dtype);

// Checked copy of the data. `folder` holds external data: a regular file with one link, below the
// folder, reached through no symbolic link. Model errors name the tensor, the file and the sizes.
TensorPtr read_tensor(const tc_onnx::TensorProto& proto, const std::string& folder, const std::string& file_name);
// Makes external data, which is found as above, raw data of the message. Others stay as they are.
void take_in(tc_onnx::TensorProto& proto, const std::string& folder, const std::string& file_name);

}  // namespace tc
