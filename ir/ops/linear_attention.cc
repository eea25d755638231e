// Operators that language models use instead of attention: a state that each position updates, and
// convolutions that carry their last inputs on.
#include <cmath>
#include <memory>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

using Ints = std::vector<int64_t>;
using Attributes = std::map<std::string, Attribute>;

// --- LinearAttention -------------------------------------------------------------------------------

// Inputs of LinearAttention.
enum Input { kQuery, kKey, kValue, kPast, kDecay, kBeta };

bool decays(const Node& node) { return string_attribute(node, "update_rule").rfind("gated", 0) == 0; }
bool corrects(const Node& node) {
  const std::string rule = string_attribute(node, "update_rule");
  return rule == "delta" || rule == "gated_delta";
}

// Sizes of the operands; a state is a matrix [key_size, value_size] per head of the keys.
struct States {
  Dim batch, steps;
  int64_t heads = 1, groups = 1;  // `heads`: of keys; `groups`: query heads that share a key head
  Dim key_size, value_size;
  Shape shape() const { return {batch, Dim(heads), key_size, value_size}; }
};

// The size of one of `heads` parts of the last axis.
Dim part_of(const Node& node, const char* what, const Shape& shape, int64_t heads) {
  if (shape.size() != 3 || (shape[2].is_constant() && shape[2].constant() % heads != 0)) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", what, " has shape ", str(shape), "; [batch, positions, ",
         heads, " heads * size] is needed");
  }
  return floor_div(shape[2], Dim(heads));
}

States states_of(const Node& node, const Shape& query, const Shape& key, const Shape& value) {
  const int64_t queries = int_attribute(node, "q_num_heads"), keys = int_attribute(node, "kv_num_heads");
  if (queries % keys != 0)
    fail(ErrorKind::Shape, node.origin.str(), ": ", queries, " heads of queries do not share ", keys,
         " heads of keys evenly");
  States states;
  states.heads = keys;
  states.groups = queries / keys;
  states.key_size = part_of(node, "the query", query, queries);
  part_of(node, "the key", key, keys);
  states.value_size = part_of(node, "the value", value, keys);
  states.batch = query[0];
  states.steps = query[1];
  return states;
}

ValueId with_shape(NodeBuilder& build, ValueId value, const Shape& shape) {
  if (build.shape(value) == shape) return value;
  return build.add("Reshape", {value}, {{"shape", std::vector<Dim>(shape)}, {"allowzero", int64_t{1}}});
}

// Checks decay or beta, which only some update rules have: [batch, positions, one of `sizes`].
void check_rates(InferContext& context, int input, const char* what, bool wanted,
                 const std::vector<Dim>& sizes) {
  const std::string rule = string_attribute(context.node(), "update_rule");
  if (context.has_input(input) != wanted)
    context.error("update_rule ", rule, wanted ? " needs " : " has no ", what);
  if (!wanted) return;
  const Shape& query = context.shape(kQuery);
  const Shape& given = context.shape(input);
  for (const Dim& size : sizes) {
    if (given.size() == 3 && given[2] == size)
      return need_shape(context, input, {query[0], query[1], size}, what);
  }
  std::string list;
  for (const Dim& size : sizes)
    list += text(list.empty() ? "" : " or ", str(Shape{query[0], query[1], size}));
  context.error(what, " has shape ", str(given), "; ", list, " is needed");
}

void infer_linear_attention(InferContext& context) {
  const Node& node = context.node();
  const States states = states_of(node, context.shape(kQuery), context.shape(kKey), context.shape(kValue));
  if (float_attribute(node, "scale") == 0)
    need_number(context, states.key_size, "the size of a head, which decides the scale,");
  const Dim heads = states.heads;
  need_shape(context, kKey, {states.batch, states.steps, heads * states.key_size}, "the key");
  need_shape(context, kValue, {states.batch, states.steps, heads * states.value_size}, "the value");
  need_shape(context, kPast, states.shape(), "past_state");
  check_rates(context, kDecay, "decay", decays(node), {heads, heads * states.key_size});
  check_rates(context, kBeta, "beta", corrects(node), {heads, Dim(1)});
  const DType type = context.dtype(kQuery);
  context.set_output(0, type, {states.batch, states.steps, heads * Dim(states.groups) * states.value_size});
  context.set_output(1, context.has_input(kPast) ? context.dtype(kPast) : type, states.shape());
}

