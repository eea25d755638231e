// Control flow: operators that hold subgraphs.
#include <algorithm>
#include <optional>
#include <set>

#include "ir/ops/depends_on_data.h"
#include "ir/ops/loop_condition.h"
#include "ir/ops/selection.h"
#include "ir/ops/sizes.h"
#include "ir/size_bounds.h"

namespace tc {

namespace {

constexpr const char* kUnfitBody = "has a body whose inputs and outputs do not fit together";

// Trip counts and conditions are one element.
void check_single(InferContext& context, int input, const char* what) {
  need_one_element(context, input, what);
}

// A branch's body, and the bounds of the sizes that it computes.
struct Sizes {
  const Graph& body;
  const std::map<std::string, Dim>& bounds;
};

// Whether the size depends only on symbols defined outside the body.
bool is_outside(const Dim& size, const Graph& body) {
  std::set<std::string> names;
  size.collect_symbols(names);
  return std::none_of(names.begin(), names.end(),
                      [&](const std::string& name) { return body.data_symbols.count(name) > 0; });
}

// An upper bound of two sizes, if it depends only on symbols defined outside the bodies.
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

// A size of a result that depends on which branch is taken becomes a data symbol of the node: an additional
// last output holds it.
void normalize_branches(Graph& graph, Node& node) {
  Graph& then_body = *graph_attribute(node, "then_branch");
  Graph& else_body = *graph_attribute(node, "else_branch");
  for (const char* ours : {"shapes", "sizes"}) node.attributes.erase(ours);  // tc's own, not a file's
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
      graph.data_symbols[name] = {node.outputs.back(),
                                  larger_bound(x, {then_body, then_sizes}, y, {else_body, else_sizes})};
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

// Results whose sizes depend on the branch: `shapes` holds the shapes of all results, concatenated; the last
// outputs hold the sizes.
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
    if (shapes.end() - next < rank)
      context.fail_at(ErrorKind::Model, "has results of a higher rank than attribute 'shapes' says");
    context.set_output(static_cast<int>(i), value.dtype, Shape(next, next + rank));
    next += rank;
  }
}

// DependsOnData names an operand in the body's graph, which means nothing in the graph that holds the node,
// so it becomes a plain error here.
void infer_body(Graph& body) {
  try {
    infer_shapes(body);
  } catch (const DependsOnData& error) {
    throw Error(error);
  }
}

// The slices that iterations give must have one size that is known before the loop.
void check_slice(const InferContext& context, const Graph& body, const Shape& shape, size_t output) {
  for (const Dim& size : shape) {
    if (is_outside(size, body)) continue;
    context.unsupported("output ", output, " is put together of parts of shape ", str(shape),
                        ", where each iteration computes '", size.str(),
                        "'; parts of equal sizes are needed");
  }
}

void infer_branches(InferContext& context) {
  const GraphPtr then_body = graph_attribute(context.node(), "then_branch");
  const GraphPtr else_body = graph_attribute(context.node(), "else_branch");
  const size_t outputs = context.node().outputs.size();
  if (then_body->outputs.size() != outputs || else_body->outputs.size() != outputs) {
    context.fail_at(ErrorKind::Model, text("has ", outputs, " outputs but its branches give ",
                                           then_body->outputs.size(), " and ", else_body->outputs.size()));
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
      context.unsupported("the branches of output ", i, " give ", name_of(a.dtype), str(*a.shape), " and ",
                          name_of(b.dtype), str(*b.shape), "; equal types and shapes are needed");
    }
    context.set_output(static_cast<int>(i), a.dtype, *a.shape);
  }
}

