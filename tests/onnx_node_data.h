// The node tests that the ONNX project publishes, as files: those of the Python package `onnx`, or of
// the folder that TC_ONNX_NODE_TESTS names.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "frontend/import/import.h"
#include "frontend/import/onnx/onnx.pb.h"
#include "ir/tensor.h"

namespace tc {

// The folders of the tests, sorted; none where there are none here.
std::vector<std::filesystem::path> onnx_node_tests();
// Those of the newest standard, below the folder that TC_ONNX_NEWEST_NODE_TESTS names, but for those whose
// files are the same as those of the test of this name in onnx_node_tests(). `count` takes how many there are
// of all.
std::vector<std::filesystem::path> newest_onnx_node_tests(size_t& count);

std::string read_whole_file(const std::filesystem::path& path);

// A tensor of the test data; Unsupported error where the file holds something else.
Tensor read_tensor_file(const std::filesystem::path& path);

// The same where the model says that the value is a sequence or an optional: its tensors, and whether an
// optional has any.
struct NodeTestValue {
  PortKind kind = PortKind::Tensor;
  bool present = true;
  std::vector<Tensor> tensors;
};
NodeTestValue read_value_file(const std::filesystem::path& path, const tc_onnx::TypeProto& type);

// The model with inputs turned into initializers that hold the test data: those that are wanted.
std::string constant_operands(const std::string& model, const std::filesystem::path& data,
                              const std::function<bool(const std::string& name, const Tensor&)>& wanted);

// The same: those of integers or bools with rank <= 1 (or `all`: every tensor), as models have axes, sizes
// and scales.
std::string constant_operands(const std::string& model, const std::filesystem::path& data, bool all);

}  // namespace tc
