// ONNX files to the graph IR. The file is hostile: every size is checked before it is believed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tc {

struct ImportOptions {
  // Sizes of inputs by name; -1 leaves a dimension as the file has it.
  std::map<std::string, std::vector<int64_t>> input_shapes;
  std::map<std::string, int64_t> symbols;
  // Inputs that are constants of the compiled model (a sampling rate that chooses a branch).
  std::map<std::string, TensorPtr> constants;
};

// Something in a model that cannot be compiled.
struct ImportProblem {
  std::string node;                // name, or first output where it has none
  std::string op_type;             // with the domain, if not the default one
  int opset = 0;
  std::string reason;
};

// The model as a graph with types and shapes inferred. `folder` is where external data may lie
// (empty: nowhere). Opsets 7 and up. Model errors for files that are damaged, Unsupported errors
// that name all operators without a row at once, Shape errors that name node and sizes. The bytes are let
// go once they are parsed, and what was parsed as it is imported, so that tensors are in memory twice at most.
Graph import_onnx(std::string bytes, const std::string& file_name, const std::string& folder,
                  const ImportOptions& options);

// Every operator of the model (subgraphs and functions too) that has no row; where there is none,
// the first other reason why the import fails, if any.
std::vector<ImportProblem> check_onnx(const std::string& bytes, const std::string& file_name,
                                      const std::string& folder, const ImportOptions& options);

}  // namespace tc
