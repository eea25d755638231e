// Outputs of graphs and nodes, of which sequences and optionals are several values or none.
#pragma once

#include <string>
#include <vector>

#include "frontend/import/onnx/scope.h"

namespace tc {

bool holds_sequence(PortKind kind);

// The name of each value of an output: "y[0]", "y[1]", … of a sequence.
std::vector<std::string> value_names(const OutputForm& form);

// Makes what `binding` stands for outputs of the graph.
OutputForm add_output(Graph& graph, const std::string& name, const Binding& binding);
// Gives the outputs of a model's graph the names of the file.
void name_outputs(Graph& graph, const std::string& file_name, const std::vector<OutputForm>& forms);

// What an If has in one of its branches.
struct BranchOutputs {
  const Graph& body;
  const std::vector<OutputForm>& forms;
};
// Throws DependsOnData with the condition where the branches give sequences or optionals of different forms.
void require_same_forms(const Node& node, const Graph& graph, const BranchOutputs& first,
                        const BranchOutputs& second);

// The names of all values of a node whose outputs have these forms; those beyond are tensors.
std::vector<std::string> value_names(const tc_onnx::NodeProto& node, const std::vector<OutputForm>& forms);
// Makes sequences and optionals of these values, which are defined in the scope.
void define_outputs(const tc_onnx::NodeProto& node, const std::vector<OutputForm>& forms, NameScope& scope,
                    NodeImporter& importer);

}  // namespace tc
