// Everything of a model that cannot be compiled, in one import: it goes on behind nodes that are refused.
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

// Thrown where a node cannot be looked at, for it reads what a refused node makes, or has no operator.
struct NotLookedAt {};

// What was refused so far. The types and shapes of what refused nodes make are those that the file declares;
// where it declares none, the nodes that read it are not looked at.
class Refusals {
 public:
  // `unknown` are the nodes whose operators have no row.
  Refusals(const tc_onnx::GraphProto& graph, std::vector<ImportProblem> unknown);

  void add(const ImportProblem& problem) { problems_.push_back(problem); }
  // A node of the graph, and what it was refused with.
  void add(const tc_onnx::NodeProto& node, int opset, const Error& error);
  bool hides(const std::string& name) const { return hidden_.count(name) > 0; }
  // Whether the node reads what the file declares of a refused one's result, or what is computed from that:
  // then shapes that do not fit are no fault of its own. Later nodes that read its results are asked
  // likewise.
  bool rests_on_them(const tc_onnx::NodeProto& node);
  // After a node that was refused or not looked at: tells what it reads in its problem, if it has one, and
  // defines or hides what it makes.
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
