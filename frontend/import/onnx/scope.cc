#include "frontend/import/onnx/scope.h"

#include "ir/error.h"

namespace tc {
namespace {

// Captures a value of the parent's graph: returns the value of the scope's graph that stands for it.
ValueId captured(ValueId outer, NameScope& scope) {
  const Value value = (*scope.parent->graph)[outer];
  if (value.constant) return scope.graph->add_constant(value.name, value.constant);
  const ValueId id = scope.graph->fresh_value(value.name, value.dtype, value.shape);
  (*scope.graph)[id].elements = value.elements;
  scope.graph->captures.emplace_back(value.name, id);
  scope.captured->push_back(outer);
  return id;
}

}  // namespace

void spend(NameScope& scope, const std::string& name, int64_t amount) {
  NameScope* root = &scope;
  while (root->parent) root = root->parent;
  if (root->spent && (*root->spent += amount) > kMaxSpent) {
    fail(ErrorKind::Unsupported, "'", name, "' and the sequences before it hold ", kMaxSpent,
         " tensors or make ", kMaxSpent / kSpentByValue, " values in all; more are not supported");
  }
}

ValueId find_value(const std::string& name, NameScope& scope) {
  const auto found = scope.names.find(name);
  if (found != scope.names.end()) return found->second;
  if (!scope.parent || scope.composites.count(name)) return kNoValue;
  const ValueId outer = find_value(name, *scope.parent);
  if (outer == kNoValue || scope.parent->graph == scope.graph) return outer;
  return scope.names[name] = captured(outer, scope);
}

const Composite* find_composite(const std::string& name, NameScope& scope) {
  const auto found = scope.composites.find(name);
  if (found != scope.composites.end()) return &found->second;
  if (!scope.parent || scope.names.count(name)) return nullptr;
  const Composite* outer = find_composite(name, *scope.parent);
  if (!outer || scope.parent->graph == scope.graph) return outer;
  spend(scope, name, kSpentByValue * static_cast<int64_t>(outer->values.size()));
  Composite& here = scope.composites[name] = *outer;
  for (ValueId& value : here.values) value = captured(value, scope);
  return &here;
}

Binding binding_of(NodeImporter& importer, const std::string& name, NameScope& scope,
                   const std::string& who) {
  if (const Composite* composite = find_composite(name, scope)) return *composite;
  return importer.resolve(name, scope, who);
}

std::vector<ValueId> import_made(NodeImporter& importer, const MadeNode& made,
                                 const tc_onnx::NodeProto& model, NameScope& scope, int depth) {
  static const Opsets opsets = {{"", 18}};
  NameScope inner{scope.graph, &scope, {}, nullptr, &opsets, {}};
  tc_onnx::NodeProto node;
  node.set_op_type(made.op_type);
  node.set_name(model.name().empty() && model.output_size() > 0 ? model.output(0) : model.name());
  node.set_source(model.op_type());
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    const std::string name = text("input ", i);
    inner.names[name] = made.inputs[i];
    node.add_input(name);
  }
  for (const auto& [name, value] : made.attributes) {
    tc_onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(tc_onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  for (const auto& [name, values] : made.lists) {
    tc_onnx::AttributeProto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(tc_onnx::AttributeProto::INTS);
    for (int64_t value : values) attribute.add_ints(value);
  }
  for (const std::string& name : made.outputs) node.add_output(name);
  spend(scope, node.name(), kSpentByValue * static_cast<int64_t>(made.outputs.size()));
  importer.import_node(node, inner, depth);
  std::vector<ValueId> results;
  for (const std::string& name : made.outputs) results.push_back(inner.names.at(name));
  return results;
}

ValueId constant_integers(Graph& graph, const std::string& name, const std::vector<int64_t>& values) {
  auto tensor =
      std::make_shared<Tensor>(DType::I64, std::vector<int64_t>{static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) tensor->set_int(static_cast<int64_t>(i), values[i]);
  return graph.add_constant(name, tensor);
}

}  // namespace tc
