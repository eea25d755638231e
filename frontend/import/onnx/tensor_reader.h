// Tensors of an ONNX file, with their data inside of it or in a separate file.
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

// Where external data may be. `model` is the folder of the model's file, to which the locations of data files
// are relative; where it is empty, there may be no external data. Data files may be symbolic links into the
// folders `more`, or, where the model is in a cache laid out like Hugging Face's (`…/snapshots/REVISION/…`),
// into the folder `blobs` next to `snapshots`. Copies of this object share what was read.
struct DataFolders {
  DataFolders(std::string folder, std::vector<std::string> others = {});  // NOLINT: a folder converts to this
  DataFolders(const char* folder) : DataFolders(std::string(folder)) {}   // NOLINT
  std::string model;
  std::vector<std::string> more;
  std::shared_ptr<class ReadTensors> read;  // never null
};

// A checked copy of the data. Tensors of the same type, shape and bytes become one, and so do those of the
// same place in a data file. External data has to be a regular file with one hard link below one of the
// folders. Model errors name the tensor, the file and the sizes; there is one, too, where overlapping ranges
// would read far more bytes than the data files have.
TensorPtr read_tensor(const tc_onnx::TensorProto& proto, const DataFolders& folders,
                      const std::string& file_name);
// The value of an attribute, its tensor read as above; none for kinds of attributes that no operator of tc
// has.
std::optional<Attribute> attribute_value(const tc_onnx::AttributeProto& proto, const DataFolders& folders,
                                         const std::string& file_name);
// Moves external data, found as above, into the message as raw data. Other tensors stay as they are.
void take_in(tc_onnx::TensorProto& proto, const DataFolders& folders, const std::string& file_name);

}  // namespace tc