// States keep their shape from iteration to iteration; after them come slices along axis 0, as inputs and
// outputs.
void infer_scan(InferContext& context) {
  const Node& node = context.node();
  const GraphPtr body = graph_attribute(node, "body");
  const int64_t scans = int_attribute(node, "num_scan_inputs");
  const int64_t formal = static_cast<int64_t>(body->inputs.size());
  const int64_t states = formal - scans;
  if (states < 0 || static_cast<int64_t>(node.inputs.size()) < formal ||
      static_cast<int64_t>(body->outputs.size()) < states) {
    context.fail_at(ErrorKind::Model, text("has ", node.inputs.size(), " inputs and num_scan_inputs ", scans,
                                           ", which do not fit its body"));
  }
  Dim trip;
  for (int64_t i = 0; i < formal; ++i) {
    Shape shape = context.shape(static_cast<int>(i));
    if (i >= states) {
      if (shape.empty()) context.error("input ", i, " has no axis to scan");
      if (i == states) trip = shape[0];
      need_equal(
          context, shape[0], trip,
          text("input ", i, " of shape ", str(shape), " has another length than the first, ", trip.str()));
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
        context.unsupported("state ", i, " changes from ", name_of(before.dtype), str(*before.shape), " to ",
                            name_of(value.dtype), str(shape), " in an iteration");
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
      if (axis != 0)
        fail(ErrorKind::Unsupported, node.origin.str(), ": ", name,
             " other than 0 are not supported; transpose outside of the loop");
    }
    node.attributes.erase(name);
  }
}

// Brings a Loop from the form in the file to the form of its row.
class LoopForm {
 public:
  LoopForm(Graph& graph, Node& node) : graph_(graph), node_(node), build_(graph, node) {
    node.attributes.erase("sizes");  // tc's own, not a file's
    body_ = std::make_shared<Graph>(*graph_attribute(node, "body"));
    captures_ = body_->captures.size();
  }

  // Makes the trip count a known size. Sizes of states that change in an iteration, and the number of
  // iterations if a condition decides it, become additional states after the others.
  void carry_sizes() {
    if (node_.inputs.size() < 2 + captures_) return;
    states_ = node_.inputs.size() - 2 - captures_;
    // Inference reports the mismatch.
    if (body_->inputs.size() < 2 + states_ || body_->outputs.size() < 1 + states_ ||
        node_.outputs.size() + 1 > body_->outputs.size())
      return;
    const std::optional<Dim> trip = bind_trip_count();
    const bool endless = ends_by_its_count(graph_, node_, *body_), ends = !trip || !endless;
    if (endless && node_.inputs[0] == kNoValue) {
      fail(ErrorKind::Unsupported, node_.origin.str(),
           " never ends: it has no trip count, and no iteration changes its condition");
    }
    node_.outputs.resize(std::max(node_.outputs.size(), states_), kNoValue);
    carry_changing();
    const size_t first_part = 1 + states_ + names_.size(), parts = body_->outputs.size() - first_part;
    for (size_t i = 0; i < parts; ++i) carry_part(body_->outputs.size() - parts + i);
    if (ends && parts > 0) carry_count(trip);
    give_nodes();
    node_.attributes["body"] = body_;
    if (!names_.empty()) node_.attributes["sizes"] = names_;
  }

 private:
  std::optional<Dim> bind_trip_count() {
    if (node_.inputs[0] == kNoValue) return std::nullopt;
    const ValueId given = node_.inputs[0];
    const DType type = graph_[given].dtype;
    if (element_count(*graph_[given].shape) != Dim(1) || (type != DType::I64 && type != DType::I32))
      return std::nullopt;  // inference refuses it
    auto known = known_elements(graph_[given]);
    if (!known || known->size() != 1) {
      ValueId count = build_.cast(given, DType::I64);
      if (!graph_[count].shape->empty())
        count =
            build_.add("Reshape", {count}, {{"shape", std::vector<int64_t>{}}, {"allowzero", int64_t{1}}});
      const Dim trip = build_.size(build_.add("Max", {count, build_.integer(DType::I64, 0)}), std::nullopt);
      node_.inputs[0] = graph_.data_symbols.at(trip.str()).source;
      return trip;
    }
    Dim trip = (*known)[0];
    if (dim_range(trip, graph_).low < 0) {
      trip = max(trip, Dim(0));
      node_.inputs[0] = value_of(build_, trip);
    }
    return trip;
  }

