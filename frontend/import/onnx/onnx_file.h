// The nodes of an ONNX file's graph, and how to write files with some of them. What is not changed is written
// as it was read, including fields that the compiler does not know.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "frontend/import/onnx/onnx.pb.h"
#include "ir/tensor.h"

namespace tc {

// A node of the file's graph. `reads` has its inputs and the names of the outer graph that its subgraphs
// read, each once.
struct FileNode {
  const tc_onnx::NodeProto* proto;
  std::vector<std::string> reads;

  // The node's name; where it has none, its first output's.
  const std::string& name() const;
};

// Which nodes a written file has, and with which inputs, constants and outputs.
struct FilePart {
  struct Declaration {
    DType dtype;
    std::vector<int64_t> shape;
  };
  std::optional<std::set<int>> nodes;                           // numbers in the file's graph; not set: all
  std::map<std::string, Declaration> inputs;                    // also for results of nodes that are left out
  std::map<std::string, TensorPtr> constants;                   // given instead of inputs
  using Output = std::pair<std::string, std::optional<DType>>;  // without a type: as the file declares it
  std::optional<std::vector<Output>> outputs;                   // not set: those of the file
};

// Adds an initializer of this name. Unsupported error, which begins with `where`, for elements of less than a
// byte.
void add_initializer(tc_onnx::GraphProto& graph, const std::string& name, const Tensor& tensor,
                     const std::string& where);

class OnnxFile {
 public:
  // `name` is the name of the file in error texts, `folder` is where its external data is. Model error for
  // bytes that are no complete model.
  OnnxFile(const std::string& bytes, const std::string& name, const std::string& folder);

  const std::vector<FileNode>& nodes() const { return nodes_; }
  // By the name of a value: the number of the node that makes it.
  const std::map<std::string, int>& makers() const { return makers_; }
  const std::vector<std::string>& inputs() const {
    return inputs_;
  }  // without those that have an initializer
  const std::vector<std::string>& outputs() const { return outputs_; }
  // The initializer of this name; null where there is none.
  const tc_onnx::TensorProto* initializer(const std::string& name) const;

  // The bytes of a file that has only this part of the graph.
  std::string part(const FilePart& part) const;
  // Numbers of the nodes from which `outputs` are computed where the values of `given` are known.
  std::set<int> needed(const std::vector<std::string>& outputs, const std::set<std::string>& given) const;

 private:
  std::vector<std::string> read_by(const std::set<int>& kept, const FilePart& part) const;

  tc_onnx::ModelProto model_;  // without its graph
  tc_onnx::GraphProto graph_;
  std::vector<FileNode> nodes_;
  std::map<std::string, int> makers_;
  std::map<std::string, const tc_onnx::TensorProto*> initializers_;
  std::map<std::string, const tc_onnx::ValueInfoProto*> declared_inputs_, declared_outputs_;
  std::vector<std::string> inputs_, outputs_;
};

}  // namespace tc
