// Which inputs of a model decide a value that a node needs while it is imported.
#include "frontend/import/onnx/deciding_inputs.h"

#include <algorithm>
#include <set>

#include "frontend/import/origins.h"
#include "ir/ops/rows.h"

namespace tc {
namespace {

// The largest number of elements of an input whose content may decide a structure; larger inputs are data.
constexpr int64_t kMaxDecidingNumbers = 1024;

// Adds the model's inputs from which the value is computed; false where it also depends on what a loop passes
// to an iteration.
bool find_model_inputs(const Graph& model, ValueId id, const NameScope& scope, std::set<ValueId>& inputs) {
  const std::set<ValueId> given = given_values_of(*scope.graph, id);
  if (scope.graph == &model) {
    inputs.insert(given.begin(), given.end());
    return true;
  }
  const NameScope* owner = &scope;  // of the subgraph: inlined branches have scopes inside of it
  while (owner && !owner->captured) owner = owner->parent;
  if (!owner) return false;
  const auto& captures = scope.graph->captures;
  return std::all_of(given.begin(), given.end(), [&](ValueId each) {
    for (size_t i = 0; i < captures.size(); ++i) {
      if (captures[i].second == each)
        return find_model_inputs(model, (*owner->captured)[i], *owner->parent, inputs);
    }
    return false;
  });
}

}  // namespace

std::vector<std::string> deciding_inputs(const Graph& model, const DependsOnData& error,
                                         const NameScope& scope, bool numbers_only) {
  std::set<ValueId> inputs;
  if (!find_model_inputs(model, error.operand(), scope, inputs)) return {};
  std::vector<std::string> names;
  for (ValueId id : model.inputs) {
    if (!inputs.count(id)) continue;
    const Value& value = model[id];
    if (is_constant(*value.shape) && element_count(*value.shape).constant() > kMaxDecidingNumbers) return {};
    const bool data = value.shape->size() > 1 ||
                      (is_float(value.dtype) && !is_float((*scope.graph)[error.operand()].dtype));
    if (numbers_only && data) return {};
    names.push_back(value.name);
  }
  return names;
}

}  // namespace tc