// The expansion of one node. The state is kept in f32 whatever its type. Each position computes state =
// exp(decay) * state + key x update, where the update is the value or beta * (value - key * state), and then
// result = scale * query * state. A single position needs no loop.
class LinearAttentionBuilder {
 public:
  LinearAttentionBuilder(Graph& graph, const Node& node)
      : node_(node),
        graph_(graph),
        build_(graph, node),
        states_(states_of(node, build_.shape(node.inputs[kQuery]), build_.shape(node.inputs[kKey]),
                          build_.shape(node.inputs[kValue]))) {}

  std::vector<Node> run() {
    // The past state's sizes, which a run checks to be equal, get the names of the states' sizes.
    const ValueId past =
        input_given(node_, kPast)
            ? with_shape(build_, build_.cast(node_.inputs[kPast], DType::F32), states_.shape())
            : zeros();
    Position all = operands();
    Result result = states_.steps == Dim(1) ? one_position(all, past) : all_positions(all, past);
    // [steps, batch, heads, groups, size] to [batch, steps, heads * groups * size].
    const ValueId ordered = build_.add("Transpose", {result.output}, {{"perm", Ints{1, 0, 2, 3, 4}}});
    const Shape flat = {states_.batch, states_.steps,
                        Dim(states_.heads * states_.groups) * states_.value_size};
    if (output_wanted(node_, 0))
      build_.give(0, build_.cast(with_shape(build_, ordered, flat), build_.dtype(node_.inputs[kQuery])));
    if (output_wanted(node_, 1)) build_.give(1, build_.cast(result.state, graph_[node_.outputs[1]].dtype));
    return build_.take();
  }

 private:
  // The operands of one position, or of all positions along an additional axis 0: queries [batch, heads,
  // groups, key_size], keys [batch, heads, key_size, 1], values [batch, heads, 1, value_size], factors of the
  // state [batch, heads, key_size or 1, 1] and beta [batch, heads or 1, 1, 1].
  struct Position {
    ValueId query = kNoValue, key = kNoValue, value = kNoValue, factor = kNoValue, beta = kNoValue;
    std::vector<ValueId*> given() {
      std::vector<ValueId*> all;
      for (ValueId* each : {&query, &key, &value, &factor, &beta}) {
        if (*each != kNoValue) all.push_back(each);
      }
      return all;
    }
  };
  struct Result {
    ValueId output, state;
  };

  ValueId zeros() {
    return build_.add(
        "ConstantOfShape", {},
        {{"shape", std::vector<Dim>(states_.shape())}, {"value", number_tensor(DType::F32, {1}, {0})}});
  }

  // [batch, steps, ...] of an input as f32 with the steps first, and these axes in the place of its last.
  ValueId in_steps(int input, const std::vector<Dim>& axes) {
    ValueId value = build_.cast(node_.inputs[input], DType::F32);
    value = build_.add("Transpose", {value}, {{"perm", Ints{1, 0, 2}}});
    Shape shape = {states_.steps, states_.batch};
    shape.insert(shape.end(), axes.begin(), axes.end());
    return with_shape(build_, value, shape);
  }

