// Tensors of an ONNX file, with their data inside it or in a file beside it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frontend/import/onnx/onnx.pb.h"
#include "ir/tensor.h"

namespace tc {

// The element type with this number in the format; Unsupported error naming `what` otherwise.
DType dtype_of_onnx(int32_t number, const std::string& what);
int32_t onnx_number_of(DType dtype);

// Where external data may lie. `model` is the folder of the model's file (empty: nowhere), in which files are found by their
// location. These may be symbolic links into the folders `more`, or, where the model lies in a cache of Hugging Face's form
// (`…/snapshots/REVISION/…`), into the folder `blobs` beside `snapshots`.
struct DataFolders {
  DataFolders(std::string folder, std::vector<std::string> others = {}) : model(std::move(folder)), more(std::move(others)) {}   // NOLINT: a folder alone is one
  DataFolders(const char* folder) : model(folder) {}   // NOLINT
  std::string model;
  std::vector<std::string> more;
};

// Checked copy of the data. External data is a regular file with one hard link, below one of the folders. Model errors name the
// tensor, the file and the sizes.
TensorPtr read_tensor(const tc_onnx::TensorProto& proto, const DataFolders& folders, const std::string& file_name);
// Makes external data, which is found as above, raw data of the message. Others stay as they are.
void take_in(tc_onnx::TensorProto& proto, const DataFolders& folders, const std::string& file_name);

}  // namespace tc
