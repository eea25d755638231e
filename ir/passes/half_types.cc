// Models of float16 and bfloat16 are computed in float32; these passes decide where values are rounded.
#include <algorithm>
#include <map>
#include <set>

#include "ir/error.h"
#include "ir/held_constants.h"
#include "ir/names.h"
#include "ir/ops/op.h"
#include "ir/passes/edit.h"
#include "ir/passes/pass.h"
#include "ir/passes/passes.h"

namespace tc {
namespace {

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

TensorPtr widened(const Tensor& tensor) {
  auto wide = std::make_shared<Tensor>(DType::F32, tensor.shape);
  for (int64_t i = 0; i < wide->count(); ++i) wide->set(i, tensor.as_double(i));
  return wide;
}

Node cast_node(Graph& graph, ValueId from, ValueId to, const std::string& where) {
  Node node;
  node.op = find_op("Cast");
  node.inputs = {from};
  node.outputs = {to};
  node.attributes["to"] = std::string(name_of(graph[to].dtype));
  node.origin = {graph.nodes.empty() ? graph.name : graph.nodes[0].origin.file, where, "Cast", 0};
  return node;
}

bool is_cast(const Node& node) {
  static const OpRow *const cast = find_op("Cast"), *const like = find_op("CastLike");
  return node.op == cast || node.op == like;
}

// Whether the node decodes weights: it reads their scales in the type that the format prescribes.
bool decodes_weights(const Node& node) {
  static const std::set<const OpRow*> rows = {find_op("BlockMatMul"), find_op("BlockGather"),
                                              find_op("BlockDot"), find_op("ExpertMatMul"),
                                              find_op("ExpertDot")};
  return rows.count(node.op) > 0;
}

// Whether the node is a cast that rounds to a half type, because the values that it casts need not have that
// type's precision already.
bool is_rounding(const Graph& graph, const Node& node) {
  if (!is_cast(node) || !is_half(graph[node.outputs[0]].dtype)) return false;
  const DType from = graph[node.inputs[0]].dtype;
  return is_float(from) || bits_of(from) > 8;
}

// Updates attributes of a node that name the type of its result, which is now f32, or that hold the result's
// value.
void promote_attributes(Node& node, DType was) {
  for (auto& [name, attribute] : node.attributes) {
    if (auto* type = std::get_if<std::string>(&attribute); type && *type == name_of(was))
      *type = name_of(DType::F32);
    auto* tensor = std::get_if<TensorPtr>(&attribute);
    if (tensor && *tensor && is_half((*tensor)->dtype)) *tensor = widened(**tensor);
  }
}

// Moves a graph's half types to its borders.
class Promotion {
 public:
  explicit Promotion(Graph& graph) : graph_(graph) {}

  void run() {
    std::vector<Node> first;
    Replacements widened;
    for (ValueId id : graph_.inputs) {
      if (!is_half(graph_[id].dtype) || !stays_.insert(id).second) continue;
      const ValueId wide = widened_value(id);
      widened.replace(id, wide);
      narrow_[wide] = id;
      first.push_back(cast_node(graph_, id, wide, graph_[id].name));
    }
    widened.apply(graph_);
    for (const Node& node : graph_.nodes) {
      for (const ValueId id : node.inputs) {
        if (decodes_weights(node) && id != kNoValue && graph_[id].constant) stays_.insert(id);
      }
    }
    for (Node& node : graph_.nodes) widen_bodies(node);
    std::map<size_t, Node> behind = keep_roundings();
    promote_values();
    std::map<size_t, Node> before = keep_bits();
    std::vector<Node> last = narrow_outputs();
    std::vector<Node> nodes = std::move(first);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (auto found = before.find(i); found != before.end()) nodes.push_back(std::move(found->second));
      nodes.push_back(std::move(graph_.nodes[i]));
      if (auto found = behind.find(i); found != behind.end()) nodes.push_back(std::move(found->second));
    }
    nodes.insert(nodes.end(), std::make_move_iterator(last.begin()), std::make_move_iterator(last.end()));
    graph_.nodes = std::move(nodes);
  }

 private:
  ValueId widened_value(ValueId id) {
    return graph_.fresh_value(graph_[id].name + "_f32", DType::F32, graph_[id].shape);
  }

  // Half types in subgraphs have already been moved to the subgraphs' inputs and outputs; these become f32 as
  // the values of this graph did.
  void widen_bodies(Node& node) {
    for (const GraphPtr& body : subgraphs_of(node)) {
      for (ValueId id : body->inputs) {
        if (is_half((*body)[id].dtype)) (*body)[id].dtype = DType::F32;
      }
      for (ValueId& output : body->outputs) {
        if (!is_half((*body)[output].dtype)) continue;
        const ValueId wide =
            body->fresh_value((*body)[output].name + "_f32", DType::F32, (*body)[output].shape);
        body->nodes.push_back(cast_node(*body, output, wide, (*body)[output].name));
        output = wide;
      }
    }
  }

