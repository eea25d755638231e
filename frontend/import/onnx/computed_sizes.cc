// Sizes of a node's results that a run computes.
#include "frontend/import/onnx/computed_sizes.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/ops/selection.h"

namespace tc {
namespace {

constexpr int64_t kMaxSizes = 64;  // elements of one operand
constexpr int kDeepest = 200;  // longest chain of shape arithmetic that is followed; what precedes it is data

bool is_small(const Value& value) {
  if (is_float(value.dtype) || !value.shape || value.shape->size() > 1 || !is_constant(*value.shape))
    return false;
  return element_count(*value.shape).constant() <= kMaxSizes;
}

class SizeReader {
 public:
  SizeReader(Graph& graph, const Node& reader, SizesOfValues& sizes)
      : graph_(graph), reader_(reader), sizes_(sizes) {}

  // A value with the same content whose elements are known.
  ValueId known(ValueId id, int depth = 0) {
    if (known_elements(graph_[id])) return id;
    if (const auto found = sizes_.find(id); found != sizes_.end()) return found->second;
    const int maker = graph_.producers()[id];
    if (depth < kDeepest && maker >= 0 && tells_elements(graph_.nodes[maker], id)) {
      for (size_t i = 0; i < graph_.nodes[producer(id)].inputs.size(); ++i) {
        const ValueId input = graph_.nodes[producer(id)].inputs[i];
        if (input == kNoValue || !is_small(graph_[input])) continue;
        const ValueId same = known(input, depth + 1);
        graph_.nodes[producer(id)].inputs[i] = same;
      }
      infer_node(graph_, graph_.nodes[producer(id)]);
      if (known_elements(graph_[id])) return id;
    }
    return anew(id);
  }

  // The same, but always with new symbols: shape arithmetic, which assumes that sizes are not negative, is
  // not applied.
  ValueId anew(ValueId id) {
    const ValueId same = with_symbols(id);
    return sizes_[id] = same;
  }

 private:
  size_t producer(ValueId id) const { return static_cast<size_t>(graph_.producers()[id]); }

  // Whether the elements of a node's result follow from those of its operands: tries the inference with
  // symbols for these and undoes it.
  bool tells_elements(const Node& node, ValueId result) {
    if (node.op->kind == OpRow::Kind::Control) return false;
    std::map<ValueId, Value> values;
    for (const std::vector<ValueId>& ids : {node.inputs, node.outputs}) {
      for (ValueId id : ids) {
        if (id != kNoValue) values.emplace(id, graph_[id]);
      }
    }
    const std::vector<SizeRelation> relations = graph_.relations;
    const auto data_symbols = graph_.data_symbols;
    const auto symbols = graph_.symbols;
    for (ValueId id : node.inputs) {
      if (id == kNoValue || known_elements(graph_[id]) || !is_small(graph_[id])) continue;
      graph_[id].elements.emplace();
      for (int64_t i = 0; i < element_count(*graph_[id].shape).constant(); ++i)
        graph_[id].elements->push_back(Dim::symbol(text("element", i, "of", id)));
    }
    bool tells = false;
    try {
      infer_node(graph_, node);
      tells = known_elements(graph_[result]).has_value();
    } catch (const Error&) {
      // Inference cannot express the result as sizes.
    }
    for (const auto& [id, value] : values) graph_[id] = value;
    graph_.relations = relations;
    graph_.data_symbols = data_symbols;
    graph_.symbols = symbols;
    return tells;
  }

  // A copy of the value, assembled from elements that are data symbols.
  ValueId with_symbols(ValueId id) {
    const int maker = graph_.producers()[id];
    const Node model = maker >= 0 ? graph_.nodes[maker] : reader_;
    NodeBuilder build(graph_, model);
    const ValueId numbers = build.cast(id, DType::I64);
    const int64_t count = element_count(*graph_[id].shape).constant();
    std::vector<ValueId> parts;
    for (int64_t i = 0; i < count; ++i) {
      const ValueId each =
          graph_[id].shape->empty()
              ? numbers
              : build.add("Gather", {numbers, build.integer(DType::I64, i)}, {{"axis", int64_t{0}}});
      const Dim size = build.size(each, std::nullopt);
      const ValueId holder = graph_.data_symbols.at(size.str()).source;
      parts.push_back(
          build.add("Reshape", {holder}, {{"shape", std::vector<int64_t>{1}}, {"allowzero", int64_t{1}}}));
    }
    ValueId all = parts.size() == 1 ? parts[0] : build.add("Concat", parts, {{"axis", int64_t{0}}});
    if (graph_[id].shape->empty())
      all = build.add("Reshape", {all}, {{"shape", std::vector<int64_t>{}}, {"allowzero", int64_t{1}}});
    all = build.cast(all, graph_[id].dtype);
    std::vector<Node> made = build.take();
    graph_.nodes.insert(graph_.nodes.begin() + maker + 1, std::make_move_iterator(made.begin()),
                        std::make_move_iterator(made.end()));
    return all;
  }

