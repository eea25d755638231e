// Finds everything in a model that cannot be compiled, in one import that continues after nodes that are
// refused.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontend/import/import.h"
#include "frontend/import/onnx/input_shapes.h"
#include "frontend/import/onnx/onnx.pb.h"
#include "frontend/import/onnx/scope.h"

namespace tc {

// Thrown where a node cannot be checked, because it reads a result of a refused node or its operator is not
// known.
struct NotChecked {};

// The nodes that were refused so far. Their results get the types and shapes that the file declares; where it
// declares none, the nodes that read these results are not checked.
class Refusals {
 public:
  // `unknown` are the nodes whose operators have no row.
  Refusals(const tc_onnx::GraphProto& graph, std::vector<ImportProblem> unknown);

  void add(const ImportProblem& problem) { problems_.push_back(problem); }
  // Adds a node of the graph and the error with which it was refused.
  void add(const tc_onnx::NodeProto& node, int opset, const Error& error);
  bool hides(const std::string& name) const { return hidden_.count(name) > 0; }
  // Whether the node reads a result whose shape is known only from the file's declaration, because a refused
  // node makes it, or a value computed from one. Shapes that do not fit are then not reported as the node's
  // fault. Its own results count as such results from then on.
  bool rests_on_them(const tc_onnx::NodeProto& node);
  // Called after a node that was refused or not checked: adds what the node reads to its problem, if it has
  // one, and defines its results as declared, or hides them.
  void stand_in(const tc_onnx::NodeProto& node, NameScope& scope, const InputShapes& shapes,
                const std::string& file_name);
  bool none() const { return problems_.empty(); }
  std::vector<ImportProblem> take() { return std::move(problems_); }

 private:
  void tell_operands(const tc_onnx::NodeProto& node, const NameScope& scope);

  std::map<std::string, const tc_onnx::ValueInfoProto*> declared_;
  std::vector<ImportProblem> problems_;
  std::set<std::string> hidden_, declared_only_;
};

}  // namespace tc
