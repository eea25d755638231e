// Which nodes of a file have an operator that tc knows.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "frontend/import/import.h"
#include "frontend/import/onnx/model_file.h"

namespace tc {

// The functions of a model by domain, name and overload: several may have the same name and differ in the
// overload.
using Functions = std::map<std::tuple<std::string, std::string, std::string>, const tc_onnx::FunctionProto*>;
// Model error for two functions of one domain, name and overload.
Functions functions_of(const tc_onnx::ModelProto& model, const std::string& file_name);
// The function that the node calls; null where it calls none.
const tc_onnx::FunctionProto* called_function(const Functions& functions, const tc_onnx::NodeProto& node);

// The operator's name with its domain where that is not the default one, and after a colon the overload that
// is called.
std::string full_type(const tc_onnx::NodeProto& node);
// The node's name; its first output where it has none.
std::string node_name(const tc_onnx::NodeProto& node);

// The most nodes that a model may have; each counts as often as it is imported.
struct NodeLimit {
  std::string file_name;
  int64_t most;
  // Throws the Unsupported error. If `function` is not empty, the nodes of that function alone are more than
  // the limit.
  [[noreturn]] void refuse(const std::string& function) const;
};

// Nodes whose operators have no row, are no functions and are not resolved while importing; in order of
// appearance, each once. Model errors for files that nest too deep, and the limit's error.
std::vector<ImportProblem> unknown_operators(const tc_onnx::GraphProto& graph, const Opsets& opsets,
                                             const Functions& functions, const NodeLimit& limit);
// The sentence that reports these nodes.
std::string describe(const std::vector<ImportProblem>& problems, const std::string& file_name);

}  // namespace tc