  // Adds a state with its first value; its last value is a size in the outer graph.
  void carry(const Dim& first, const std::optional<Dim>& bound) {
    const std::string name = fresh_symbol(graph_, node_);
    const auto at = static_cast<std::ptrdiff_t>(states_ + names_.size());
    node_.inputs.insert(node_.inputs.begin() + 2 + at, value_of(build_, first));
    const ValueId last = graph_.fresh_value(name, DType::I64, Shape{});
    graph_[last].elements = {{Dim::symbol(name)}};
    node_.outputs.insert(node_.outputs.begin() + at, last);
    graph_.data_symbols[name] = {last, bound};
    names_.push_back(name);
  }

  void give_next(ValueId next) {
    body_->outputs.insert(
        body_->outputs.begin() + 1 + static_cast<std::ptrdiff_t>(states_ + names_.size()) - 1, next);
  }

  // The importer gave the body an input for each size.
  void carry_changing() {
    for (size_t i = 0; i < states_; ++i) {
      const Shape inside = *(*body_)[body_->inputs[2 + i]].shape,
                  next = *(*body_)[body_->outputs[1 + i]].shape;
      const Shape outside = *graph_[node_.inputs[2 + i]].shape;
      for (size_t axis = 0; axis < inside.size() && axis < next.size() && axis < outside.size(); ++axis) {
        if (is_outside(inside[axis], *body_)) continue;
        carry(outside[axis], std::nullopt);
        NodeBuilder build(*body_, node_);
        give_next(value_of(build, next[axis]));
        for (Node& made : build.take()) body_->nodes.push_back(std::move(made));
      }
    }
  }

  // An output may collect parts whose sizes each iteration computes. All must have the sizes of the first
  // iteration: a view gives them these, so a run checks it.
  void carry_part(size_t output) {
    const ValueId part = body_->outputs[output];
    Shape shape = *(*body_)[part].shape;
    NodeBuilder build(*body_, node_);
    std::vector<ValueId> sizes;
    for (Dim& size : shape) {
      if (is_outside(size, *body_)) continue;
      body_->inputs.push_back(body_->fresh_value("size", DType::I64, Shape{}));
      const ValueId first = build.add("Equal", {body_->inputs[0], build.integer(DType::I64, 0)});
      size =
          build.size(build.add("Where", {first, value_of(build, size), body_->inputs.back()}), std::nullopt);
      sizes.push_back(body_->data_symbols.at(size.str()).source);
    }
    if (sizes.empty()) return;
    body_->outputs[output] =
        build.add("Reshape", {part}, {{"shape", std::vector<Dim>(shape)}, {"allowzero", int64_t{1}}});
    for (Node& made : build.take()) body_->nodes.push_back(std::move(made));
    for (ValueId size : sizes) {
      carry(Dim(0), std::nullopt);
      give_next(size);
    }
  }

  // How many iterations there are.
  void carry_count(const std::optional<Dim>& trip) {
    // The most parts for which memory is reserved before their number is known.
    constexpr int64_t kMaxReserved = 1 << 16;
    const bool reserved =
        trip && !mentions_data(*trip, graph_) && !(trip->is_constant() && trip->constant() > kMaxReserved);
    carry(Dim(0), reserved ? trip : std::nullopt);
    body_->inputs.push_back(body_->fresh_value("iterations", DType::I64, Shape{}));
    NodeBuilder build(*body_, node_);
    give_next(build.add("Add", {body_->inputs[0], build.integer(DType::I64, 1)}));
    for (Node& made : build.take()) body_->nodes.push_back(std::move(made));
  }

  void give_nodes() {
    for (Node& made : build_.take()) graph_.nodes.push_back(std::move(made));
  }

  Graph& graph_;
  Node& node_;
  NodeBuilder build_;
  GraphPtr body_;
  size_t captures_ = 0, states_ = 0;
  std::vector<std::string> names_;  // of the sizes
};

