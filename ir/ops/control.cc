// Control flow: operators that hold subgraphs.
#include <algorithm>
#include <optional>
#include <set>

#include "ir/ops/depends_on_data.h"
#include "ir/ops/selection.h"
#include "ir/size_bounds.h"

namespace tc {

namespace {

// Trip counts and conditions are one element.
void check_single(InferContext& context, int input, const char* what) {
  if (!context.has_input(input) || element_count(context.shape(input)) == Dim(1)) return;
  context.error(what, " has shape ", str(context.shape(input)), "; one element is needed");
}

// A body, and the bounds of the sizes that it computes.
struct Sizes {
  const Graph& body;
  const std::map<std::string, Dim>& bounds;
};

// Whether the size is the same before the branch as in it.
bool is_outside(const Dim& size, const Graph& body) {
  std::set<std::string> names;
  size.collect_symbols(names);
  return std::none_of(names.begin(), names.end(), [&](const std::string& name) { return body.data_symbols.count(name) > 0; });
}

// What two sizes are at most, if that is known outside of the bodies that compute them.
std::optional<Dim> larger_bound(const Dim& x, const Sizes& inside_x, const Dim& y, const Sizes& inside_y) {
  const Dim a = largest(x, inside_x.bounds), b = largest(y, inside_y.bounds);
  if (!is_outside(a, inside_x.body) || !is_outside(b, inside_y.body)) return std::nullopt;
  return max(a, b);
}

// Gives a branch a further output, which holds one of its sizes.
void give_size(Graph& body, const Node& node, const Dim& size) {
  NodeBuilder build(body, node);
  body.outputs.push_back(value_of(build, size));
  for (Node& made : build.take()) body.nodes.push_back(std::move(made));
}

// A size of a result that depends on the branch that is taken becomes one that the node computes: an output behind the
// others holds it.
void normalize_branches(Graph& graph, Node& node) {
  Graph& then_body = *graph_attribute(node, "then_branch");
  Graph& else_body = *graph_attribute(node, "else_branch");
  for (const char* ours : {"shapes", "sizes"}) node.attributes.erase(ours);   // no file's
  const size_t outputs = then_body.outputs.size();
  if (outputs != else_body.outputs.size() || outputs != node.outputs.size()) return;
  const std::map<std::string, Dim> then_sizes = size_bounds(then_body), else_sizes = size_bounds(else_body);
  std::vector<Dim> shapes;
  std::vector<std::string> sizes;
  std::vector<std::pair<Dim, Dim>> given;
  for (size_t i = 0; i < outputs; ++i) {
    const Value a = then_body[then_body.outputs[i]], b = else_body[else_body.outputs[i]];
    if (a.dtype != b.dtype || a.shape->size() != b.shape->size()) return;
    for (size_t axis = 0; axis < a.shape->size(); ++axis) {
      const Dim x = (*a.shape)[axis], y = (*b.shape)[axis];
      if (x == y && is_outside(x, then_body) && is_outside(y, else_body)) {
        shapes.push_back(x);
        continue;
      }
      const auto same = std::find(given.begin(), given.end(), std::pair(x, y));
      if (same != given.end()) {
        shapes.push_back(Dim::symbol(sizes[static_cast<size_t>(same - given.begin())]));
        continue;
      }
      const std::string name = fresh_symbol(graph, node);
      node.outputs.push_back(graph.fresh_value(name, DType::I64, Shape{}));
      graph.data_symbols[name] = {node.outputs.back(), larger_bound(x, {then_body, then_sizes}, y, {else_body, else_sizes})};
      sizes.push_back(name);
      given.emplace_back(x, y);
      shapes.push_back(Dim::symbol(name));
    }
  }
  if (sizes.empty()) return;
  for (const auto& [x, y] : given) {
    give_size(then_body, node, x);
    give_size(else_body, node, y);
  }
  node.attributes["shapes"] = shapes;
  node.attributes["sizes"] = sizes;
}

// Results whose sizes depend on the branch: their shapes one after the other, and outputs that hold the sizes.
void infer_sized_branches(InferContext& context, const Graph& body) {
  const std::vector<Dim> shapes = dims_attribute(context.node(), "shapes");
  const auto& sizes = unchecked_attribute<std::vector<std::string>>(context.node(), "sizes");
  auto next = shapes.begin();
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    const Value& value = body[body.outputs[i]];
    const auto rank = static_cast<std::ptrdiff_t>(value.shape->size());
    if (i + sizes.size() >= body.outputs.size()) {
      const std::string& name = sizes[i + sizes.size() - body.outputs.size()];
      context.set_output(static_cast<int>(i), DType::I64, {});
      context.set_elements(static_cast<int>(i), {Dim::symbol(name)});
      continue;
    }
    if (shapes.end() - next < rank) context.fail_at(ErrorKind::Model, "has results of a higher rank than attribute 'shapes' says");
    context.set_output(static_cast<int>(i), value.dtype, Shape(next, next + rank));
    next += rank;
  }
}

// What an operand inside of the body decides is no question to whoever holds the node: the operand is a value of the
// body's graph, not of his.
void infer_body(Graph& body) {
  try {
    infer_shapes(body);
  } catch (const DependsOnData& error) {
    throw Error(error);
  }
}

// The slices that iterations give are of one size, known before the loop.
void check_slice(const InferContext& context, const Graph& body, const Shape& shape, size_t output) {
  for (const Dim& size : shape) {
    if (is_outside(size, body)) continue;
    context.unsupported("output ", output, " is put together of parts of shape ", str(shape), ", where each iteration computes '", size.str(),
                        "'; parts of equal sizes are needed");
  }
}

void infer_branches(InferContext& context) {
  const GraphPtr then_body = graph_attribute(context.node(), "then_branch");
  const GraphPtr else_body = graph_attribute(context.node(), "else_branch");
  const size_t outputs = context.node().outputs.size();
  if (then_body->outputs.size() != outputs || else_body->outputs.size() != outputs) {
    context.fail_at(ErrorKind::Model, text("has ", outputs, " outputs but its branches give ", then_body->outputs.size(),
                                           " and ", else_body->outputs.size()));
  }
  infer_body(*then_body);
  infer_body(*else_body);
  check_single(context, 0, "the condition");
  if (has_attribute(context.node(), "sizes")) return infer_sized_branches(context, *then_body);
  const auto known = context.elements(0);
  for (size_t i = 0; i < outputs; ++i) {
    const Value& a = (*then_body)[then_body->outputs[i]];
    const Value& b = (*else_body)[else_body->outputs[i]];
    if (known && known->size() == 1 && (*known)[0].is_constant()) {
      const Value& taken = (*known)[0] == Dim(0) ? b : a;
      context.set_output(static_cast<int>(i), taken.dtype, *taken.shape);
      continue;
    }
    if (a.dtype != b.dtype || a.shape != b.shape) {
      context.unsupported("the branches of output ", i, " give ", name_of(a.dtype), str(*a.shape), " and ", name_of(b.dtype),
                          str(*b.shape), "; equal types and shapes are needed");
    }
    context.set_output(static_cast<int>(i), a.dtype, *a.shape);
  }
}

// States of the same shape before and after, then slices of axis 0 in and out.
void infer_scan(InferContext& context) {
  const Node& node = context.node();
  const GraphPtr body = graph_attribute(node, "body");
  const int64_t scans = int_attribute(node, "num_scan_inputs");
  const int64_t formal = static_cast<int64_t>(body->inputs.size());
  const int64_t states = formal - scans;
  if (states < 0 || static_cast<int64_t>(node.inputs.size()) < formal ||
      static_cast<int64_t>(body->outputs.size()) < states) {
    context.fail_at(ErrorKind::Model, text("has ", node.inputs.size(), " inputs and num_scan_inputs ", scans, ", which do not fit its body"));
  }
  Dim trip;
  for (int64_t i = 0; i < formal; ++i) {
    Shape shape = context.shape(static_cast<int>(i));
    if (i >= states) {
      if (shape.empty()) context.error("input ", i, " has no axis to scan");
      if (i == states) trip = shape[0];
      if (shape[0] != trip) context.error("input ", i, " of shape ", str(shape), " has another length than the first, ", trip.str());
      shape.erase(shape.begin());
    }
    Value& inside = (*body)[body->inputs[i]];
    inside.dtype = context.dtype(static_cast<int>(i));
    inside.shape = shape;
  }
  infer_body(*body);
  for (size_t i = 0; i < body->outputs.size(); ++i) {
    const Value& value = (*body)[body->outputs[i]];
    Shape shape = *value.shape;
    if (static_cast<int64_t>(i) < states) {
      const Value& before = (*body)[body->inputs[i]];
      if (shape != *before.shape || value.dtype != before.dtype) {
        context.unsupported("state ", i, " changes from ", name_of(before.dtype), str(*before.shape), " to ", name_of(value.dtype),
                            str(shape), " in an iteration");
      }
    } else {
      check_slice(context, *body, shape, i);
      shape.insert(shape.begin(), trip);
    }
    context.set_output(static_cast<int>(i), value.dtype, shape);
  }
}

// Moves the scanned axes to the front, by transposes around the node.
void normalize_scan(Graph&, Node& node) {
  for (const char* name : {"scan_input_axes", "scan_output_axes"}) {
    if (!has_attribute(node, name)) continue;
    for (int64_t axis : ints_attribute(node, name)) {
      if (axis != 0) fail(ErrorKind::Unsupported, node.origin.str(), ": ", name, " other than 0 are not supported; transpose outside of the loop");
    }
    node.attributes.erase(name);
  }
}

// Shapes must not change from one iteration to the next.
void infer_loop(InferContext& context) {
  const Node& node = context.node();
  const GraphPtr body = graph_attribute(node, "body");
  const int64_t states = static_cast<int64_t>(body->inputs.size()) - 2;
  if (states < 0 || static_cast<int64_t>(body->outputs.size()) < states + 1) {
    context.fail_at(ErrorKind::Model, "has a body whose inputs and outputs do not fit together");
  }
  check_single(context, 0, "the trip count");
  check_single(context, 1, "the condition");
  if (context.input_count() < 2 + states) {
    context.fail_at(ErrorKind::Model, text("has ", context.input_count(), " inputs, which do not fit its body of ", states, " states"));
  }
  (*body)[body->inputs[0]].dtype = DType::I64;
  (*body)[body->inputs[0]].shape = Shape{};
  (*body)[body->inputs[1]].dtype = DType::Bool;
  (*body)[body->inputs[1]].shape = Shape{};
  for (int64_t i = 0; i < states; ++i) {
    Value& inside = (*body)[body->inputs[2 + i]];
    inside.dtype = context.dtype(static_cast<int>(2 + i));
    inside.shape = context.shape(static_cast<int>(2 + i));
  }
  infer_body(*body);
  std::optional<std::vector<Dim>> trip = context.elements(0);
  for (size_t i = 1; i < body->outputs.size(); ++i) {
    const Value& value = (*body)[body->outputs[i]];
    Shape shape = *value.shape;
    if (static_cast<int64_t>(i) <= states) {
      const Value& before = (*body)[body->inputs[1 + i]];
      if (shape != *before.shape || value.dtype != before.dtype) {
        context.unsupported("state ", i - 1, " changes from ", name_of(before.dtype), str(*before.shape), " to ", name_of(value.dtype),
                            str(shape), " in an iteration");
      }
    } else {
      if (!trip || trip->size() != 1) throw DependsOnData(context.node(), context.graph(), context.node().inputs[0], "trip count");
      check_slice(context, *body, shape, i - 1);
      shape.insert(shape.begin(), (*trip)[0]);
    }
    context.set_output(static_cast<int>(i) - 1, value.dtype, shape);
  }
}

// The operand is the size.
void infer_data_size(InferContext& context) {
  check_single(context, 0, "the size");
  if (context.dtype(0) != DType::I64) context.error("the size has type ", name_of(context.dtype(0)), "; i64 is needed");
  infer_size(context);
}

OpRow control_row(const std::string& name, OpTraits::Control control, int since, const std::string& doc,
                  std::vector<AttributeRow> attributes, std::function<void(InferContext&)> infer) {
  OpRow row;
  row.name = name;
  row.kind = OpRow::Kind::Control;
  row.category = "control flow";
  row.traits.control = control;
  row.doc = doc;
  row.onnx = {{name, since}};
  row.minimum_inputs = 1;
  row.maximum_inputs = -1;
  row.outputs = -1;
  row.attributes = std::move(attributes);
  row.infer = std::move(infer);
  return row;
}

}  // namespace

