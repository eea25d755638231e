// Random numbers that depend only on a seed and a position: element i of a tensor comes from the i-th output
// of SplitMix64 started at the seed, so every run, machine and number of threads gives the same.
#include <cmath>
#include <cstring>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

// Sets the seed of a node's stream: the given seed (if it is a fraction, its bits), or a hash of the node's
// name (FNV-1a), so that nodes without a seed differ.
void settle_seed(Node& node) {
  auto found = node.attributes.find("seed");
  if (found == node.attributes.end()) {
    uint64_t hash = 0xcbf29ce484222325;
    for (char c : node.origin.node) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    node.attributes["seed"] = static_cast<int64_t>(hash);
    return;
  }
  const double* seed = std::get_if<double>(&found->second);
  if (!seed) return;
  int64_t bits = 0;
  if (std::floor(*seed) == *seed && std::abs(*seed) < 0x1p62) bits = static_cast<int64_t>(*seed);
  else std::memcpy(&bits, seed, sizeof bits);
  found->second = bits;
}

// The `stream`-th of `streams` numbers of an element, with 64 random bits.
ExprPtr random_bits(const ExprPtr& element, uint64_t seed, uint64_t stream, uint64_t streams) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  auto number = [](uint64_t value) { return int_constant(DType::U64, static_cast<int64_t>(value)); };
  ExprPtr z = binary(BinaryOp::Mul, cast(DType::U64, element), number(kStep * streams));
  z = binary(BinaryOp::Add, z, number(seed + kStep * (stream + 1)));
  auto mix = [&](uint64_t shift) {
    return binary(BinaryOp::Xor, z, binary(BinaryOp::Shr, z, number(shift)));
  };
  z = binary(BinaryOp::Mul, mix(30), number(0xbf58476d1ce4e5b9));
  z = binary(BinaryOp::Mul, mix(27), number(0x94d049bb133111eb));
  return mix(31);
}

// A number in [0, 1) from as many of the bits as the type's significand holds.
ExprPtr fraction(const ExprPtr& bits, DType type) {
  const int64_t kept = type == DType::F64 ? 53 : 24;
  ExprPtr whole = cast(DType::I64, binary(BinaryOp::Shr, bits, int_constant(DType::U64, 64 - kept)));
  return binary(BinaryOp::Mul, cast(type, whole), constant(type, std::ldexp(1.0, static_cast<int>(-kept))));
}

// Adds the statement that fills output 0; `make` computes an element from its number.
void lower_random(LowerContext& context,
                  const std::function<ExprPtr(const ExprPtr&, uint64_t, DType)>& make) {
  const Shape& shape = *context.output_value(0).shape;
  auto space = context.space("i", shape);
  ExprPtr element = int_constant(DType::I64, 0);
  for (size_t i = 0; i < shape.size(); ++i) {
    element = binary(BinaryOp::Add, binary(BinaryOp::Mul, element, index_value(context.dim(shape[i]))),
                     index_value(space.position[i]));
  }
  const DType type = LowerContext::compute_type(context.output_value(0).dtype);
  const uint64_t seed = static_cast<uint64_t>(int_attribute(context.node(), "seed"));
  context.assign("draw", space.iterators, context.output(0), space.position, make(element, seed, type));
}

void lower_uniform(LowerContext& context) {
  const double low = float_attribute(context.node(), "low"), high = float_attribute(context.node(), "high");
  lower_random(context, [&](const ExprPtr& element, uint64_t seed, DType type) {
    ExprPtr unit = fraction(random_bits(element, seed, 0, 1), type);
    return binary(BinaryOp::Add, binary(BinaryOp::Mul, unit, constant(type, high - low)),
                  constant(type, low));
  });
}

// Box and Muller's transform of two uniform numbers.
void lower_normal(LowerContext& context) {
  const double mean = float_attribute(context.node(), "mean"),
               scale = float_attribute(context.node(), "scale");
  lower_random(context, [&](const ExprPtr& element, uint64_t seed, DType type) {
    // 1 - u is positive, so its logarithm is finite.
    ExprPtr length =
        binary(BinaryOp::Sub, constant(type, 1), fraction(random_bits(element, seed, 0, 2), type));
    length = unary(UnaryOp::Sqrt, binary(BinaryOp::Mul, unary(UnaryOp::Log, length), constant(type, -2)));
    ExprPtr angle =
        binary(BinaryOp::Mul, fraction(random_bits(element, seed, 1, 2), type), constant(type, 2 * M_PI));
    ExprPtr value = binary(BinaryOp::Mul, length, unary(UnaryOp::Cos, angle));
    return binary(BinaryOp::Add, binary(BinaryOp::Mul, value, constant(type, scale)), constant(type, mean));
  });
}

void infer_random(InferContext& context) {
  const DType type = dtype_from_name(string_attribute(context.node(), "dtype"));
  if (!is_float(type)) context.error("dtype is ", name_of(type), "; a float type is needed");
  context.set_output(0, type, dims_attribute(context.node(), "shape"));
}

