// Small clean-up passes: composites, identities, dead code, half precision.
#include <algorithm>
#include <set>

#include "ir/error.h"
#include "ir/ops/op.h"
#include "ir/passes/pass.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

constexpr int kDeepestExpansion = 16;

void infer(Graph& graph, const Node& node) {
  InferContext context(graph, node);
  if (node.op->infer) node.op->infer(context);
}

void expand_into(Graph& graph, Node node, std::vector<Node>& nodes, int depth) {
  TC_CHECK(depth < kDeepestExpansion, "in the expansion of ", node.op->name);
  if (node.op->kind != OpRow::Kind::Expand) {
    infer(graph, node);
    nodes.push_back(std::move(node));
    return;
  }
  for (Node& part : node.op->expand(graph, node)) {
    if (part.origin.op_type.empty()) part.origin = node.origin;
    expand_into(graph, std::move(part), nodes, depth + 1);
  }
}

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

Node cast_node(Graph& graph, ValueId from, ValueId to, const std::string& where) {
  Node node;
  node.op = find_op("Cast");
  node.inputs = {from};
  node.outputs = {to};
  node.attributes["to"] = std::string(name_of(graph[to].dtype));
  node.origin = {graph.name, where, "Cast", 0};
  return node;
}

// The permutation of a Transpose, with the default (reversed axes) spelled out.
std::vector<int64_t> permutation(const Graph& graph, const Node& node) {
  const size_t rank = graph[node.inputs[0]].shape->size();
  auto found = node.attributes.find("perm");
  if (found != node.attributes.end()) {
    const auto* given = std::get_if<std::vector<int64_t>>(&found->second);
    if (given && !given->empty()) return *given;
  }
  std::vector<int64_t> reversed;
  for (size_t i = rank; i-- > 0;) reversed.push_back(static_cast<int64_t>(i));
  return reversed;
}

// What the node's result equals, where it is just another value; kNoValue otherwise.
ValueId same_as(const Graph& graph, const Node& node, const std::vector<int>& producers) {
  const std::string& op = node.op->name;
  if (node.outputs.size() != 1 || node.inputs.empty() || node.inputs[0] == kNoValue) return kNoValue;
  const Value &in = graph[node.inputs[0]], &out = graph[node.outputs[0]];
  const bool same_type = in.dtype == out.dtype && in.shape && out.shape && *in.shape == *out.shape;
  if (op == "Identity" || op == "Dropout") return node.inputs[0];
  if ((op == "Cast" || op == "Reshape" || op == "Flatten" || op == "Expand" || op == "Squeeze" || op == "Unsqueeze") && same_type) {
    return node.inputs[0];
  }
  if (op == "Concat" && node.inputs.size() == 1) return node.inputs[0];
  if (op == "Transpose" && producers[node.inputs[0]] >= 0) {
    const Node& first = graph.nodes[producers[node.inputs[0]]];
    if (first.op->name != "Transpose") return kNoValue;
    const auto outer = permutation(graph, node), inner = permutation(graph, first);
    for (size_t i = 0; i < outer.size(); ++i) {
      if (inner[outer[i]] != static_cast<int64_t>(i)) return kNoValue;
    }
    return first.inputs[0];
  }
  return kNoValue;
}

}  // namespace

void expand_composites(Graph& graph) {
  std::vector<Node> nodes;
  for (Node& node : std::vector<Node>(std::move(graph.nodes))) expand_into(graph, std::move(node), nodes, 0);
  graph.nodes = std::move(nodes);
}

void eliminate(Graph& graph) {
  const std::set<ValueId> outputs(graph.outputs.begin(), graph.outputs.end());
  const std::vector<int> producers = graph.producers();
  std::map<ValueId, ValueId> same;
  auto root = [&](ValueId id) {
    for (auto found = same.find(id); found != same.end(); found = same.find(id)) id = found->second;
    return id;
  };
  for (Node& node : graph.nodes) {
    for (ValueId& input : node.inputs) input = input == kNoValue ? input : root(input);
    const ValueId source = same_as(graph, node, producers);
    if (source != kNoValue && !outputs.count(node.outputs[0])) same[node.outputs[0]] = source;
  }
  std::erase_if(graph.nodes, [&](const Node& node) {
    return node.outputs.size() == 1 && node.outputs[0] != kNoValue && same.count(node.outputs[0]);
  });
}

void dead_code(Graph& graph) {
  std::set<ValueId> live(graph.outputs.begin(), graph.outputs.end());
  std::vector<Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool wanted = std::any_of(node->outputs.begin(), node->outputs.end(),
                                    [&](ValueId id) { return id != kNoValue && live.count(id); });
    if (!wanted) continue;
    live.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
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

void promote_half(Graph& graph) {
  const bool any = std::any_of(graph.values.begin(), graph.values.end(), [](const Value& value) { return is_half(value.dtype); });
  if (!any) return;
  std::vector<Node> before, after;
  std::set<ValueId> ports;
  std::vector<ValueId> half_outputs;
  for (ValueId id : graph.inputs) {
    if (is_half(graph[id].dtype)) ports.insert(id);
  }
  for (ValueId id : ports) {
    const ValueId wide = graph.fresh_value(graph[id].name + "_f32", DType::F32, graph[id].shape);
    replace_uses(graph, id, wide);
    before.push_back(cast_node(graph, id, wide, graph[id].name));
  }
  std::map<ValueId, DType> was;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    Value& value = graph.values[i];
    if (!is_half(value.dtype) || ports.count(static_cast<ValueId>(i))) continue;
    was[static_cast<ValueId>(i)] = value.dtype;
    value.dtype = DType::F32;
    if (value.constant) {
      auto wide = std::make_shared<Tensor>(DType::F32, value.constant->shape);
      for (int64_t k = 0; k < wide->count(); ++k) wide->set(k, value.constant->as_double(k));
      value.constant = wide;
    }
  }
  for (Node& node : graph.nodes) {
    if (node.op->name != "Cast" || node.outputs.empty() || !was.count(node.outputs[0])) continue;
    node.attributes["to"] = std::string("f32");
  }
  for (ValueId& output : graph.outputs) {
    auto found = was.find(output);
    if (found == was.end()) continue;
    const std::string name = graph[output].name;
    graph[output].name = graph.values[graph.fresh_value(name + "_f32", DType::F32)].name + "_wide";
    const ValueId narrow = graph.fresh_value(name, found->second, graph[output].shape);
    after.push_back(cast_node(graph, output, narrow, name));
    output = narrow;
  }
  before.insert(before.end(), std::make_move_iterator(graph.nodes.begin()), std::make_move_iterator(graph.nodes.end()));
  before.insert(before.end(), std::make_move_iterator(after.begin()), std::make_move_iterator(after.end()));
  graph.nodes = std::move(before);
}

}  // namespace tc
