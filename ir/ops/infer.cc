// Shape inference: the context that rows use, and the walk over a graph.
#include "ir/interrupt.h"
#include "ir/ops/depends_on_data.h"
#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// Null where the attribute is of another kind.
template <class T>
const T* attribute_as(const Node& node, const std::string& name) {
  auto found = node.attributes.find(name);
  const Attribute* attribute = found == node.attributes.end() ? nullptr : &found->second;
  if (!attribute) {
    const AttributeRow* row = node.op->attribute(name);
    if (row) attribute = &row->fallback;
  }
  TC_CHECK(attribute, "attribute '", name, "' of ", node.origin.str());
  return std::get_if<T>(attribute);
}

[[noreturn]] void wrong_kind(const Node& node, const std::string& name, const char* kind) {
  fail(ErrorKind::Model, node.origin.str(), ": attribute '", name, "' is not ", kind);
}

bool excludes(const Interval& range, int64_t value) { return range.low > value || range.high < value; }

// Gives the subgraph's values that represent captured ones their types and shapes.
void infer_captures(Graph& outer, const Node& node, Graph& body, size_t first) {
  for (size_t i = 0; i < body.captures.size(); ++i) {
    const Value& from = outer[node.inputs.at(first + i)];
    Value& to = body[body.captures[i].second];
    to.dtype = from.dtype;
    to.shape = from.shape;
    to.constant = from.constant;
    to.elements = from.elements;
  }
}

}  // namespace

DependsOnData::DependsOnData(const Node& node, const Graph& graph, ValueId operand, const std::string& what)
    : Error(ErrorKind::Unsupported, text(node.origin.str(), ": ", what, " '", graph[operand].name,
                                         "' depends on data; it must be a constant or follow from shapes")),
      operand_(operand) {}

DependsOnData::DependsOnData(const DependsOnData& error, std::vector<std::string> inputs)
    : Error(error), operand_(error.operand_), inputs_(std::move(inputs)) {}

DependsOnData DependsOnData::sizes() const {
  DependsOnData result = *this;
  result.decides_sizes_ = true;
  return result;
}

bool InferContext::has_input(int i) const { return input_given(node_, i); }

const Value& InferContext::input(int i) const {
  TC_CHECK(has_input(i), "input ", i, " of ", node_.origin.str());
  return graph_[node_.inputs[i]];
}

const Shape& InferContext::shape(int i) const {
  const Value& value = input(i);
  TC_CHECK(value.shape, "a shape of ", value.name);
  return *value.shape;
}

std::optional<std::vector<Dim>> InferContext::elements(int i) const {
  return has_input(i) ? known_elements(input(i)) : std::nullopt;
}

std::vector<int64_t> InferContext::constant_ints(int i, const char* what) const {
  auto known = elements(i);
  if (!known) throw DependsOnData(node_, graph_, node_.inputs[static_cast<size_t>(i)], what);
  return fixed(node_, *known, what);
}

void InferContext::set_output(int i, DType dtype, Shape shape) {
  if (i >= static_cast<int>(node_.outputs.size()) || node_.outputs[i] == kNoValue) return;
  check_result(*this, shape);
  Value& value = graph_[node_.outputs[i]];
  value.dtype = dtype;
  value.shape = std::move(shape);
}

void InferContext::set_elements(int i, std::vector<Dim> elements) {
  if (i >= static_cast<int>(node_.outputs.size()) || node_.outputs[i] == kNoValue) return;
  graph_[node_.outputs[i]].elements = std::move(elements);
}

void InferContext::fail_at(ErrorKind kind, const std::string& message) const {
  throw Error(kind, text(node_.origin.str(), ": ", message));
}

Shape InferContext::broadcast(const std::vector<Shape>& shapes) const {
  size_t rank = 0;
  for (const Shape& shape : shapes) rank = std::max(rank, shape.size());
  Shape result(rank, Dim(1));
  std::vector<int> owner(rank, -1);
  for (size_t operand = 0; operand < shapes.size(); ++operand) {
    const Shape& shape = shapes[operand];
    for (size_t i = 0; i < shape.size(); ++i) {
      const size_t axis = rank - shape.size() + i;
      if (shape[i] == Dim(1) || shape[i] == result[axis]) continue;
      if (result[axis] != Dim(1)) {
        // A size computed at run time that cannot be equal to the other one must be 1, so that it broadcasts.
        const bool never = excludes(dim_range(result[axis] - shape[i], graph_), 0);
        for (const Dim& size : {result[axis], shape[i]}) {
          if (!never || !mentions_data(size, graph_) || excludes(dim_range(size, graph_), 1)) continue;
          differ(size, Dim(1),
                 text("operands of shapes ", str(shapes[owner[axis]]), " and ", str(shape),
                      " broadcast only where '", size.str(), "' is 1"));
        }
        differ(result[axis], shape[i],
               text("operand ", owner[axis], " of shape ", str(shapes[owner[axis]]), " and operand ", operand,
                    " of shape ", str(shape), " do not broadcast: axis ", axis, " is ", result[axis].str(),
                    " and ", shape[i].str()));
      }
      result[axis] = shape[i];
      owner[axis] = static_cast<int>(operand);
    }
  }
  return result;
}

