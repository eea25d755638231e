// Runs a graph node by node through the interpreter: the reference result of a model.
#include "ir/evaluate.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "ir/error.h"
#include "ir/interrupt.h"
#include "ir/ops/op.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

using Symbols = std::map<std::string, int64_t>;

std::vector<int64_t> concrete(const Shape& shape, const Symbols& symbols) {
  std::vector<int64_t> result;
  for (const Dim& dim : shape) result.push_back(dim.evaluate(symbols));
  return result;
}

// Expands the composite nodes of the graph and of its subgraphs, which are copied first.
void expand_all(Graph& graph) {
  for (Node& node : graph.nodes) {
    for (auto& [name, attribute] : node.attributes) {
      if (auto* body = std::get_if<GraphPtr>(&attribute)) {
        auto copy = std::make_shared<Graph>(**body);
        expand_all(*copy);
        *body = copy;
      }
    }
  }
  expand_composites(graph);
}

// Values of one graph while it runs.
class Evaluation {
 public:
  Evaluation(const Graph& graph, Symbols symbols, const EvaluateOptions& options)
      : graph_(graph), symbols_(std::move(symbols)), options_(options), values_(graph.values.size()) {
    for (size_t i = 0; i < graph.values.size(); ++i) values_[i] = graph.values[i].constant;
  }

  void set(ValueId id, TensorPtr tensor) { values_[id] = std::move(tensor); }

  std::vector<TensorPtr> run() {
    check_relations(nullptr);
    const auto total = static_cast<int64_t>(graph_.nodes.size());
    for (const Node& node : graph_.nodes) {
      work_progress() = {"evaluating", &node - graph_.nodes.data(), total};
      interruption_point();
      std::vector<TensorPtr> inputs;
      for (ValueId id : node.inputs) inputs.push_back(id == kNoValue ? nullptr : get(id));
      std::vector<TensorPtr> outputs = evaluate_node(graph_, node, inputs, symbols_, options_);
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != kNoValue) values_[node.outputs[i]] = outputs.at(i);
      }
      bind_sizes(node);
    }
    std::vector<TensorPtr> result;
    for (ValueId id : graph_.outputs) result.push_back(get(id));
    return result;
  }

 private:
  TensorPtr get(ValueId id) const {
    TC_CHECK(values_[id], "a value of ", graph_[id].name);
    return values_[id];
  }

  // Gives the data symbols whose sources are outputs of the node their sizes.
  void bind_sizes(const Node& node) {
    for (const auto& [name, symbol] : graph_.data_symbols) {
      if (std::find(node.outputs.begin(), node.outputs.end(), symbol.source) == node.outputs.end()) continue;
      const int64_t size = get(symbol.source)->as_int(0);
      const std::optional<int64_t> bound =
          symbol.bound ? std::optional(symbol.bound->evaluate(symbols_)) : std::nullopt;
      if (size < 0 || (bound && size > *bound)) {
        fail(ErrorKind::Shape, node.origin.str(), ": size '", name, "' is ", size, "; it may be 0 ",
             bound ? text("to ", *bound) : "or more");
      }
      symbols_[name] = size;
      check_relations(&name);
    }
  }

  // Checks the relations that can be checked now that `bound` has its size; null: those without data symbols
  // of the graph.
  void check_relations(const std::string* bound) {
    for (const SizeRelation& relation : graph_.relations) {
      std::set<std::string> names;
      (relation.left - relation.right).collect_symbols(names);
      if (bound && !names.count(*bound)) continue;
      if (!std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return symbols_.count(name) > 0; }))
        continue;
      const int64_t left = relation.left.evaluate(symbols_), right = relation.right.evaluate(symbols_);
      if (relation.equal ? left == right : left <= right) continue;
      fail(ErrorKind::Shape, relation.where, ": '", relation.left.str(), "' is ", left, " and '",
           relation.right.str(), "' is ", right, "; the first must be ",
           relation.equal ? "equal to" : "at most", " the second");
    }
  }

  const Graph& graph_;
  Symbols symbols_;
  const EvaluateOptions& options_;
  std::vector<TensorPtr> values_;
};

