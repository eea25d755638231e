// What is thrown where the content of an operand decides a structure (a shape, axes, a number of outputs or
// of iterations) and a run computes it.
#pragma once

#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/graph.h"

namespace tc {

// An Unsupported error for most who catch it. Whoever has the values of the model's `inputs` can bind them to
// constants (ImportOptions::constants) and import again.
class DependsOnData : public Error {
 public:
  // `operand` is a value of the graph that holds `node`; `what` says what its content decides.
  DependsOnData(const Node& node, const Graph& graph, ValueId operand, const std::string& what);
  // The same error with the model's inputs from which the operand is computed.
  DependsOnData(const DependsOnData& error, std::vector<std::string> inputs);

  // The same error of an operand that decides sizes alone, so that a run may compute them
  // (Graph::data_symbols).
  DependsOnData sizes() const;

  ValueId operand() const { return operand_; }
  bool decides_sizes() const { return decides_sizes_; }
  // Inputs of the model by name; empty before the importer has looked for them, and where it found others
  // too: what an iteration computes has another value in each.
  const std::vector<std::string>& inputs() const { return inputs_; }

 private:
  ValueId operand_;
  bool decides_sizes_ = false;
  std::vector<std::string> inputs_;
};

// Sizes of a node's operands that have to be equal, where nothing tells whether they are. A Shape error for
// most who catch it. Whoever adds the node can give the operands one size by views, whose relation a run
// checks.
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