namespace {

// Adds the relation unless it is there.
void relate(Graph& graph, const Node& node, const Dim& left, const Dim& right, bool equal) {
  for (const SizeRelation& known : graph.relations) {
    if (known.left == left && known.right == right && known.equal == equal) return;
  }
  graph.relations.push_back({left, right, equal, node.origin.str()});
}

}  // namespace

void InferContext::require_equal(const Dim& left, const Dim& right, const std::string& message) const {
  const Dim difference = left - right;
  if (difference == Dim(0)) return;
  const Interval range = dim_range(difference, graph_);
  if (range.low > 0 || range.high < 0) fail_at(ErrorKind::Shape, message);
  relate(graph_, node_, left, right, true);
}

void InferContext::require_at_most(const Dim& left, const Dim& right, const std::string& message) const {
  const Interval range = dim_range(right - left, graph_);
  if (range.low >= 0) return;
  if (range.high < 0) fail_at(ErrorKind::Shape, message);
  // Holds where `left` is a minimum of which `right` is an operand, or a data symbol whose bound is at most
  // `right`.
  if (min(left, right) == left) return;
  for (const auto& [name, symbol] : graph_.data_symbols) {
    if (left == Dim::symbol(name) && symbol.bound == right) return;
  }
  relate(graph_, node_, left, right, false);
}

void InferContext::differ(const Dim& left, const Dim& right, const std::string& message) const {
  const Interval range = dim_range(left - right, graph_);
  if (range.low > 0 || range.high < 0) fail_at(ErrorKind::Shape, message);
  throw UnprovedSizes(text(node_.origin.str(), ": ", message, how_to_bind(graph_, {left, right})), left,
                      right);
}

int64_t InferContext::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    error("axis ", axis, " is outside of -", rank, "..", rank - 1, " for a tensor of rank ", rank);
  }
  return axis < 0 ? axis + rank : axis;
}

namespace {

// Gives the values that the node's subgraphs capture their types and shapes.
void infer_bodies(Graph& graph, const Node& node) {
  size_t captured = node.inputs.size();
  std::vector<GraphPtr> bodies;
  for (const char* name : {"then_branch", "else_branch", "body"}) {
    auto found = node.attributes.find(name);
    if (found == node.attributes.end()) continue;
    bodies.push_back(std::get<GraphPtr>(found->second));
    captured -= bodies.back()->captures.size();
  }
  for (const GraphPtr& body : bodies) {
    infer_captures(graph, node, *body, captured);
    captured += body->captures.size();
  }
}

}  // namespace

void infer_node(Graph& graph, const Node& node) {
  InferContext context(graph, node);
  try {
    check_operands(context);
    infer_bodies(graph, node);
    infer_by_row(context);
    check_results(context);
  } catch (const Error& error) {
    // Errors from the arithmetic of sizes do not name the node, so it is added here.
    const std::string what = error.what();
    if (error.kind() == ErrorKind::Internal || what.rfind("node '", 0) == 0) throw;
    throw Error(error.kind(), node.origin.str() + ": " + what);
  }
  for (ValueId id : node.outputs) {
    if (id == kNoValue || !graph[id].shape) continue;
    Value& value = graph[id];
    if (value.elements && value.shape->size() > 1) value.elements.reset();
  }
}

void infer_shapes(Graph& graph) {
  graph.relations.clear();  // drops those of nodes that no longer exist
  for (const Node& node : graph.nodes) {
    interruption_point();
    infer_node(graph, node);
  }
}

std::vector<Dim> dims_attribute(const Node& node, const std::string& name) {
  if (const auto* ints = attribute_as<std::vector<int64_t>>(node, name)) {
    return std::vector<Dim>(ints->begin(), ints->end());
  }
  const auto* dims = attribute_as<std::vector<Dim>>(node, name);
  if (!dims) wrong_kind(node, name, "a list of dimensions");
  return *dims;
}

std::vector<double> floats_attribute(const Node& node, const std::string& name) {
  const auto* floats = attribute_as<std::vector<double>>(node, name);
  if (!floats) wrong_kind(node, name, "a list of numbers");
  return *floats;
}

GraphPtr graph_attribute(const Node& node, const std::string& name) {
  const auto* graph = attribute_as<GraphPtr>(node, name);
  if (!graph || !*graph) wrong_kind(node, name, "a graph");
  return *graph;
}

TensorPtr tensor_attribute(const Node& node, const std::string& name) {
  const auto* tensor = attribute_as<TensorPtr>(node, name);
  if (!tensor || !*tensor) wrong_kind(node, name, "a tensor");
  return *tensor;
}

}  // namespace tc