// The form with an operand takes the operand's shape, and its type if none is given.
Normalize random_form(bool like) {
  return [like](Graph& graph, Node& node) {
    settle_seed(node);
    dtype_attribute("dtype")(graph, node);
    if (!like) return;
    if (node.inputs.size() != 1 || node.inputs[0] == kNoValue) {
      fail(ErrorKind::Model, node.origin.str(), " has ", node.inputs.size(), " inputs; it takes 1");
    }
    const Value& input = graph[node.inputs[0]];
    node.attributes["shape"] = std::vector<Dim>(input.shape.value());
    node.attributes.emplace("dtype", std::string(name_of(input.dtype)));
    node.inputs.clear();
  };
}

OpRow random_row(const std::string& name, const std::string& doc, std::vector<AttributeRow> attributes,
                 void (*lower)(LowerContext&)) {
  OpRow row;
  row.name = name;
  row.category = "random";
  row.doc = doc;
  row.onnx = {{name, 1, random_form(false)}, {name + "Like", 1, random_form(true)}};
  row.minimum_inputs = row.maximum_inputs = 0;
  row.attributes = {
      {"dtype", std::string("f32")}, {"seed", int64_t{0}}, {"shape", std::vector<int64_t>(), true}};
  row.attributes.insert(row.attributes.end(), attributes.begin(), attributes.end());
  row.infer = infer_random;
  row.lower = lower;
  return row;
}

// Uniform numbers in [0, 1) with the seed of `node`.
ValueId uniform(NodeBuilder& build, const Node& node, DType type, const Shape& shape) {
  return build.add(
      "RandomUniform", {},
      {{"dtype", std::string(name_of(type))}, {"shape", shape}, {"seed", int_attribute(node, "seed")}});
}

Normalize seeded(const std::string& dtype) {
  return [dtype](Graph& graph, Node& node) {
    settle_seed(node);
    dtype_attribute(dtype)(graph, node);
  };
}

// --- draws ------------------------------------------------------------------------------------------

OpRow bernoulli_row() {
  OpRow row;
  row.name = "Bernoulli";
  row.kind = OpRow::Kind::Expand;
  row.category = "random";
  row.doc = "1 with the probability that the element says, else 0.";
  row.onnx = {{"Bernoulli", 15, seeded("dtype")}};
  row.attributes = {{"dtype", std::string()}, {"seed", int64_t{0}}};
  row.infer = [](InferContext& context) {
    require_float(context);
    const std::string type = string_attribute(context.node(), "dtype");
    context.set_output(0, type.empty() ? context.dtype(0) : dtype_from_name(type), context.shape(0));
  };
  row.expand = [](Graph& graph, const Node& node) {
    NodeBuilder build(graph, node);
    const ValueId odds = node.inputs[0];
    const DType type = build.dtype(odds) == DType::F64 ? DType::F64 : DType::F32;
    const ValueId one =
        build.add("Less", {uniform(build, node, type, build.shape(odds)), build.cast(odds, type)});
    const std::string to = string_attribute(node, "dtype");
    build.give(0, build.cast(one, to.empty() ? build.dtype(odds) : dtype_from_name(to)));
    return build.take();
  };
  return row;
}

void infer_multinomial(InferContext& context) {
  require_float(context);
  const DType type = dtype_from_name(string_attribute(context.node(), "dtype"));
  if (type != DType::I32 && type != DType::I64)
    context.error("dtype is ", name_of(type), "; i32 or i64 is needed");
  const Shape& shape = context.shape(0);
  if (shape.size() != 2 || shape[1] == Dim(0))
    context.error("the input has shape ", str(shape), "; [batch, classes] is needed");
  context.set_output(0, type, {shape[0], Dim(int_attribute(context.node(), "sample_size"))});
}

// Draws the class whose interval of the running sum of probabilities contains a uniform number.
std::vector<Node> expand_multinomial(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Shape shape = build.shape(node.inputs[0]);
  const DType type = build.dtype(node.inputs[0]) == DType::F64 ? DType::F64 : DType::F32;
  auto part = [&](ValueId value, const Dim& first, const Dim& end) {
    return build.add("Slice", {value},
                     {{"starts", std::vector<Dim>{first}},
                      {"ends", std::vector<Dim>{end}},
                      {"axes", std::vector<int64_t>{1}}});
  };
  auto unsqueeze = [&](ValueId value, int64_t axis) {
    return build.add("Unsqueeze", {value}, {{"axes", std::vector<int64_t>{axis}}});
  };
  const ValueId odds = build.add("Softmax", {build.cast(node.inputs[0], type)}, {{"axis", int64_t{1}}});
  const ValueId sums = build.add("CumSum", {odds}, {{"axis", int64_t{1}}});
  const ValueId drawn = uniform(build, node, type, {shape[0], Dim(int_attribute(node, "sample_size"))});
  const ValueId at = build.add("Mul", {drawn, part(sums, shape[1] - Dim(1), shape[1])});
  // The number of classes whose intervals end at or before it; the last class's interval has no end.
  const ValueId behind =
      build.add("LessOrEqual", {unsqueeze(part(sums, 0, shape[1] - Dim(1)), 1), unsqueeze(at, 2)});
  const ValueId count = build.add("ReduceSum", {build.cast(behind, DType::I32)},
                                  {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}});
  build.give(0, build.cast(count, dtype_from_name(string_attribute(node, "dtype"))));
  return build.take();
}