  // Results of explicit casts, and results that reinterpret bits as a half type, keep their type; other nodes
  // read them through casts to float32. Returns these casts by the index of the node after which each goes.
  std::map<size_t, Node> keep_roundings() {
    std::map<size_t, Node> behind;
    const auto consumers = graph_.consumers();
    Replacements widened;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      widened.apply(node);
      const ValueId id = node.outputs[0];
      if (is_rounding(graph_, node)) {
        // The type of CastLike's second operand is about to change, so the cast names the type itself.
        node.op = find_op("Cast");
        node.inputs.resize(1);
        node.attributes["to"] = std::string(name_of(graph_[id].dtype));
      } else if (!node.op->traits.reinterprets || !is_half(graph_[id].dtype)) {
        continue;
      }
      stays_.insert(id);
      const ValueId wide = widened_value(id);
      narrow_[wide] = id;
      widened.replace(id, wide);
      if (consumers[static_cast<size_t>(id)].empty()) continue;
      Node back = cast_node(graph_, id, wide, graph_[id].name);
      back.origin = node.origin;
      behind[i] = std::move(back);
    }
    return behind;
  }

  void promote_values() {
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      Value& value = graph_.values[i];
      const auto id = static_cast<ValueId>(i);
      if (!is_half(value.dtype) || stays_.count(id)) continue;
      was_[id] = value.dtype;
      value.dtype = DType::F32;
      if (value.constant) value.constant = held(widened(*value.constant), value.name);
    }
    for (Node& node : graph_.nodes) {
      for (ValueId output : node.outputs) {
        if (auto found = was_.find(output); found != was_.end()) promote_attributes(node, found->second);
      }
    }
  }

  // Nodes that reinterpret the bits of a half type read values of that type, through casts where necessary.
  // Returns these casts by the index of the node before which each goes.
  std::map<size_t, Node> keep_bits() {
    std::map<size_t, Node> before;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (!node.op->traits.reinterprets) continue;
      ValueId& operand = node.inputs[0];
      if (const auto narrow = narrow_.find(operand); narrow != narrow_.end()) {
        operand = narrow->second;
      } else if (const auto was = was_.find(operand); was != was_.end()) {
        const std::string where = graph_[node.outputs[0]].name;
        const ValueId rounded = graph_.fresh_value(where, was->second, graph_[operand].shape);
        before[i] = cast_node(graph_, operand, rounded, where);
        operand = rounded;
      }
    }
    return before;
  }

  // Casts of the graph's outputs to their original types.
  std::vector<Node> narrow_outputs() {
    std::vector<Node> casts;
    for (ValueId& output : graph_.outputs) {
      auto found = was_.find(output);
      if (found == was_.end()) continue;
      const std::string name = graph_[output].name;
      graph_[output].name = graph_.values[graph_.fresh_value(name + "_f32", DType::F32)].name + "_wide";
      forget_names(graph_);
      const ValueId narrow = graph_.fresh_value(name, found->second, graph_[output].shape);
      casts.push_back(cast_node(graph_, output, narrow, name));
      output = narrow;
    }
    return casts;
  }

  Graph& graph_;
  std::set<ValueId> stays_;  // inputs, results of explicit casts, stored weights
  std::map<ValueId, DType> was_;
  std::map<ValueId, ValueId> narrow_;  // half-type values, by the float32 values that others read instead
};

// Whether each element of the node's results is an element of an operand, or is rounded by the node itself.
bool is_deterministic(const Node& node) {
  return node.op->kind == OpRow::Kind::View || node.op->kind == OpRow::Kind::Control ||
         node.op->traits.movement != OpTraits::Movement::None || node.op->traits.fill || is_cast(node);
}

// Whether only nodes that describe the same operator read the value. A front end may describe one operator by
// several nodes, which share that operator's origin, whose opset is 0.
bool stays_inside(const Graph& graph, const Node& producer, const std::vector<int>& readers, ValueId id) {
  if (producer.origin.opset != 0 || producer.origin.node.empty() || readers.empty() || is_output(graph, id))
    return false;
  return std::all_of(readers.begin(), readers.end(), [&](int reader) {
    const Origin& other = graph.nodes[static_cast<size_t>(reader)].origin;
    return other.node == producer.origin.node && other.op_type == producer.origin.op_type && other.opset == 0;
  });
}

}  // namespace

void promote_half(Graph& graph) {
  const bool any = std::any_of(graph.values.begin(), graph.values.end(),
                               [](const Value& value) { return is_half(value.dtype); });
  if (any) Promotion(graph).run();
}

void round_each(Graph& graph) {
  const auto consumers = graph.consumers();
  std::vector<Node> nodes;
  std::vector<std::vector<Node>> casts(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (is_deterministic(node)) continue;
    for (ValueId& output : node.outputs) {
      if (output == kNoValue || !is_half(graph[output].dtype) ||
          stays_inside(graph, node, consumers[static_cast<size_t>(output)], output))
        continue;
      const ValueId exact =
          graph.fresh_value(graph[output].name + "_exact", graph[output].dtype, graph[output].shape);
      Node cast = cast_node(graph, exact, output, "");
      cast.origin = node.origin;
      casts[i].push_back(std::move(cast));
      output = exact;
    }
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    nodes.push_back(std::move(graph.nodes[i]));
    nodes.insert(nodes.end(), std::make_move_iterator(casts[i].begin()),
                 std::make_move_iterator(casts[i].end()));
  }
  graph.nodes = std::move(nodes);
}

}  // namespace tc
