// Sequences and optionals, which are resolved while importing: operators on them act on names (scope.h) and
// make nodes only where tensors are split, joined or reshaped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/import/onnx/scope.h"

namespace tc {

// The most tensors that a sequence may have.
constexpr int64_t kMaxTensors = 4096;

// The kind of a port or an Optional of this type; Unsupported error naming `who` for maps, sparse tensors and
// nested sequences.
PortKind kind_of_type(const tc_onnx::TypeProto& type, const std::string& who);
// The type of the tensors in it.
const tc_onnx::TypeProto::Tensor& tensor_type_of(const tc_onnx::TypeProto& type);

// Operators on sequences and optionals, which need no row.
bool is_sequence_operator(const std::string& domain, const std::string& op_type, int opset);
void import_sequence_operator(const tc_onnx::NodeProto& node, NameScope& scope, int depth,
                              NodeImporter& importer);

// Throws NeedsForms with all inputs of the model that are sequences or optionals and whose form the options
// do not give.
void require_forms(const tc_onnx::GraphProto& graph, const std::string& file_name,
                   const ImportOptions& options);
// Makes one input of the graph for each tensor in the form of this input.
Composite composite_input(Graph& graph, const tc_onnx::ValueInfoProto& input, const std::string& file_name,
                          const ImportOptions& options);

}  // namespace tc
