// Which nodes of a file have an operator that is known.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "frontend/import/import.h"
#include "frontend/import/onnx/model_file.h"

namespace tc {

// Functions of a model, by domain, name and overload: a model may have several of one name that differ in the
// last.
using Functions = std::map<std::tuple<std::string, std::string, std::string>, const tc_onnx::FunctionProto*>;
// Model error for two functions of one domain, name and overload.
Functions functions_of(const tc_onnx::ModelProto& model, const std::string& file_name);
// The function that the node calls; null where it calls none.
const tc_onnx::FunctionProto* called_function(const Functions& functions, const tc_onnx::NodeProto& node);

// The operator with its domain where that is not the default one, and behind a colon the overload that is
// called.
std::string full_type(const tc_onnx::NodeProto& node);
// Its name, or first output where it has none.
std::string node_name(const tc_onnx::NodeProto& node);

// The most nodes that a model may have, counted as often as they are imported.
struct NodeLimit {
  std::string file_name;
  int64_t most;
  // Unsupported error; the function alone, where one is named, has more.
  [[noreturn]] void refuse(const std::string& function) const;
};

// Nodes whose operators are neither rows nor functions nor resolved while importing, in order of appearance,
// each once. Model errors for files that nest too deep, and that of the limit.
std::vector<ImportProblem> unknown_operators(const tc_onnx::GraphProto& graph, const Opsets& opsets,
                                             const Functions& functions, const NodeLimit& limit);
// The sentence that says so.
std::string describe(const std::vector<ImportProblem>& problems, const std::string& file_name);

}  // namespace tc