void register_control_ops(OpTable& table) {
  using Control = OpTraits::Control;
  OpRow branch = control_row("If", Control::Branch, 1, "One of two subgraphs.",
                             {{"then_branch", GraphPtr(), true}, {"else_branch", GraphPtr(), true},
                              {"shapes", std::vector<int64_t>()}, {"sizes", std::vector<std::string>()}}, infer_branches);
  branch.onnx = {{"If", 1, normalize_branches}};
  branch.types = {{kBools, {0}}};
  table.add(std::move(branch));
  OpRow scan = control_row("Scan", Control::Scan, 9, "A subgraph per element of axis 0, with states carried along.",
                           {{"body", GraphPtr(), true}, {"num_scan_inputs", int64_t{1}, true, "", positive()},
                            {"scan_input_directions", std::vector<int64_t>()}, {"scan_output_directions", std::vector<int64_t>()},
                            {"scan_input_axes", std::vector<int64_t>()}, {"scan_output_axes", std::vector<int64_t>()}},
                           infer_scan);
  scan.onnx = {{"Scan", 9, normalize_scan}};
  table.add(std::move(scan));
  OpRow loop = control_row("Loop", Control::Loop, 1, "A subgraph a number of times, with states carried along.",
                           {{"body", GraphPtr(), true}}, infer_loop);
  loop.types = {{kIndices, {0}}, {kBools, {1}}};
  table.add(std::move(loop));
  OpRow size = control_row("DataSize", Control::Size, 1, "Binds the symbol of a size that its operand holds; operators whose results' sizes depend on data expand into it.",
                           {{"symbol", std::string(), true}}, infer_data_size);
  size.onnx = {};
  size.maximum_inputs = size.outputs = 1;
  table.add(std::move(size));
}

}  // namespace tc