OpRow multinomial_row() {
  OpRow row;
  row.name = "Multinomial";
  row.kind = OpRow::Kind::Expand;
  row.category = "random";
  row.doc = "Classes drawn by unnormalised logarithms of their probabilities.";
  row.onnx = {{"Multinomial", 7, seeded("dtype")}};
  row.attributes = {{"dtype", std::string("i32")}, {"sample_size", int64_t{1}}, {"seed", int64_t{0}}};
  row.infer = infer_multinomial;
  row.expand = expand_multinomial;
  return row;
}

// --- Dropout ----------------------------------------------------------------------------------------

// Where training is known to be off, the other operands do not matter.
void dropout_form(Graph& graph, Node& node) {
  settle_seed(node);
  const TensorPtr training = input_given(node, 2) ? graph[node.inputs[2]].constant : nullptr;
  const bool off = !input_given(node, 2) || (training && training->count() == 1 && training->as_int(0) == 0);
  if (off && node.inputs.size() > 1) node.inputs.resize(1);
}

// Older forms are read as inference, whether or not the exporter says so.
void old_dropout(Graph&, Node& node) {
  for (const char* name : {"is_test", "consumed_inputs", "ratio", "seed"}) node.attributes.erase(name);
}

void infer_dropout(InferContext& context) {
  infer_same(context);
  context.set_output(1, DType::Bool, context.shape(0));
  for (int i : {1, 2}) {
    if (!context.has_input(i)) continue;
    const std::string unfit = text("input ", i, " is ", name_of(context.dtype(i)), str(context.shape(i)),
                                   "; one ", i == 1 ? "float" : "bool", " is needed");
    if (i == 1 ? !is_float(context.dtype(i)) : context.dtype(i) != DType::Bool) context.error(unfit);
    for (const Dim& size : context.shape(i)) need_equal(context, size, Dim(1), unfit);
  }
  if (context.has_input(2) && !is_float(context.dtype(0)))
    context.error("input 0 has type ", name_of(context.dtype(0)), "; a float type is needed");
}

std::vector<Node> expand_dropout(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId x = node.inputs[0];
  const Shape shape = build.shape(x);
  if (!input_given(node, 2)) {
    build.give(0, x);
    if (output_wanted(node, 1))
      build.give(1, build.add("Expand", {build.integer(DType::Bool, 1)}, {{"shape", shape}}));
    return build.take();
  }
  const DType type = build.dtype(x) == DType::F64 ? DType::F64 : DType::F32;
  auto scalar = [&](ValueId value) { return build.add("Reshape", {value}, {{"shape", Shape{}}}); };
  const ValueId training = scalar(node.inputs[2]);
  const ValueId ratio =
      input_given(node, 1) ? build.cast(scalar(node.inputs[1]), type) : build.number(type, 0.5);
  const ValueId drawn = build.add("GreaterOrEqual", {uniform(build, node, type, shape), ratio});
  const ValueId kept = build.add("Or", {drawn, build.add("Not", {training})});
  const ValueId divisor =
      build.add("Where", {training, build.add("Sub", {build.number(type, 1), ratio}), build.number(type, 1)});
  const ValueId scaled = build.add("Div", {build.cast(x, type), divisor});
  build.give(0, build.cast(build.add("Where", {kept, scaled, build.number(type, 0)}), build.dtype(x)));
  build.give(1, kept);
  return build.take();
}

OpRow dropout_row() {
  OpRow row;
  row.name = "Dropout";
  row.kind = OpRow::Kind::Expand;
  row.category = "random";
  row.doc = "The operand and a mask of true; in training elements become 0 at random, the others larger.";
  row.minimum_inputs = 1;
  row.maximum_inputs = 3;
  row.outputs = 2;
  row.onnx = {{"Dropout", 1, old_dropout}, {"Dropout", 12, dropout_form}};
  row.attributes = {{"seed", int64_t{0}}};
  row.infer = infer_dropout;
  row.expand = expand_dropout;
  return row;
}

}  // namespace

void register_random_ops(OpTable& table) {
  table.add(random_row("RandomUniform", "Numbers spread evenly from `low` to below `high`.",
                       {{"low", 0.0}, {"high", 1.0}}, lower_uniform));
  table.add(random_row("RandomNormal",
                       "Numbers of the normal distribution of a mean and a standard deviation `scale`.",
                       {{"mean", 0.0}, {"scale", 1.0}}, lower_normal));
  table.add(bernoulli_row());
  table.add(multinomial_row());
  table.add(dropout_row());
}

}  // namespace tc