  Graph& graph_;
  const Node& reader_;
  SizesOfValues& sizes_;
};

// Whether a Where whose result is not known is among the nodes that compute the value.
bool is_chosen(const Graph& graph, ValueId id, const std::vector<int>& producers, int depth = 0) {
  const int maker = producers[static_cast<size_t>(id)];
  if (maker < 0 || depth > kDeepest || known_elements(graph[id])) return false;
  const Node& node = graph.nodes[static_cast<size_t>(maker)];
  if (node.op->name == "Where") return true;
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return input != kNoValue && is_small(graph[input]) && is_chosen(graph, input, producers, depth + 1);
  });
}

// Orders sizes: numbers first, then symbols, then expressions.
int rank_of(const Dim& size) { return size.is_constant() ? 0 : size.is_symbol() ? 1 : 2; }

bool replace(Graph& graph, Node& node, const Dim& from, const Dim& to) {
  NodeBuilder build(graph, node);
  bool any = false;
  for (ValueId& input : node.inputs) {
    if (input == kNoValue || graph[input].constant) continue;
    Shape shape = *graph[input].shape;
    if (std::find(shape.begin(), shape.end(), from) == shape.end()) continue;
    std::replace(shape.begin(), shape.end(), from, to);
    input = build.add("Reshape", {input}, {{"shape", std::vector<Dim>(shape)}, {"allowzero", int64_t{1}}});
    any = true;
  }
  for (Node& made : build.take()) graph.nodes.push_back(std::move(made));
  return any;
}

}  // namespace

bool know_elements(Graph& graph, Node& node, ValueId operand, SizesOfValues& sizes) {
  if (!is_small(graph[operand])) return false;
  const ValueId known = SizeReader(graph, node, sizes).known(operand);
  std::replace(node.inputs.begin(), node.inputs.end(), operand, known);
  return true;
}

bool resolve_shape(Graph& graph, Node& node, ValueId operand, SizesOfValues& known) {
  if (node.op->name != "Reshape" || node.inputs.size() < 2 || node.inputs[1] != operand ||
      !is_small(graph[operand]))
    return false;
  if (!is_chosen(graph, operand, graph.producers())) return false;
  NodeBuilder build(graph, node);
  const Shape from = *graph[node.inputs[0]].shape;
  const int64_t count = element_count(*graph[operand].shape).constant();
  const ValueId minus = build.integer(DType::I64, -1), zero = build.integer(DType::I64, 0),
                one = build.integer(DType::I64, 1);
  ValueId sizes = build.cast(operand, DType::I64);
  const auto allowzero = node.attributes.find("allowzero");
  if (count > 0 && (allowzero == node.attributes.end() || allowzero->second == Attribute(int64_t{0}))) {
    std::vector<ValueId> copied;
    for (int64_t i = 0; i < count; ++i) {
      const ValueId size =
          i < static_cast<int64_t>(from.size()) ? value_of(build, from[static_cast<size_t>(i)]) : zero;
      copied.push_back(build.add("Reshape", {size}, {{"shape", std::vector<int64_t>{1}}}));
    }
    sizes = build.add("Where", {build.add("Equal", {sizes, zero}),
                                build.add("Concat", copied, {{"axis", int64_t{0}}}), sizes});
  }
  const ValueId open = build.add("Equal", {sizes, minus});
  const ValueId others =
      build.add("ReduceProd", {build.add("Where", {open, one, sizes})}, {{"keepdims", int64_t{0}}});
  const ValueId rest =
      build.add("Div", {value_of(build, element_count(from)), build.add("Max", {others, one})});
  const ValueId resolved = build.add("Where", {open, rest, sizes});
  node.attributes["allowzero"] = int64_t{1};
  for (Node& made : build.take()) graph.nodes.push_back(std::move(made));
  node.inputs[1] = SizeReader(graph, node, known).anew(resolved);
  return true;
}

bool make_equal(Graph& graph, Node& node, const Dim& left, const Dim& right) {
  const bool keep_left = rank_of(left) < rank_of(right) ||
                         (rank_of(left) == rank_of(right) && left.str().size() <= right.str().size());
  const Dim &to = keep_left ? left : right, &from = keep_left ? right : left;
  return replace(graph, node, from, to) || replace(graph, node, to, from);
}

}  // namespace tc
