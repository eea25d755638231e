// Errors for operands whose content decides a structure (a shape, axes, a number of outputs or of iterations)
// but is known only at run time.
#pragma once

#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/graph.h"

namespace tc {

// Most code that catches it treats it as an Unsupported error. Code that has the values of the model's
// `inputs` can bind them to constants (ImportOptions::constants) and import again.
class DependsOnData : public Error {
 public:
  // `operand` is a value of the graph that holds `node`; `what` describes what its content decides.
  DependsOnData(const Node& node, const Graph& graph, ValueId operand, const std::string& what);
  // The same error, with the names of the model's inputs from which the operand is computed.
  DependsOnData(const DependsOnData& error, std::vector<std::string> inputs);

  // The same error, marked as one of an operand that decides only sizes, which a run may compute
  // (Graph::data_symbols).
  DependsOnData sizes() const;

  ValueId operand() const { return operand_; }
  bool decides_sizes() const { return decides_sizes_; }
  // Names of inputs of the model. Empty before the importer has looked for them, and where the operand does
  // not depend on inputs alone: a value that an iteration computes differs in each iteration.
  const std::vector<std::string>& inputs() const { return inputs_; }

 private:
  ValueId operand_;
  bool decides_sizes_ = false;
  std::vector<std::string> inputs_;
};

// Sizes of a node's operands must be equal, but nothing proves that they are. Most code that catches it
// treats it as a Shape error. The code that adds the node can give the operands the same size by views; a run
// then checks that the sizes are equal.
class UnprovedSizes : public Error {
 public:
  UnprovedSizes(const std::string& message, Dim left, Dim right)
      : Error(ErrorKind::Shape, message), left_(left), right_(right) {}
  const Dim& left() const { return left_; }
  const Dim& right() const { return right_; }

 private:
  Dim left_, right_;
};

}  // namespace tc
