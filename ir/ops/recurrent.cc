// Recurrent cells: one matrix product for the inputs of all steps, then a Scan over time.
#include <algorithm>
#include <memory>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// What differs between the three operators: gates, states and the step.
struct Cell {
  const char* name;
  int64_t gates;
  bool has_cell_state;
  std::vector<std::string> activations;
};

const Cell kCells[] = {{"RNN", 1, false, {"Tanh"}},
                       {"GRU", 3, false, {"Sigmoid", "Tanh"}},
                       {"LSTM", 4, true, {"Sigmoid", "Tanh", "Tanh"}}};

int64_t directions_of(const Node& node) {
  return string_attribute(node, "direction") == "bidirectional" ? 2 : 1;
}

// Inputs: X, W, R, B, sequence_lens, initial_h, then initial_c and P of an LSTM.
void infer_recurrent(InferContext& context, const Cell& cell) {
  const Node& node = context.node();
  if (context.rank(0) != 3 || context.rank(1) != 3 || context.rank(2) != 3) {
    context.error("X, W and R have shapes ", str(context.shape(0)), ", ", str(context.shape(1)), " and ",
                  str(context.shape(2)), "; rank 3 is needed");
  }
  const bool batch_first = int_attribute(node, "layout") != 0;
  const Shape& x = context.shape(0);
  const Dim time = x[batch_first ? 1 : 0], batch = x[batch_first ? 0 : 1];
  const bool told = has_attribute(node, "hidden_size");
  if (told && context.shape(2)[2].is_constant() &&
      int_attribute(node, "hidden_size") != context.shape(2)[2].constant()) {
    context.error("hidden_size is ", int_attribute(node, "hidden_size"), " but R has shape ",
                  str(context.shape(2)));
  }
  const Dim hidden = told ? Dim(int_attribute(node, "hidden_size")) : context.shape(2)[2],
            directions = directions_of(node);
  need_number(context, hidden, "the size of the states");
  const Shape w = {directions, Dim(cell.gates) * hidden, x[2]},
              r = {directions, Dim(cell.gates) * hidden, hidden};
  need_shape(context, 1, w, "W");
  need_shape(context, 2, r, "R");
  need_shape(context, 3, {directions, Dim(2 * cell.gates) * hidden}, "B");
  const Shape state = batch_first ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  for (int i : {5, 6}) {
    if (i == 5 || cell.has_cell_state) need_shape(context, i, state, "the initial state");
  }
  if (cell.has_cell_state) need_shape(context, 7, {directions, Dim(3) * hidden}, "P");
  need_shape(context, 4, {batch}, "sequence_lens");
  context.set_output(
      0, context.dtype(0),
      batch_first ? Shape{batch, time, directions, hidden} : Shape{time, directions, batch, hidden});
  context.set_output(1, context.dtype(0), state);
  context.set_output(2, context.dtype(0), state);
}

// One activation function of a direction, with its parameters.
struct Activation {
  const OpRow* row = nullptr;
  std::optional<double> alpha, beta;
};

