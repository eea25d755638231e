#include "frontend/import/onnx/outputs.h"

#include <set>

#include "ir/error.h"
#include "ir/names.h"
#include "ir/ops/depends_on_data.h"
#include "ir/ops/op.h"

namespace tc {

const char* name_of(PortKind kind) {
  switch (kind) {
    case PortKind::Tensor: return "tensor";
    case PortKind::Sequence: return "sequence";
    case PortKind::Optional: return "optional";
    case PortKind::OptionalSequence: return "optional sequence";
  }
  return "";
}

bool holds_sequence(PortKind kind) {
  return kind == PortKind::Sequence || kind == PortKind::OptionalSequence;
}

std::vector<std::string> value_names(const OutputForm& form) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < form.tensors; ++i)
    names.push_back(holds_sequence(form.kind) ? text(form.name, "[", i, "]") : form.name);
  return names;
}

OutputForm add_output(Graph& graph, const std::string& name, const Binding& binding) {
  OutputForm form{name};
  if (const auto* composite = std::get_if<Composite>(&binding)) {
    graph.outputs.insert(graph.outputs.end(), composite->values.begin(), composite->values.end());
    form = {name, composite->kind, composite->present, static_cast<int64_t>(composite->values.size())};
  } else {
    graph.outputs.push_back(std::get<ValueId>(binding));
  }
  return form;
}

void name_outputs(Graph& graph, const std::string& file_name, const std::vector<OutputForm>& forms) {
  std::vector<std::string> names;
  for (const OutputForm& form : forms) {
    const std::vector<std::string> each = value_names(form);
    names.insert(names.end(), each.begin(), each.end());
  }
  std::set<ValueId> taken(graph.inputs.begin(), graph.inputs.end());
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const std::string& name = names.at(i);
    const ValueId id = graph.outputs[i];
    if (graph[id].name == name && taken.insert(id).second) continue;
    const ValueId other = graph.find(name);
    if (taken.insert(id).second && other == kNoValue && !graph[id].constant) {
      graph[id].name = name;
      forget_names(graph);
      continue;
    }
    if (other != kNoValue && other != id) {
      graph[other].name =
          graph.values[static_cast<size_t>(graph.fresh_value(name + "_inner", DType::F32))].name + "_";
      forget_names(graph);
    }
    if (other == id && graph[id].name == name) continue;
    Node node;
    node.op = find_op("Identity");
    node.inputs = {id};
    node.outputs = {graph.fresh_value(name, graph[id].dtype, graph[id].shape)};
    node.origin = {file_name, name, "Identity", 0};
    graph.outputs[i] = node.outputs[0];
    graph.nodes.push_back(std::move(node));
  }
}

void require_same_forms(const Node& node, const Graph& graph, const BranchOutputs& first,
                        const BranchOutputs& second) {
  size_t first_value = 0, second_value = 0;
  for (size_t i = 0; i < first.forms.size() && i < second.forms.size() && !node.inputs.empty(); ++i) {
    const OutputForm &a = first.forms[i], &b = second.forms[i];
    if (a.kind != b.kind) {
      fail(ErrorKind::Model, node.origin.str(), " gives as output ", i, " the ", name_of(a.kind), " '",
           a.name, "' in one branch and the ", name_of(b.kind), " '", b.name, "' in the other");
    }
    bool same = a.present == b.present && a.tensors == b.tensors;
    for (int64_t k = 0; same && a.kind != PortKind::Tensor && k < a.tensors; ++k) {
      same = first.body[first.body.outputs[first_value + static_cast<size_t>(k)]].shape ==
             second.body[second.body.outputs[second_value + static_cast<size_t>(k)]].shape;
    }
    if (!same)
      throw DependsOnData(node, graph, node.inputs[0],
                          "with branches that give different numbers or shapes of tensors, condition");
    first_value += static_cast<size_t>(a.tensors);
    second_value += static_cast<size_t>(b.tensors);
  }
}

std::vector<std::string> value_names(const tc_onnx::NodeProto& node, const std::vector<OutputForm>& forms) {
  std::vector<std::string> names;
  for (int i = 0; i < node.output_size(); ++i) {
    OutputForm form = static_cast<size_t>(i) < forms.size() ? forms[static_cast<size_t>(i)] : OutputForm();
    form.name = node.output(i);
    const std::vector<std::string> each = value_names(form);
    names.insert(names.end(), each.begin(), each.end());
  }
  return names;
}

void define_outputs(const tc_onnx::NodeProto& node, const std::vector<OutputForm>& forms, NameScope& scope,
                    NodeImporter& importer) {
  for (size_t i = 0; i < forms.size() && static_cast<int>(i) < node.output_size(); ++i) {
    if (forms[i].kind == PortKind::Tensor || node.output(static_cast<int>(i)).empty()) continue;
    OutputForm form = forms[i];
    form.name = node.output(static_cast<int>(i));
    Composite composite{form.kind, form.present, {}};
    for (const std::string& name : value_names(form)) {
      composite.values.push_back(importer.resolve(name, scope, "a branch"));
      // An optional and its tensor have the same name.
      scope.names.erase(name);
    }
    importer.define(form.name, composite, scope);
  }
}

}  // namespace tc
