// A model that a front end in Python describes node by node. Operators, types and attributes are those of
// ONNX, so that the model is then imported as ONNX files are. Nothing is encoded, and tensors are shared, not
// copied.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "frontend/import/onnx/onnx.pb.h"
#include "ir/dtype.h"
#include "ir/tensor.h"

namespace tc {

// The opset of the default domain whose forms described nodes have.
constexpr int kDescribedOpset = 28;

// A size of an input: a number, or the name of a symbol.
using DescribedSize = std::variant<int64_t, std::string>;
using DescribedAttribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                                        std::vector<double>, std::vector<std::string>>;

class GraphDescription;
struct DescribedNode {
  std::string op, domain;                    // as in ONNX: "Conv", ""
  std::vector<std::string> inputs, outputs;  // names of values; empty: left out
  std::map<std::string, DescribedAttribute> attributes;
  std::map<std::string, std::shared_ptr<const GraphDescription>> graphs;  // then_branch, else_branch, body
  std::string name;                                                       // in error texts and profiles
  std::string source;  // what the node is in the model: "aten.relu.default at model.py:12"
};

// A graph: the model's, or one of an If, Loop or Scan, which also reads what is defined around it.
class GraphDescription {
 public:
  explicit GraphDescription(const std::string& name) { proto_.set_name(name); }

  void add_input(const std::string& name, DType dtype, const std::vector<DescribedSize>& sizes);
  // An input of a subgraph; its type and shape follow from what the node binds to it.
  void add_formal(const std::string& name);
  void add_node(const DescribedNode& node);
  void add_output(const std::string& name, DType dtype);
  const tc_onnx::GraphProto& proto() const { return proto_; }

 private:
  tc_onnx::GraphProto proto_;
};

class ModelDescription {
 public:
  explicit ModelDescription(const std::string& name) : graph_(std::make_shared<GraphDescription>(name)) {}

  GraphDescription& graph() { return *graph_; }
  // A tensor that all graphs may read. Internal error for a name that is taken.
  void add_constant(const std::string& name, TensorPtr data);
  // Sets the least and the largest value of a symbol of the inputs. Without this call it is at least 1.
  void set_range(const std::string& symbol, int64_t minimum, int64_t maximum);

  tc_onnx::ModelProto proto() const;
  const std::map<std::string, TensorPtr>& tensors() const { return tensors_; }
  const std::map<std::string, std::pair<int64_t, int64_t>>& ranges() const { return ranges_; }

 private:
  std::shared_ptr<GraphDescription> graph_;
  std::map<std::string, TensorPtr> tensors_;
  std::map<std::string, std::pair<int64_t, int64_t>> ranges_;
};

}  // namespace tc