void normalize_loop(Graph& graph, Node& node) { LoopForm(graph, node).carry_sizes(); }

// The sizes that a loop carries as states, in the order of its results.
class CarriedSizes {
 public:
  CarriedSizes(InferContext& context, const Graph& body) : body_(body) {
    if (has_attribute(context.node(), "sizes"))
      names_ = unchecked_attribute<std::vector<std::string>>(context.node(), "sizes");
  }

  const std::vector<std::string>& names() const { return names_; }
  bool changes(const Dim& size) const { return !is_outside(size, body_); }
  // Replaces each size that changes by the next carried size.
  Shape outside(const InferContext& context, Shape shape) {
    for (Dim& size : shape) {
      if (!changes(size)) continue;
      if (next_ == names_.size()) context.fail_at(ErrorKind::Model, kUnfitBody);  // a size without a state
      size = Dim::symbol(names_[next_++]);
    }
    return shape;
  }
  // The carried number of iterations, which is present if there is one more name than changing sizes; else
  // the trip count is the number of iterations.
  std::optional<Dim> iterations(size_t states) const {
    size_t others = 0;
    auto add = [&](const Shape& shape) {
      others += static_cast<size_t>(
          std::count_if(shape.begin(), shape.end(), [&](const Dim& size) { return changes(size); }));
    };
    for (size_t i = 0; i < states; ++i) add(*body_[body_.inputs[2 + i]].shape);
    for (size_t i = 1 + states; i < body_.outputs.size(); ++i) add(*body_[body_.outputs[i]].shape);
    return others < names_.size() ? std::optional(Dim::symbol(names_.back())) : std::nullopt;
  }

 private:
  const Graph& body_;
  std::vector<std::string> names_;
  size_t next_ = 0;
};

[[noreturn]] void refuse_change(const InferContext& context, int64_t state, const Value& before,
                                const Value& after) {
  context.unsupported("state ", state, " changes from ", name_of(before.dtype), str(*before.shape), " to ",
                      name_of(after.dtype), str(*after.shape), " in an iteration");
}

// Refuses a state to which an iteration gives another type, rank or (unless it is carried) size.
void check_state(InferContext& context, const CarriedSizes& sizes, const Value& before, const Value& after,
                 int64_t state) {
  if (before.dtype != after.dtype || before.shape->size() != after.shape->size())
    refuse_change(context, state, before, after);
  for (size_t axis = 0; axis < before.shape->size(); ++axis) {
    if (!sizes.changes((*before.shape)[axis]) && (*before.shape)[axis] != (*after.shape)[axis])
      refuse_change(context, state, before, after);
  }
}

// Gives the body's inputs the types and shapes of the node's inputs; sizes that change stay as the body
// declares them.
void give_states(InferContext& context, Graph& body, int64_t states) {
  body[body.inputs[0]].dtype = DType::I64;
  body[body.inputs[0]].shape = Shape{};
  body[body.inputs[1]].dtype = DType::Bool;
  body[body.inputs[1]].shape = Shape{};
  for (int64_t i = 0; i < states; ++i) {
    Value& inside = body[body.inputs[static_cast<size_t>(2 + i)]];
    Shape shape = context.shape(static_cast<int>(2 + i));
    for (size_t axis = 0; inside.shape && inside.shape->size() == shape.size() && axis < shape.size();
         ++axis) {
      if (!is_outside((*inside.shape)[axis], body)) shape[axis] = (*inside.shape)[axis];
    }
    inside.dtype = context.dtype(static_cast<int>(2 + i));
    inside.shape = shape;
  }
}