  Position operands() {
    const Dim heads = states_.heads;
    Position all;
    double scale = float_attribute(node_, "scale");
    if (scale == 0) {
      scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, states_.key_size.constant())));
    }
    const ValueId query = in_steps(kQuery, {heads, Dim(states_.groups), states_.key_size});
    all.query = build_.add("Mul", {query, build_.number(DType::F32, scale)});
    all.key = in_steps(kKey, {heads, states_.key_size, Dim(1)});
    all.value = in_steps(kValue, {heads, Dim(1), states_.value_size});
    if (decays(node_)) {
      const bool per_head = build_.shape(node_.inputs[kDecay])[2] == heads;
      all.factor =
          build_.add("Exp", {in_steps(kDecay, {heads, per_head ? Dim(1) : states_.key_size, Dim(1)})});
    }
    if (corrects(node_)) all.beta = in_steps(kBeta, {build_.shape(node_.inputs[kBeta])[2], Dim(1), Dim(1)});
    return all;
  }

  // Emits one position's update with `build`.
  static Result step(NodeBuilder& build, const Position& at, ValueId state) {
    if (at.factor != kNoValue) state = build.add("Mul", {state, at.factor});
    ValueId update = at.value;
    if (at.beta != kNoValue) {
      const ValueId row = build.add("Transpose", {at.key}, {{"perm", Ints{0, 1, 3, 2}}});
      update = build.add("Mul", {build.add("Sub", {update, build.add("MatMul", {row, state})}), at.beta});
    }
    state = build.add("Add", {state, build.add("Mul", {at.key, update})});
    return {build.add("MatMul", {at.query, state}), state};
  }

  Result one_position(Position at, ValueId past) {
    for (ValueId* each : at.given()) *each = build_.add("Squeeze", {*each}, {{"axes", Ints{0}}});
    const Result result = step(build_, at, past);
    return {build_.add("Unsqueeze", {result.output}, {{"axes", Ints{0}}}), result.state};
  }

  Result all_positions(Position all, ValueId past) {
    auto body = std::make_shared<Graph>();
    body->name = "position";
    body->symbols = graph_.symbols;
    NodeBuilder inside(*body, node_);
    auto formal = [&](const char* name, const Shape& shape) {
      body->inputs.push_back(body->add_value(name, DType::F32, shape));
      return body->inputs.back();
    };
    const ValueId state = formal("state", states_.shape());
    Position at = all;
    std::vector<ValueId> inputs = {past};
    const char* names[] = {"query", "key", "value", "rate", "rate"};
    size_t count = 0;
    for (ValueId* each : at.given()) {
      const Shape& shape = build_.shape(*each);
      inputs.push_back(*each);
      *each = formal(text(names[count], count).c_str(), Shape(shape.begin() + 1, shape.end()));
      ++count;
    }
    const Result result = step(inside, at, state);
    body->outputs = {result.state, result.output};
    body->nodes = inside.take();
    const std::vector<ValueId> outputs = build_.add_many(
        "Scan", inputs, 2, {{"body", GraphPtr(body)}, {"num_scan_inputs", static_cast<int64_t>(count)}});
    return {outputs[1], outputs[0]};
  }

  const Node& node_;
  Graph& graph_;
  NodeBuilder build_;
  States states_;
};

// --- CausalConvWithState ---------------------------------------------------------------------------

// Inputs: input [batch, channels, length], weight [channels, 1, k], bias, past_state [batch, channels, k -
// 1].
int64_t taps_of(const Node& node, const Shape& weight) {
  if (weight.size() != 3 || weight[2].constant() < 1) {
    fail(ErrorKind::Shape, node.origin.str(), ": the weight has shape ", str(weight),
         "; [channels, 1, taps] is needed");
  }
  return weight[2].constant();
}

