#include "frontend/import/onnx/refusals.h"

#include <algorithm>

#include "frontend/import/onnx/known_operators.h"
#include "frontend/import/onnx/tensor_reader.h"
#include "ir/error.h"

namespace tc {

Refusals::Refusals(const tc_onnx::GraphProto& graph, std::vector<ImportProblem> unknown)
    : problems_(std::move(unknown)) {
  for (const auto& info : graph.value_info()) declared_[info.name()] = &info;
  for (const auto& info : graph.output()) declared_[info.name()] = &info;
}

void Refusals::add(const tc_onnx::NodeProto& node, int opset, const Error& error) {
  problems_.push_back({node_name(node), full_type(node), opset, error.what()});
}

bool Refusals::rests_on_them(const tc_onnx::NodeProto& node) {
  const bool is_on_declared =
      std::any_of(node.input().begin(), node.input().end(),
                  [&](const std::string& name) { return declared_only_.count(name) > 0; });
  if (is_on_declared) declared_only_.insert(node.output().begin(), node.output().end());
  return is_on_declared;
}

void Refusals::stand_in(const tc_onnx::NodeProto& node, NameScope& scope, const InputShapes& shapes,
                        const std::string& file_name) {
  tell_operands(node, scope);
  for (const std::string& name : node.output()) {
    if (name.empty() || scope.names.count(name) || scope.composites.count(name)) continue;
    try {
      const auto found = declared_.find(name);
      if (found == declared_.end() || !found->second->type().has_tensor_type() ||
          !found->second->type().tensor_type().has_shape())
        throw NotChecked();
      const tc_onnx::ValueInfoProto& info = *found->second;
      const DType dtype =
          dtype_of_onnx(info.type().tensor_type().elem_type(), text("value '", name, "' of ", file_name));
      const Shape shape = shapes.shape_of(*scope.graph, info);
      declared_only_.insert(name);
      scope.names.emplace(name, scope.graph->fresh_value(name, dtype, shape));
    } catch (const NotChecked&) {
      hidden_.insert(name);
    } catch (const Error&) {
      hidden_.insert(name);  // the declaration is wrong; nothing else reads it
    }
  }
}

void Refusals::tell_operands(const tc_onnx::NodeProto& node, const NameScope& scope) {
  constexpr int kMaxOperands = 8;
  std::string operands;
  for (int i = 0; i < std::min(node.input_size(), kMaxOperands); ++i) {
    const auto found = scope.names.find(node.input(i));
    if (found == scope.names.end()) continue;
    const Value& value = (*scope.graph)[found->second];
    operands += text(operands.empty() ? "; it reads '" : ", '", node.input(i), "' ", name_of(value.dtype),
                     value.shape ? str(*value.shape) : "");
  }
  for (ImportProblem& problem : problems_) {
    if (problem.node == node_name(node) && problem.reason.find("; it reads '") == std::string::npos)
      problem.reason += operands;
  }
}

}  // namespace tc