// Runs a subgraph on its formal inputs and the values that it captures.
std::vector<TensorPtr> run_body(const Graph& body, const std::vector<TensorPtr>& formal,
                                const std::vector<TensorPtr>& captured, const Symbols& symbols,
                                const EvaluateOptions& options) {
  Evaluation evaluation(body, symbols, options);
  for (size_t i = 0; i < formal.size(); ++i) evaluation.set(body.inputs.at(i), formal[i]);
  for (size_t i = 0; i < body.captures.size(); ++i) evaluation.set(body.captures[i].second, captured.at(i));
  return evaluation.run();
}

TensorPtr slice_of(const Tensor& whole, int64_t index) {
  std::vector<int64_t> shape(whole.shape.begin() + 1, whole.shape.end());
  auto part = std::make_shared<Tensor>(whole.dtype, shape);
  if (!part->bytes.empty()) {
    std::memcpy(part->bytes.data(), whole.bytes.data() + static_cast<size_t>(index) * part->bytes.size(),
                part->bytes.size());
  }
  return part;
}

// Slices gathered over the iterations, in the order of the output.
TensorPtr joined(const std::vector<TensorPtr>& parts, bool backwards, DType dtype,
                 const std::vector<int64_t>& empty_shape) {
  std::vector<int64_t> shape = parts.empty() ? empty_shape : parts[0]->shape;
  if (parts.empty()) {
    if (!shape.empty()) shape[0] = 0;
    return std::make_shared<Tensor>(dtype, shape);
  }
  shape.insert(shape.begin(), static_cast<int64_t>(parts.size()));
  auto whole = std::make_shared<Tensor>(parts[0]->dtype, shape);
  const size_t size = parts[0]->bytes.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t at = backwards ? parts.size() - 1 - i : i;
    if (size) std::memcpy(whole->bytes.data() + at * size, parts[i]->bytes.data(), size);
  }
  return whole;
}

std::vector<int64_t> directions(const Node& node, const char* name, size_t count) {
  std::vector<int64_t> result(count, 0);
  if (!has_attribute(node, name)) return result;
  const std::vector<int64_t> given = ints_attribute(node, name);
  std::copy_n(given.begin(), std::min(given.size(), count), result.begin());
  return result;
}

std::vector<TensorPtr> run_scan(const Node& node, const std::vector<TensorPtr>& inputs,
                                const Symbols& symbols, const EvaluateOptions& options) {
  const GraphPtr body = graph_attribute(node, "body");
  const size_t scans = static_cast<size_t>(int_attribute(node, "num_scan_inputs"));
  const size_t formal = body->inputs.size(), states = formal - scans;
  const std::vector<int64_t> in_directions = directions(node, "scan_input_directions", scans);
  const size_t collected = body->outputs.size() - states;
  const std::vector<int64_t> out_directions = directions(node, "scan_output_directions", collected);
  const std::vector<TensorPtr> captured(inputs.begin() + static_cast<int64_t>(formal), inputs.end());
  std::vector<TensorPtr> state(inputs.begin(), inputs.begin() + static_cast<int64_t>(states));
  std::vector<std::vector<TensorPtr>> parts(collected);
  const int64_t trip = inputs.at(states)->shape.at(0);
  for (int64_t t = 0; t < trip; ++t) {
    std::vector<TensorPtr> given = state;
    for (size_t i = 0; i < scans; ++i)
      given.push_back(slice_of(*inputs[states + i], in_directions[i] ? trip - 1 - t : t));
    std::vector<TensorPtr> results = run_body(*body, given, captured, symbols, options);
    state.assign(results.begin(), results.begin() + static_cast<int64_t>(states));
    for (size_t i = 0; i < collected; ++i) parts[i].push_back(results[states + i]);
  }
  for (size_t i = 0; i < collected; ++i) {
    const Value& value = (*body)[body->outputs[states + i]];
    std::vector<int64_t> empty = concrete(*value.shape, symbols);
    empty.insert(empty.begin(), 0);
    state.push_back(joined(parts[i], out_directions[i] != 0, value.dtype, empty));
  }
  return state;
}