void infer_loop(InferContext& context) {
  const Node& node = context.node();
  const GraphPtr body = graph_attribute(node, "body");
  const int64_t states = static_cast<int64_t>(body->inputs.size()) - 2;
  if (states < 0 || static_cast<int64_t>(body->outputs.size()) < states + 1) {
    context.fail_at(ErrorKind::Model, kUnfitBody);
  }
  check_single(context, 0, "the trip count");
  check_single(context, 1, "the condition");
  if (context.input_count() < 2 + states) {
    context.fail_at(ErrorKind::Model, text("has ", context.input_count(),
                                           " inputs, which do not fit its body of ", states, " states"));
  }
  give_states(context, *body, states);
  infer_body(*body);
  const Value& goes_on = (*body)[body->outputs[0]];
  if (goes_on.dtype != DType::Bool || element_count(*goes_on.shape) != Dim(1)) {
    context.error("the condition that its body gives is ", name_of(goes_on.dtype), str(*goes_on.shape),
                  "; one bool is needed");
  }
  CarriedSizes sizes(context, *body);
  const std::optional<std::vector<Dim>> trip = context.elements(0);
  std::optional<Dim> count = sizes.iterations(static_cast<size_t>(states));
  if (!count && trip && trip->size() == 1) count = (*trip)[0];
  for (int64_t i = 1; i < static_cast<int64_t>(body->outputs.size()); ++i) {
    const Value& value = (*body)[body->outputs[static_cast<size_t>(i)]];
    if (i <= states) {
      const Value& before = (*body)[body->inputs[static_cast<size_t>(1 + i)]];
      check_state(context, sizes, before, value, i - 1);
      context.set_output(static_cast<int>(i) - 1, value.dtype, sizes.outside(context, *before.shape));
      continue;
    }
    if (!count) throw DependsOnData(node, context.graph(), node.inputs[0], "trip count");
    Shape shape = sizes.outside(context, *value.shape);
    shape.insert(shape.begin(), *count);
    context.set_output(static_cast<int>(i) - 1, value.dtype, shape);
  }
  for (size_t i = 0; i < sizes.names().size(); ++i) {
    context.set_elements(static_cast<int>(static_cast<size_t>(states) - sizes.names().size() + i),
                         {Dim::symbol(sizes.names()[i])});
  }
}

// The operand is the value of the size.
void infer_data_size(InferContext& context) {
  check_single(context, 0, "the size");
  if (context.dtype(0) != DType::I64)
    context.error("the size has type ", name_of(context.dtype(0)), "; i64 is needed");
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
                             {{"then_branch", GraphPtr(), true},
                              {"else_branch", GraphPtr(), true},
                              {"shapes", std::vector<int64_t>()},
                              {"sizes", std::vector<std::string>()}},
                             infer_branches);
  branch.onnx = {{"If", 1, normalize_branches}};
  branch.types = {{kBools, {0}}};
  table.add(std::move(branch));
  OpRow scan =
      control_row("Scan", Control::Scan, 9, "A subgraph per element of axis 0, with states carried along.",
                  {{"body", GraphPtr(), true},
                   {"num_scan_inputs", int64_t{1}, true, "", positive()},
                   {"scan_input_directions", std::vector<int64_t>()},
                   {"scan_output_directions", std::vector<int64_t>()},
                   {"scan_input_axes", std::vector<int64_t>()},
                   {"scan_output_axes", std::vector<int64_t>()}},
                  infer_scan);
  scan.onnx = {{"Scan", 9, normalize_scan}};
  table.add(std::move(scan));
  OpRow loop =
      control_row("Loop", Control::Loop, 1, "A subgraph a number of times, with states carried along.",
                  {{"body", GraphPtr(), true}, {"sizes", std::vector<std::string>()}}, infer_loop);
  loop.onnx = {{"Loop", 1, normalize_loop}};
  loop.minimum_inputs = 0;
  loop.types = {{kIndices, {0}}, {kBools, {1}}};
  table.add(std::move(loop));
  OpRow size = control_row(
      "DataSize", Control::Size, 1,
      "Binds the symbol of a size that its operand holds; operators whose results' sizes depend on data expand into it.",
      {{"symbol", std::string(), true}}, infer_data_size);
  size.onnx = {};
  size.maximum_inputs = size.outputs = 1;
  table.add(std::move(size));
}

}  // namespace tc
