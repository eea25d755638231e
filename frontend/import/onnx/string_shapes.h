// Operators on strings, which run on the host, and what is known of their results while compiling.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/import/onnx/onnx.pb.h"
#include "ir/dim.h"
#include "ir/dtype.h"

namespace tc {

// Whether the host has the operator of this node (frontend/tc/host_operators.py).
bool is_host_operator(const tc_onnx::NodeProto& node);
std::string host_operators();  // "StringConcat, …"

struct StringResult {
  std::optional<DType> dtype;  // nothing: strings
  std::optional<Shape> shape;  // nothing where even the number of dimensions is open
};
// What is known of an output of the node, whose inputs have these shapes.
StringResult result_of(const tc_onnx::NodeProto& node, int output,
                       const std::vector<std::optional<Shape>>& shapes);

}  // namespace tc