std::vector<TensorPtr> run_loop(const Node& node, const std::vector<TensorPtr>& inputs,
                                const Symbols& symbols, const EvaluateOptions& options) {
  const GraphPtr body = graph_attribute(node, "body");
  const size_t states = body->inputs.size() - 2;
  const std::vector<TensorPtr> captured(inputs.begin() + static_cast<int64_t>(2 + states), inputs.end());
  std::vector<TensorPtr> state(inputs.begin() + 2, inputs.begin() + 2 + static_cast<int64_t>(states));
  const size_t collected = body->outputs.size() - 1 - states;
  std::vector<std::vector<TensorPtr>> parts(collected);
  const int64_t trip = inputs[0] ? inputs[0]->as_int(0) : INT64_MAX;
  bool go = inputs[1] ? inputs[1]->as_int(0) != 0 : true;
  for (int64_t t = 0; go && t < trip; ++t) {
    auto index = std::make_shared<Tensor>(DType::I64, std::vector<int64_t>{});
    index->set_int(0, t);
    auto condition = std::make_shared<Tensor>(DType::Bool, std::vector<int64_t>{});
    condition->set_int(0, 1);
    std::vector<TensorPtr> given = {index, condition};
    given.insert(given.end(), state.begin(), state.end());
    std::vector<TensorPtr> results = run_body(*body, given, captured, symbols, options);
    go = results.at(0)->as_int(0) != 0;
    state.assign(results.begin() + 1, results.begin() + 1 + static_cast<int64_t>(states));
    for (size_t i = 0; i < collected; ++i) parts[i].push_back(results[1 + states + i]);
  }
  // The body's sizes count as 0 where no iteration has computed them.
  Symbols nothing = symbols;
  for (const auto& [name, symbol] : body->data_symbols) nothing[name] = 0;
  for (size_t i = 0; i < collected; ++i) {
    const Value& value = (*body)[body->outputs[1 + states + i]];
    std::vector<int64_t> empty = concrete(*value.shape, nothing);
    empty.insert(empty.begin(), 0);
    state.push_back(joined(parts[i], false, value.dtype, empty));
  }
  return state;
}

std::vector<TensorPtr> run_branch(const Node& node, const std::vector<TensorPtr>& inputs,
                                  const Symbols& symbols, const EvaluateOptions& options) {
  const GraphPtr then_body = graph_attribute(node, "then_branch"),
                 else_body = graph_attribute(node, "else_branch");
  const bool taken = inputs.at(0)->as_int(0) != 0;
  const auto first = inputs.begin() + 1 + (taken ? 0 : static_cast<int64_t>(then_body->captures.size()));
  const Graph& body = taken ? *then_body : *else_body;
  return run_body(body, {}, {first, first + static_cast<int64_t>(body.captures.size())}, symbols, options);
}

std::vector<TensorPtr> run_kernel(const Graph& graph, const Node& node, const std::vector<TensorPtr>& inputs,
                                  const Symbols& symbols, const EvaluateOptions& options) {
  // The group is lowered from a graph that holds this node alone, with the given constants left out.
  Graph single;
  single.symbols = graph.symbols;
  single.data_symbols = graph.data_symbols;
  Node copy = node;
  std::map<ValueId, ValueId> ids;
  std::vector<TensorPtr> tensors;
  auto take = [&](ValueId id, const TensorPtr& tensor) {
    if (id == kNoValue) return kNoValue;
    auto [found, fresh] = ids.try_emplace(id, static_cast<ValueId>(single.values.size()));
    if (fresh) {
      single.values.push_back(graph[id]);
      single.values.back().name = text("v", found->second);
      tensors.push_back(tensor);
    }
    return found->second;
  };
  for (size_t i = 0; i < node.inputs.size(); ++i) copy.inputs[i] = take(node.inputs[i], inputs.at(i));
  std::vector<ValueId> outputs;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    copy.outputs[i] = take(node.outputs[i], nullptr);
    if (copy.outputs[i] != kNoValue) outputs.push_back(copy.outputs[i]);
  }
  single.nodes = {copy};
  std::vector<ValueId> arguments;
  Kernel kernel = lower_group(single, {0}, outputs, &arguments);
  inline_locals(kernel);
  std::map<std::string, int64_t> parameters;
  for (const Parameter& parameter : kernel.parameters)
    parameters[parameter.name] = parameter.value.evaluate(symbols);
  std::map<std::string, Tensor> buffers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const TensorPtr& tensor = tensors.at(arguments[i]);
    if (tensor) buffers[kernel.buffers[i].name] = *tensor;
  }
  interpret(kernel, parameters, buffers, options.round_to_storage);
  std::vector<TensorPtr> result;
  for (ValueId id : copy.outputs) {
    if (id == kNoValue) {
      result.push_back(nullptr);
      continue;
    }
    const size_t at =
        static_cast<size_t>(std::find(arguments.begin(), arguments.end(), id) - arguments.begin());
    result.push_back(std::make_shared<const Tensor>(std::move(buffers.at(kernel.buffers.at(at).name))));
  }
  return result;
}

}  // namespace

