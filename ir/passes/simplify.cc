// Small clean-up passes: composites, identities, and sizes and constants that follow from others.
#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/ops/rows.h"
#include "ir/passes/edit.h"
#include "ir/passes/pass.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

constexpr int kDeepestExpansion = 16;

void infer(Graph& graph, const Node& node) {
  InferContext context(graph, node);
  infer_by_row(context);
}

void expand_into(Graph& graph, Node node, std::vector<Node>& nodes, int depth) {
  TC_CHECK(depth < kDeepestExpansion, "in the expansion of ", node.op->name);
  std::vector<Node> parts;
  if (node.op->expand) parts = node.op->expand(graph, node);
  if (parts.empty()) {
    infer(graph, node);
    nodes.push_back(std::move(node));
    return;
  }
  for (Node& part : parts) {
    if (part.origin.op_type.empty()) part.origin = node.origin;
    expand_into(graph, std::move(part), nodes, depth + 1);
  }
}

// The input that the node's only output equals, or kNoValue.
ValueId same_as(const Graph& graph, const Node& node) {
  if (node.outputs.size() != 1 || node.inputs.empty() || node.inputs[0] == kNoValue) return kNoValue;
  if (node.op->kind == OpRow::Kind::View) return forwards_same_shape(graph, node);
  return node.op->forwards ? node.op->forwards(graph, node) : kNoValue;
}

}  // namespace

void expand_composites(Graph& graph) {
  std::vector<Node> nodes;
  for (Node& node : std::vector<Node>(std::move(graph.nodes))) expand_into(graph, std::move(node), nodes, 0);
  graph.nodes = std::move(nodes);
}

void eliminate(Graph& graph) {
  std::vector<bool> removed(graph.nodes.size(), false);
  Replacements readers;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    readers.apply(graph.nodes[i]);
    const ValueId source = same_as(graph, graph.nodes[i]);
    if (source != kNoValue) removed[i] = bypass(graph, graph.nodes[i].outputs[0], source, readers);
  }
  remove_nodes(graph, removed);
}

void fold_shapes(Graph& graph) {
  std::vector<bool> removed(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    bool all = !node.outputs.empty() && node.op->kind != OpRow::Kind::Control;
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      const Value& value = graph[id];
      all = all && value.elements && !is_output(graph, id) && is_constant(*value.elements) &&
            is_constant(*value.shape);
    }
    if (!all) continue;
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      Value& value = graph[id];
      auto tensor = std::make_shared<Tensor>(value.dtype, constant_shape(*value.shape));
      for (size_t e = 0; e < value.elements->size(); ++e)
        tensor->set_int(static_cast<int64_t>(e), (*value.elements)[e].constant());
      value.constant = tensor;
    }
    removed[i] = true;
  }
  remove_nodes(graph, removed);
}

void bind_sizes(Graph& graph) {
  if (graph.data_symbols.empty()) return;
  std::map<ValueId, std::string> first;  // the first size computed from each operand
  std::vector<bool> removed(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node node = graph.nodes[i];
    if (node.op->traits.control != OpTraits::Control::Size) continue;
    const std::string name = string_attribute(node, "symbol");
    const ValueId operand = node.inputs[0], size = node.outputs[0];
    Dim known;
    if (const auto elements = known_elements(graph[operand]); elements && elements->size() == 1) {
      known = (*elements)[0];
    } else {
      const auto [found, fresh] = first.try_emplace(operand, name);
      if (fresh) continue;
      known = Dim::symbol(found->second);
    }
    const std::optional<Dim> bound = graph.data_symbols.at(name).bound;
    const bool above =
        bound && bound->is_constant() && known.is_constant() && known.constant() > bound->constant();
    if (above || (known.is_constant() && known.constant() < 0)) {
      fail(ErrorKind::Shape, node.origin.str(), ": size '", name, "' is ", known.str(), "; it may be 0 ",
           bound ? text("to ", bound->str()) : "or more");
    }
    graph.data_symbols.erase(name);
    substitute_symbols(graph, {{name, known}});
    if (known.is_constant()) {
      auto data = std::make_shared<Tensor>(DType::I64, std::vector<int64_t>{});
      data->set_int(0, known.constant());
      graph[size].constant = data;
      removed[i] = true;
      continue;
    }
    // The node stays as a view, so that readers of the size's value find it where it was.
    graph.nodes[i].op = find_op("Reshape");
    graph.nodes[i].attributes = {{"shape", std::vector<Dim>{}}};
  }
  remove_nodes(graph, removed);
}

void sink_constants(Graph& graph) {
  for (Node& node : graph.nodes) {
    std::vector<Graph*> bodies;
    size_t captures = 0;
    // In the order in which their captures are inputs: then before else.
    for (const char* name : {"then_branch", "else_branch", "body"}) {
      auto found = node.attributes.find(name);
      if (found == node.attributes.end() || !std::holds_alternative<GraphPtr>(found->second)) continue;
      auto body = std::make_shared<Graph>(*std::get<GraphPtr>(found->second));
      found->second = body;
      bodies.push_back(body.get());
      captures += body->captures.size();
    }
    if (captures == 0) continue;
    std::vector<ValueId> inputs(node.inputs.begin(), node.inputs.end() - static_cast<int64_t>(captures));
    size_t at = inputs.size();
    for (Graph* body : bodies) {
      std::vector<std::pair<std::string, ValueId>> kept;
      for (auto& capture : body->captures) {
        const ValueId outer = node.inputs[at++];
        if (graph[outer].constant) {
          (*body)[capture.second].constant = graph[outer].constant;
        } else {
          inputs.push_back(outer);
          kept.push_back(capture);
        }
      }
      body->captures = std::move(kept);
    }
    node.inputs = std::move(inputs);
  }
}

}  // namespace tc