// The elementwise operator that a cell names. Names in the standard's list are compared without case, because
// older files differ in it.
const OpRow& activation_row(const Node& node, std::string name) {
  for (const std::string known : {"Sigmoid", "Tanh", "Relu", "Softsign", "Softplus", "HardSigmoid",
                                  "LeakyRelu", "Elu", "ThresholdedRelu", "Affine", "ScaledTanh"}) {
    const bool same =
        std::equal(name.begin(), name.end(), known.begin(), known.end(),
                   [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
    if (same) name = known;
  }
  const OpRow* row = find_op(name);
  if (row && row->elementwise && row->maximum_inputs == 1) return *row;
  fail(ErrorKind::Unsupported, node.origin.str(), ": activation '", name, "' is not supported");
}

// The numbers of an attribute: each function that has this parameter consumes the next one.
class Parameters {
 public:
  Parameters(const Node& node, const char* name) : node_(node), name_(name) {
    if (has_attribute(node, name)) numbers_ = floats_attribute(node, name);
  }

  std::optional<double> next() {
    ++takers_;
    return taken_ < numbers_.size() ? std::optional(numbers_[taken_++]) : std::nullopt;
  }

  // Refuses more numbers than functions with this parameter: they could be meant as one per function. Where
  // no function has the parameter, numbers are ignored.
  void check() const {
    if (takers_ == 0 || numbers_.size() <= takers_) return;
    fail(ErrorKind::Shape, node_.origin.str(), ": ", name_, " has ", numbers_.size(), " values, but ",
         takers_, " of its activations take one; give one value to each of these, in their order");
  }

 private:
  const Node& node_;
  const char* name_;
  std::vector<double> numbers_;
  size_t taken_ = 0, takers_ = 0;
};

// The functions of a direction. Parameters are consumed in order, through both directions, by the functions
// that have them.
std::vector<Activation> activations_of(const Node& node, const Cell& cell, int64_t direction) {
  const size_t each = cell.activations.size(), all = each * static_cast<size_t>(directions_of(node));
  std::vector<std::string> names;
  if (has_attribute(node, "activations")) {
    names = std::get<std::vector<std::string>>(node.attributes.at("activations"));
    if (names.size() < all)
      fail(ErrorKind::Shape, node.origin.str(), ": ", names.size(), " activations are too few");
  } else {
    while (names.size() < all) names.insert(names.end(), cell.activations.begin(), cell.activations.end());
  }
  Parameters alphas(node, "activation_alpha"), betas(node, "activation_beta");
  std::vector<Activation> result;
  for (size_t i = 0; i < all; ++i) {
    Activation activation{&activation_row(node, names[i]), {}, {}};
    if (activation.row->attribute("alpha")) activation.alpha = alphas.next();
    if (activation.row->attribute("beta")) activation.beta = betas.next();
    if (i / each == static_cast<size_t>(direction)) result.push_back(activation);
  }
  alphas.check();
  betas.check();
  return result;
}

ValueId activate(NodeBuilder& build, const Activation& activation, ValueId x) {
  std::map<std::string, Attribute> attributes;
  if (activation.alpha) attributes["alpha"] = *activation.alpha;
  if (activation.beta) attributes["beta"] = *activation.beta;
  return build.add(activation.row->name, {x}, attributes);
}

// The expansion of one node; `direction_` is the one being built.
class RecurrentBuilder {
 public:
  RecurrentBuilder(Graph& graph, const Node& node, const Cell& cell)
      : graph_(graph), node_(node), cell_(cell), build_(graph, node) {}

  std::vector<Node> run() {
    const bool batch_first = int_attribute(node_, "layout") != 0;
    ValueId x = node_.inputs[0];
    if (batch_first) x = build_.add("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
    hidden_ = build_.shape(node_.inputs[2])[2].constant();
    batch_ = build_.shape(x)[1];
    alive_ = alive(build_.shape(x)[0]);
    const int64_t directions = directions_of(node_);
    Results results;
    for (int64_t d = 0; d < directions; ++d) {
      Direction direction;
      direction.number = d;
      direction.backwards = d == 1 || string_attribute(node_, "direction") == "reverse";
      direction.batch_first = batch_first;
      one_direction(x, std::move(direction), results);
    }
    finish(0, results.all, 1, batch_first ? std::vector<int64_t>{2, 0, 1, 3} : std::vector<int64_t>());
    finish(1, results.finals, 0, batch_first ? std::vector<int64_t>{1, 0, 2} : std::vector<int64_t>());
    if (cell_.has_cell_state)
      finish(2, results.cells, 0, batch_first ? std::vector<int64_t>{1, 0, 2} : std::vector<int64_t>());
    return build_.take();
  }

 private:
  bool wanted(size_t output) const {
    return output < node_.outputs.size() && node_.outputs[output] != kNoValue;
  }

  // Adds the axis of directions to each direction's result, joins them and makes that the output.
  void finish(size_t output, const std::vector<ValueId>& parts, int64_t axis,
              const std::vector<int64_t>& perm) {
    if (!wanted(output)) return;
    std::vector<ValueId> unsqueezed;
    for (ValueId part : parts) {
      const bool last = parts.size() == 1 && perm.empty();
      std::map<std::string, Attribute> axes = {{"axes", std::vector<int64_t>{axis}}};
      if (last) return build_.add_to("Unsqueeze", {part}, {node_.outputs[output]}, axes);
      unsqueezed.push_back(build_.add("Unsqueeze", {part}, axes));
    }
    if (perm.empty()) return build_.add_to("Concat", unsqueezed, {node_.outputs[output]}, {{"axis", axis}});
    const ValueId joined =
        unsqueezed.size() == 1 ? unsqueezed[0] : build_.add("Concat", unsqueezed, {{"axis", axis}});
    build_.add_to("Transpose", {joined}, {node_.outputs[output]}, {{"perm", perm}});
  }

  static ValueId slice(NodeBuilder& build, ValueId value, int64_t axis, int64_t start, int64_t end) {
    return build.add("Slice", {value},
                     {{"starts", std::vector<int64_t>{start}},
                      {"ends", std::vector<int64_t>{end}},
                      {"axes", std::vector<int64_t>{axis}}});
  }

  // The part of an input that belongs to direction d, without that axis.
  ValueId part(int input, int64_t d, int64_t axis = 0) {
    ValueId value = node_.inputs[input];
    if (directions_of(node_) > 1) value = slice(build_, value, axis, d, d + 1);
    return build_.add("Squeeze", {value}, {{"axes", std::vector<int64_t>{axis}}});
  }

  // Whether each step is before the end of its sequence, [time, batch, 1]; kNoValue where all sequences are
  // as long as the input.
  ValueId alive(const Dim& time) {
    if (!input_given(node_, 4)) return kNoValue;
    const auto known = known_elements(graph_[node_.inputs[4]]);
    if (known && std::all_of(known->begin(), known->end(), [&](const Dim& length) { return length == time; }))
      return kNoValue;
    const auto with_axis = [&](ValueId value, int64_t axis) {
      return build_.add("Unsqueeze", {value}, {{"axes", std::vector<int64_t>{axis}}});
    };
    const ValueId steps = build_.add(
        "Range", {}, {{"range", std::vector<Dim>{Dim(0), time, Dim(1)}}, {"dtype", std::string("i32")}});
    const ValueId lengths = build_.cast(node_.inputs[4], DType::I32);
    return with_axis(build_.add("Less", {with_axis(steps, 1), with_axis(lengths, 0)}), 2);
  }

  // One direction while its Scan is built: `inside` makes the nodes of the body.
  struct Direction {
    int64_t number = 0;
    bool backwards = false, batch_first = false;
    ValueId r = kNoValue;           // transposed weights of the state
    ValueId projected = kNoValue;   // products of all inputs, plus biases that need no state
    ValueId inner_bias = kNoValue;  // the state's bias of a GRU's new gate
    std::shared_ptr<Graph> body;
    std::unique_ptr<NodeBuilder> inside;
    std::vector<Activation> activations;
    std::vector<ValueId> captured;  // outer values that the body reads
    // In the body: this step's products, the states, and which sequences have this step.
    ValueId step = kNoValue, h = kNoValue, c = kNoValue, alive = kNoValue;
  };
  // The results of all directions.
  struct Results {
    std::vector<ValueId> all, finals, cells;
  };

  ValueId initial(int input, const Direction& direction) {
    if (input_given(node_, input)) return part(input, direction.number, direction.batch_first ? 1 : 0);
    const DType type = build_.dtype(node_.inputs[0]);
    return build_.add(
        "ConstantOfShape", {},
        {{"shape", std::vector<Dim>{batch_, Dim(hidden_)}}, {"value", number_tensor(type, {1}, {0})}});
  }

  bool is_gru() const { return cell_.gates == 3; }
  bool resets_after() const { return is_gru() && int_attribute(node_, "linear_before_reset") != 0; }

  // The products of the inputs of all steps with W, and the biases.
  void project(ValueId x, Direction& direction) {
    const std::map<std::string, Attribute> transposed = {{"perm", std::vector<int64_t>{1, 0}}};
    const ValueId w = build_.add("Transpose", {part(1, direction.number)}, transposed);
    direction.r = build_.add("Transpose", {part(2, direction.number)}, transposed);
    direction.projected = build_.add("MatMul", {x, w});
    if (!input_given(node_, 3)) return;
    const ValueId b = part(3, direction.number);
    const ValueId input_bias = slice(build_, b, 0, 0, cell_.gates * hidden_);
    const ValueId state_bias = slice(build_, b, 0, cell_.gates * hidden_, 2 * cell_.gates * hidden_);
    ValueId bias;
    if (resets_after()) {
      // The state's bias of the new gate is multiplied by the reset gate, so it stays inside.
      const ValueId outer = slice(build_, state_bias, 0, 0, 2 * hidden_);
      const ValueId sum = build_.add("Add", {slice(build_, input_bias, 0, 0, 2 * hidden_), outer});
      bias = build_.add("Concat", {sum, slice(build_, input_bias, 0, 2 * hidden_, 3 * hidden_)},
                        {{"axis", int64_t{0}}});
      direction.inner_bias = slice(build_, state_bias, 0, 2 * hidden_, 3 * hidden_);
    } else {
      bias = build_.add("Add", {input_bias, state_bias});
    }
    direction.projected = build_.add("Add", {direction.projected, bias});
  }

  // The body with its inputs: the states, then one step.
  void begin_body(ValueId x, Direction& direction) {
    direction.body = std::make_shared<Graph>();
    direction.body->name = cell_.name;
    direction.body->symbols = graph_.symbols;
    direction.inside = std::make_unique<NodeBuilder>(*direction.body, node_);
    auto formal = [&](const char* name, const Shape& shape, DType type) {
      const ValueId id = direction.body->add_value(name, type, shape);
      direction.body->inputs.push_back(id);
      return id;
    };
    const Shape state_shape = {batch_, Dim(hidden_)};
    const DType type = build_.dtype(x);
    direction.h = formal("h", state_shape, type);
    if (cell_.has_cell_state) direction.c = formal("c", state_shape, type);
    Shape step_shape = build_.shape(direction.projected);
    step_shape.erase(step_shape.begin());
    direction.step = formal("x", step_shape, type);
    if (alive_ != kNoValue) direction.alive = formal("alive", {batch_, Dim(1)}, DType::Bool);
  }

  // The value in the body that represents an outer value.
  ValueId capture(Direction& direction, ValueId outer, const char* name) {
    const ValueId id = direction.body->add_value(name, build_.dtype(outer), build_.shape(outer));
    (*direction.body)[id].constant = graph_[outer].constant;
    direction.body->captures.push_back({graph_[outer].name, id});
    direction.captured.push_back(outer);
    return id;
  }

  ValueId gate(Direction& direction, ValueId value, int64_t i) {
    return slice(*direction.inside, value, 1, i * hidden_, (i + 1) * hidden_);
  }

  ValueId activated(Direction& direction, ValueId value, size_t which) {
    if (has_attribute(node_, "clip")) {
      const double limit = float_attribute(node_, "clip");
      value = direction.inside->add("Clip", {value}, {{"min", -limit}, {"max", limit}});
    }
    return activate(*direction.inside, direction.activations[which], value);
  }

  ValueId rnn_step(Direction& direction) {
    NodeBuilder& inside = *direction.inside;
    const ValueId product = inside.add("MatMul", {direction.h, capture(direction, direction.r, "R")});
    return activated(direction, inside.add("Add", {direction.step, product}), 0);
  }

  // The next states h and c.
  std::pair<ValueId, ValueId> lstm_step(Direction& direction) {
    NodeBuilder& inside = *direction.inside;
    const ValueId product = inside.add("MatMul", {direction.h, capture(direction, direction.r, "R")});
    const ValueId sums = inside.add("Add", {direction.step, product});
    std::vector<ValueId> p(3, kNoValue);
    if (input_given(node_, 7)) {
      const ValueId peepholes = part(7, direction.number);
      const char* names[] = {"P_i", "P_o", "P_f"};
      for (int64_t i = 0; i < 3; ++i)
        p[i] = capture(direction, slice(build_, peepholes, 0, i * hidden_, (i + 1) * hidden_), names[i]);
    }
    auto peep = [&](ValueId value, ValueId weights, ValueId state) {
      return weights == kNoValue ? value : inside.add("Add", {value, inside.add("Mul", {weights, state})});
    };
    const ValueId i = activated(direction, peep(gate(direction, sums, 0), p[0], direction.c), 0);
    const bool coupled = has_attribute(node_, "input_forget") && int_attribute(node_, "input_forget") != 0;
    const ValueId f = coupled ? inside.add("Sub", {inside.number(inside.dtype(i), 1), i})
                              : activated(direction, peep(gate(direction, sums, 2), p[2], direction.c), 0);
    const ValueId fresh = activated(direction, gate(direction, sums, 3), 1);
    const ValueId next_c =
        inside.add("Add", {inside.add("Mul", {f, direction.c}), inside.add("Mul", {i, fresh})});
    const ValueId o = activated(direction, peep(gate(direction, sums, 1), p[1], next_c), 0);
    return {inside.add("Mul", {o, activate(inside, direction.activations[2], next_c)}), next_c};
  }

  ValueId gru_step(Direction& direction) {
    NodeBuilder& inside = *direction.inside;
    const ValueId h = direction.h, step = direction.step;
    auto gated = [&](ValueId sums, int64_t i) {
      return activated(direction, inside.add("Add", {gate(direction, step, i), gate(direction, sums, i)}), 0);
    };
    ValueId z, fresh;
    if (resets_after()) {
      const ValueId sums = inside.add("MatMul", {h, capture(direction, direction.r, "R")});
      z = gated(sums, 0);
      const ValueId reset = gated(sums, 1);
      ValueId candidate = gate(direction, sums, 2);
      if (direction.inner_bias != kNoValue) {
        candidate = inside.add("Add", {candidate, capture(direction, direction.inner_bias, "bias")});
      }
      fresh = activated(
          direction, inside.add("Add", {gate(direction, step, 2), inside.add("Mul", {reset, candidate})}), 1);
    } else {
      const ValueId sums = inside.add(
          "MatMul", {h, capture(direction, slice(build_, direction.r, 1, 0, 2 * hidden_), "R_zr")});
      z = gated(sums, 0);
      const ValueId reset = gated(sums, 1);
      const ValueId kept = inside.add("Mul", {reset, h});
      const ValueId r = capture(direction, slice(build_, direction.r, 1, 2 * hidden_, 3 * hidden_), "R_h");
      const ValueId candidate = inside.add("MatMul", {kept, r});
      fresh = activated(direction, inside.add("Add", {gate(direction, step, 2), candidate}), 1);
    }
    // (1 - z) * fresh + z * h.
    const ValueId rest = inside.add("Sub", {inside.number(inside.dtype(z), 1), z});
    return inside.add("Add", {inside.add("Mul", {rest, fresh}), inside.add("Mul", {z, h})});
  }

  // After its end a sequence keeps its states and gives zeros. Returns the step's output.
  ValueId end_of_sequences(Direction& direction) {
    std::vector<ValueId>& next = direction.body->outputs;
    if (direction.alive == kNoValue) return next[0];
    NodeBuilder& inside = *direction.inside;
    const ValueId shown =
        inside.add("Where", {direction.alive, next[0], inside.number(inside.dtype(next[0]), 0)});
    next[0] = inside.add("Where", {direction.alive, next[0], direction.h});
    if (cell_.has_cell_state) next[1] = inside.add("Where", {direction.alive, next[1], direction.c});
    return shown;
  }

  void one_direction(ValueId x, Direction direction, Results& results) {
    project(x, direction);
    begin_body(x, direction);
    direction.activations = activations_of(node_, cell_, direction.number);
    Graph& body = *direction.body;
    if (cell_.has_cell_state) {
      const auto [next_h, next_c] = lstm_step(direction);
      body.outputs = {next_h, next_c};
    } else {
      body.outputs = {is_gru() ? gru_step(direction) : rnn_step(direction)};
    }
    const ValueId shown = end_of_sequences(direction);
    body.nodes = direction.inside->take();
    if (wanted(0)) body.outputs.push_back(shown);

    std::vector<ValueId> inputs = {initial(5, direction)};
    if (cell_.has_cell_state) inputs.push_back(initial(6, direction));
    inputs.push_back(direction.projected);
    if (alive_ != kNoValue) inputs.push_back(alive_);
    inputs.insert(inputs.end(), direction.captured.begin(), direction.captured.end());
    std::map<std::string, Attribute> attributes = {{"body", direction.body},
                                                   {"num_scan_inputs", int64_t{alive_ == kNoValue ? 1 : 2}}};
    if (direction.backwards) {
      attributes["scan_input_directions"] = std::vector<int64_t>(alive_ == kNoValue ? 1 : 2, 1);
      if (wanted(0)) attributes["scan_output_directions"] = std::vector<int64_t>{1};
    }
    const std::vector<ValueId> outputs =
        build_.add_many("Scan", inputs, static_cast<int>(body.outputs.size()), attributes);
    results.finals.push_back(outputs[0]);
    if (cell_.has_cell_state) results.cells.push_back(outputs[1]);
    if (wanted(0)) results.all.push_back(outputs.back());
  }

  Graph& graph_;
  const Node& node_;
  const Cell& cell_;
  NodeBuilder build_;
  int64_t hidden_ = 0;
  Dim batch_;
  ValueId alive_ = kNoValue;
};

}  // namespace

void register_recurrent_ops(OpTable& table) {
  for (const Cell& cell : kCells) {
    OpRow row;
    row.name = cell.name;
    row.kind = OpRow::Kind::Expand;
    row.category = "recurrent";
    row.doc = cell.has_cell_state ? "Long short-term memory over time."
              : cell.gates == 3   ? "Gated recurrent unit over time."
                                  : "Simple recurrent network over time.";
    row.onnx = {{cell.name, 1, drop_attributes({"output_sequence"})}};
    row.minimum_inputs = 3;
    row.maximum_inputs = cell.has_cell_state ? 8 : 6;
    row.outputs = cell.has_cell_state ? 3 : 2;
    row.attributes = {
        {"activations", std::vector<std::string>()},
        {"activation_alpha", std::vector<double>()},
        {"activation_beta", std::vector<double>()},
        {"clip", 0.0},
        {"direction", std::string("forward"), false, "", one_of({"forward", "reverse", "bidirectional"})},
        {"hidden_size", int64_t{0}, false, "", positive()},
        {"layout", int64_t{0}}};
    if (cell.gates == 3) row.attributes.push_back({"linear_before_reset", int64_t{0}});
    if (cell.has_cell_state) row.attributes.push_back({"input_forget", int64_t{0}});
    row.types = {{kFloats, {0, 1, 2, 3, 5, 6, 7}}, {kIndices, {4}}};
    row.infer = [&cell](InferContext& context) { infer_recurrent(context, cell); };
    row.expand = [&cell](Graph& graph, const Node& node) {
      return RecurrentBuilder(graph, node, cell).run();
    };
    table.add(std::move(row));
  }
}

}  // namespace tc