std::vector<TensorPtr> evaluate_node(const Graph& graph, const Node& node,
                                     const std::vector<TensorPtr>& inputs, const Symbols& symbols,
                                     const EvaluateOptions& options) {
  switch (node.op->traits.control) {
    case OpTraits::Control::Branch: return run_branch(node, inputs, symbols, options);
    case OpTraits::Control::Scan: return run_scan(node, inputs, symbols, options);
    case OpTraits::Control::Loop: return run_loop(node, inputs, symbols, options);
    case OpTraits::Control::Size: return {std::make_shared<Tensor>(*inputs.at(0))};
    case OpTraits::Control::None: break;
  }
  TC_CHECK(node.op->kind == OpRow::Kind::Compute || node.op->kind == OpRow::Kind::View,
           "an operator that can run, not ", node.op->name);
  if (node.op->kind == OpRow::Kind::View && !options.copy_views) {
    auto view = std::make_shared<Tensor>(*inputs.at(0));
    view->shape = concrete(*graph[node.outputs.at(0)].shape, symbols);
    TC_CHECK(checked_count(view->shape) == inputs[0]->count(), "the size of ", node.origin.str());
    return {view};
  }
  if (node.op->traits.reinterprets) {
    auto same = std::make_shared<Tensor>(*inputs.at(0));
    same->dtype = graph[node.outputs.at(0)].dtype;
    return {same};
  }
  return run_kernel(graph, node, inputs, symbols, options);
}

std::map<std::string, Tensor> evaluate(const Graph& graph, const std::map<std::string, Tensor>& inputs,
                                       const EvaluateOptions& options) {
  Graph plain = graph;
  expand_all(plain);
  Symbols symbols;
  for (ValueId id : plain.inputs) {
    const Value& value = plain[id];
    auto given = inputs.find(value.name);
    if (given == inputs.end()) fail(ErrorKind::Shape, "input '", value.name, "' is missing");
    const Tensor& tensor = given->second;
    if (tensor.dtype != value.dtype) {
      fail(ErrorKind::Shape, "input '", value.name, "' has type ", name_of(tensor.dtype), "; ",
           name_of(value.dtype), " is needed");
    }
    if (tensor.shape.size() != value.shape->size()) {
      fail(ErrorKind::Shape, "input '", value.name, "' has shape ", str(shape_of(tensor.shape)), "; ",
           str(*value.shape), " is needed");
    }
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      const Dim& dim = (*value.shape)[axis];
      if (dim.is_symbol()) symbols.try_emplace(dim.terms()[0].factors[0]->name, tensor.shape[axis]);
    }
    if (concrete(*value.shape, symbols) != tensor.shape) {
      fail(ErrorKind::Shape, "input '", value.name, "' has shape ", str(shape_of(tensor.shape)), "; ",
           str(*value.shape), " is needed");
    }
  }
  Evaluation evaluation(plain, symbols, options);
  for (ValueId id : plain.inputs)
    evaluation.set(id, std::make_shared<const Tensor>(inputs.at(plain[id].name)));
  std::vector<TensorPtr> results = evaluation.run();
  std::map<std::string, Tensor> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs[plain[plain.outputs[i]].name] = *results[i];
  return outputs;
}

}  // namespace tc