void infer_causal_convolution(InferContext& context) {
  if (const Shape& weight = context.shape(1); weight.size() == 3) {
    need_number(context, weight[0], "the number of channels");
    need_number(context, weight[2], "the number of taps");
    need_equal(context, weight[1], Dim(1),
               text("the weight has shape ", str(weight), "; [channels, 1, taps] is needed"));
  }
  const int64_t taps = taps_of(context.node(), context.shape(1));
  const Dim channels = context.shape(1)[0];
  const Shape input = context.shape(0);
  if (input.size() != 3)
    context.error("the input has shape ", str(input), "; [batch, channels, length] is needed");
  need_shape(context, 0, {input[0], channels, input[2]}, "the input");
  need_shape(context, 2, {channels}, "the bias");
  const Shape state = {input[0], channels, Dim(taps - 1)};
  need_shape(context, 3, state, "past_state");
  context.set_output(0, context.dtype(0), {input[0], channels, input[2]});
  context.set_output(1, context.dtype(0), state);
}

// A depthwise convolution of the past state followed by the input; the end of that sequence is the next
// state.
std::vector<Node> expand_causal_convolution(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const int64_t taps = taps_of(node, build.shape(node.inputs[1])),
                channels = build.shape(node.inputs[1])[0].constant();
  const Dim length = build.shape(node.inputs[0])[2];
  ValueId padded = node.inputs[0];
  const bool continues = input_given(node, 3) && taps > 1;
  if (continues) {
    const ValueId past =
        with_shape(build, node.inputs[3], {build.shape(padded)[0], Dim(channels), Dim(taps - 1)});
    padded = build.add("Concat", {past, padded}, {{"axis", int64_t{2}}});
  }
  // Leading zeros are the convolution's own padding; only the next state needs them in memory.
  std::vector<ValueId> operands = {padded, node.inputs[1]};
  if (input_given(node, 2)) operands.push_back(node.inputs[2]);
  const Ints pads = {continues ? 0 : taps - 1, 0};
  ValueId result = build.add("Conv", operands, {{"group", channels}, {"pads", pads}});
  if (string_attribute(node, "activation") != "none") result = build.add("Swish", {result});
  build.give(0, result);
  if (!output_wanted(node, 1)) return build.take();
  if (!continues) padded = build.add("Pad", {padded}, {{"pads", Ints{0, 0, taps - 1, 0, 0, 0}}});
  build.give(1, build.add("Slice", {padded},
                          {{"starts", std::vector<Dim>{length}},
                           {"ends", std::vector<Dim>{length + Dim(taps - 1)}},
                           {"axes", Ints{2}}}));
  return build.take();
}

}  // namespace

void register_linear_attention_ops(OpTable& table) {
  OpRow linear = onnx_row(
      "attention", {"LinearAttention", 27},
      "Attention by a state that each position updates: `update_rule` is linear, gated, delta or gated_delta.",
      {3, 6},
      {{"q_num_heads", int64_t{0}, true, "", positive()},
       {"kv_num_heads", int64_t{0}, true, "", positive()},
       {"scale", 0.0},
       {"update_rule", std::string("gated_delta"), false, "",
        one_of({"linear", "gated", "delta", "gated_delta"})},
       {"chunk_size", int64_t{64}, false, "a hint"}});
  linear.kind = OpRow::Kind::Expand;
  linear.outputs = 2;
  linear.types = {{kFloats, {kQuery, kKey, kValue, kDecay, kBeta}}, {kFloats, {kPast}}};
  linear.infer = infer_linear_attention;
  linear.expand = [](Graph& graph, const Node& node) { return LinearAttentionBuilder(graph, node).run(); };
  table.add(std::move(linear));

  OpRow causal =
      onnx_row("convolution", {"CausalConvWithState", 27},
               "Depthwise convolution along a sequence that goes on behind the state of a call before.",
               {2, 4}, {{"activation", std::string("none"), false, "", one_of({"none", "silu", "swish"})}});
  causal.kind = OpRow::Kind::Expand;
  causal.outputs = 2;
  causal.types = {{kFloats}};
  causal.infer = infer_causal_convolution;
  causal.expand = expand_causal_convolution;
  table.add(std::move(causal));
}

}  // namespace tc
