// Outputs of graphs and nodes. A sequence or an optional may be several values or none.
#pragma once

#include <string>
#include <vector>

#include "frontend/import/onnx/scope.h"

namespace tc {

bool holds_sequence(PortKind kind);

// The name of each value of an output: "y[0]", "y[1]", … for a sequence.
std::vector<std::string> value_names(const OutputForm& form);

// Makes what `binding` stands for outputs of the graph.
OutputForm add_output(Graph& graph, const std::string& name, const Binding& binding);
// Gives the outputs of a model's graph the names of the file.
void name_outputs(Graph& graph, const std::string& file_name, const std::vector<OutputForm>& forms);

// The outputs of one branch of an If.
struct BranchOutputs {
  const Graph& body;
  const std::vector<OutputForm>& forms;
};
// Throws DependsOnData with the condition where the branches give sequences or optionals of different forms.
void require_same_forms(const Node& node, const Graph& graph, const BranchOutputs& first,
                        const BranchOutputs& second);

// The names of all values of a node whose outputs have these forms; outputs without a form are tensors.
std::vector<std::string> value_names(const tc_onnx::NodeProto& node, const std::vector<OutputForm>& forms);
// Groups these values, which the scope defines already, into sequences and optionals.
void define_outputs(const tc_onnx::NodeProto& node, const std::vector<OutputForm>& forms, NameScope& scope,
                    NodeImporter& importer);

}  // namespace tc
