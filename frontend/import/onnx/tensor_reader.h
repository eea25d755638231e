// Tensors of an ONNX file, with their data inside it or in a file beside it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/import/onnx/onnx.pb.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace tc {

// The element type with this number in the format; Unsupported error naming `what` otherwise.
DType dtype_of_onnx(int32_t number, const std::string& what);
int32_t onnx_number_of(DType dtype);

// Where external data may lie. `model` is the folder of the model's file (empty: nowhere), in which files are
// found by their location. These may be symbolic links into the folders `more`, or, where the model lies in a
// cache of Hugging Face's form (`…/snapshots/REVISION/…`), into the folder `blobs` beside `snapshots`. Copies
// share what was read.
struct DataFolders {
  DataFolders(std::string folder, std::vector<std::string> others = {});  // NOLINT: a folder alone is one
  DataFolders(const char* folder) : DataFolders(std::string(folder)) {}   // NOLINT
  std::string model;
  std::vector<std::string> more;
  std::shared_ptr<class ReadTensors> read;  // never null
};

// Checked copy of the data; tensors of the same type, shape and bytes are one, and so are those of the same
// place of a data file. External data is a regular file with one hard link, below one of the folders. Model
// errors name the tensor, the file and the sizes; data files of which far more is to be read than they have,
// by ranges that overlap, are refused by one.
TensorPtr read_tensor(const tc_onnx::TensorProto& proto, const DataFolders& folders,
                      const std::string& file_name);
// The value of an attribute, its tensor read as above; none where it is of a kind that no operator here has.
std::optional<Attribute> attribute_value(const tc_onnx::AttributeProto& proto, const DataFolders& folders,
                                         const std::string& file_name);
// Makes external data, which is found as above, raw data of the message. Others stay as they are.
void take_in(tc_onnx::TensorProto& proto, const DataFolders& folders, const std::string& file_name);

}  // namespace tc
