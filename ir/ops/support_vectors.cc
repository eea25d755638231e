// Support vector machines: ai.onnx.ml's SVMRegressor and SVMClassifier.
#include <algorithm>
#include <memory>
#include <numeric>

#include "ir/ops/classifier.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

const std::vector<std::string> kKernels = {"LINEAR", "POLY", "RBF", "SIGMOID"};
constexpr int64_t kMaxNumbers = int64_t{1} << 28;  // in a table that is computed while compiling
constexpr int64_t kMaxCoupledClasses = 128;        // whose probabilities are computed from those of pairs

std::vector<double> floats_or_none(const Node& node, const std::string& name) {
  return has_attribute(node, name) ? floats_attribute(node, name) : std::vector<double>();
}

[[noreturn]] void bad_attribute(const Node& node, const char* name, size_t count, const std::string& needed) {
  fail(ErrorKind::Model, node.origin.str(), ": attribute '", name, "' has ", count, " numbers; ", needed);
}

// --- the kernel of samples and vectors ---------------------------------------------------------------

struct Kernel {
  std::string type;
  double gamma = 0, offset = 0, degree = 0;
};

Kernel kernel_of(const Node& node) {
  Kernel kernel{string_attribute(node, "kernel_type")};
  const std::vector<double> numbers = floats_or_none(node, "kernel_params");
  if (numbers.empty()) return kernel;
  if (numbers.size() != 3)
    bad_attribute(node, "kernel_params", numbers.size(), "gamma, coef0 and degree are needed");
  kernel.gamma = numbers[0];
  kernel.offset = numbers[1];
  kernel.degree = numbers[2];
  return kernel;
}

// The kernel function of each sample [samples, features] with each of `count` vectors: [samples, count].
ValueId kernels(NodeBuilder& build, const Kernel& kernel, ValueId samples, const std::vector<double>& vectors,
                int64_t count) {
  const auto features = static_cast<int64_t>(vectors.size()) / count;
  const auto number = [&](double value) { return build.number(DType::F32, value); };
  if (kernel.type == "RBF") {
    // Computed from differences, because distances are small compared with the vectors' lengths.
    const ValueId apart =
        build.add("Sub", {build.add("Unsqueeze", {samples}, {{"axes", std::vector<int64_t>{1}}}),
                          build.constant(number_tensor(DType::F32, {1, count, features}, vectors))});
    const ValueId distance =
        build.add("ReduceSumSquare", {apart}, {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}});
    return build.add("Exp", {build.add("Mul", {distance, number(-kernel.gamma)})});
  }
  const ValueId product =
      build.add("Gemm", {samples, build.constant(number_tensor(DType::F32, {count, features}, vectors))},
                {{"transB", int64_t{1}}});
  if (kernel.type == "LINEAR") return product;
  const ValueId line =
      build.add("Add", {build.add("Mul", {product, number(kernel.gamma)}), number(kernel.offset)});
  return kernel.type == "POLY" ? build.add("Pow", {line, number(kernel.degree)}) : build.add("Tanh", {line});
}

void check_features(InferContext& context, size_t numbers, int64_t rows) {
  if (rows < 1 || numbers % static_cast<size_t>(rows) != 0) {
    context.fail_at(ErrorKind::Model,
                    text("has ", numbers, " numbers, which ", rows, " vectors do not divide"));
  }
  const int64_t features = static_cast<int64_t>(numbers) / rows;
  const std::string unfit =
      text("the samples have shape ", str(context.shape(0)), "; [samples, ", features, "] is needed");
  if (context.rank(0) != 2) context.error(unfit);
  need_equal(context, context.shape(0)[1], Dim(features), unfit);
}

// --- regression --------------------------------------------------------------------------------------

void infer_regressor(InferContext& context) {
  const Node& node = context.node();
  const std::vector<double> coefficients = floats_attribute(node, "coefficients"),
                            vectors = floats_or_none(node, "support_vectors");
  const int64_t count = int_attribute(node, "n_supports");
  if (floats_or_none(node, "rho").empty()) bad_attribute(node, "rho", 0, "one is needed");
  if (count > 0 && static_cast<int64_t>(coefficients.size()) != count) {
    bad_attribute(node, "coefficients", coefficients.size(),
                  text("one for each of ", count, " support vectors is needed"));
  }
  check_features(context, count > 0 ? vectors.size() : coefficients.size(), std::max<int64_t>(count, 1));
  context.set_output(0, DType::F32, {context.shape(0)[0], Dim(1)});
}

std::vector<Node> expand_regressor(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId samples = build.cast(node.inputs[0], DType::F32);
  const std::vector<double> coefficients = floats_attribute(node, "coefficients");
  const int64_t count = int_attribute(node, "n_supports");
  const ValueId read =
      count > 0 ? kernels(build, kernel_of(node), samples, floats_attribute(node, "support_vectors"), count)
                : samples;
  const ValueId weights =
      build.constant(number_tensor(DType::F32, {static_cast<int64_t>(coefficients.size()), 1}, coefficients));
  ValueId score = build.add(
      "Gemm",
      {read, weights, build.constant(number_tensor(DType::F32, {1}, {floats_attribute(node, "rho")[0]}))});
  if (int_attribute(node, "one_class") != 0) {
    score = build.add("Where", {build.add("Greater", {score, build.number(DType::F32, 0)}),
                                build.number(DType::F32, 1), build.number(DType::F32, -1)});
    build.give(0, score);
    return build.take();
  }
  build.give(0, post_transformed(build, score, string_attribute(node, "post_transform")));
  return build.take();
}

// --- classification ----------------------------------------------------------------------------------

// One score for each pair of classes or, without support vectors, for each class.
struct Machine {
  int64_t classes = 0, vectors = 0;
  std::vector<int64_t> begins;  // index of each class's first vector, and the end
  std::vector<double> coefficients, rho, prob_a, prob_b;

  int64_t pairs() const { return classes * (classes - 1) / 2; }
  int64_t scores() const { return vectors == 0 ? classes : pairs(); }
  bool coupled() const { return vectors > 0 && !prob_a.empty(); }
  bool all_positive() const {
    return std::all_of(coefficients.begin(), coefficients.end(), [](double each) { return each >= 0; });
  }
};

Machine machine_of(const Node& node) {
  Machine machine{static_cast<int64_t>(class_labels(node).size()),
                  0,
                  {0},
                  floats_attribute(node, "coefficients"),
                  floats_or_none(node, "rho"),
                  floats_or_none(node, "prob_a"),
                  floats_or_none(node, "prob_b")};
  const std::vector<int64_t> counts = has_attribute(node, "vectors_per_class")
                                          ? ints_attribute(node, "vectors_per_class")
                                          : std::vector<int64_t>();
  for (int64_t count : counts) {
    if (count < 0 || count > kMaxNumbers)
      fail(ErrorKind::Model, node.origin.str(), ": attribute 'vectors_per_class' has the number ", count);
    machine.vectors += count;
    machine.begins.push_back(machine.vectors);
  }
  if (machine.classes < 2)
    fail(ErrorKind::Unsupported, node.origin.str(), ": there is ", machine.classes,
         " label; at least 2 are supported");
  if (machine.vectors == 0) {
    if (machine.rho.empty()) bad_attribute(node, "rho", 0, "one is needed");
    return machine;
  }
  if (static_cast<int64_t>(counts.size()) != machine.classes) {
    bad_attribute(node, "vectors_per_class", counts.size(),
                  text("one for each of ", machine.classes, " labels is needed"));
  }
  if (machine.vectors > kMaxNumbers || machine.classes > 1 << 14 ||
      machine.vectors * machine.pairs() > kMaxNumbers) {
    fail(ErrorKind::Unsupported, node.origin.str(), ": ", machine.vectors, " support vectors of ",
         machine.classes, " classes are over the limit of ", kMaxNumbers, " numbers");
  }
  if (static_cast<int64_t>(machine.coefficients.size()) != machine.vectors * (machine.classes - 1)) {
    bad_attribute(node, "coefficients", machine.coefficients.size(),
                  text(machine.classes - 1, " for each of ", machine.vectors, " support vectors are needed"));
  }
  const auto needs_pairs = [&](const char* name, const std::vector<double>& numbers) {
    if (static_cast<int64_t>(numbers.size()) != machine.pairs())
      bad_attribute(node, name, numbers.size(),
                    text("one for each of ", machine.pairs(), " pairs of classes is needed"));
  };
  needs_pairs("rho", machine.rho);
  if (machine.coupled()) {
    needs_pairs("prob_a", machine.prob_a);
    needs_pairs("prob_b", machine.prob_b);
    if (machine.classes > kMaxCoupledClasses) {
      fail(ErrorKind::Unsupported, node.origin.str(), ": probabilities of ", machine.classes,
           " classes are over the limit of ", kMaxCoupledClasses);
    }
  }
  return machine;
}

int64_t score_columns(const Machine& machine) {
  return machine.coupled() || machine.scores() == 1 ? machine.classes : machine.scores();
}

void infer_classifier(InferContext& context) {
  const Node& node = context.node();
  const Machine machine = machine_of(node);
  if (machine.vectors > 0)
    check_features(context, floats_or_none(node, "support_vectors").size(), machine.vectors);
  else check_features(context, machine.coefficients.size(), machine.classes);
  const Dim samples = context.shape(0)[0];
  context.set_output(0, DType::I64, {samples});
  context.set_output(1, DType::F32, {samples, Dim(score_columns(machine))});
}

// A table [rows, pairs] with a column for each pair of classes i < j, which `fill` fills; rows are classes or
// vectors.
template <class Fill>
TensorPtr pair_table(const Machine& machine, int64_t rows, Fill fill) {
  const int64_t pairs = machine.pairs();
  std::vector<double> table(static_cast<size_t>(rows * pairs));
  int64_t pair = 0;
  for (int64_t i = 0; i < machine.classes; ++i) {
    for (int64_t j = i + 1; j < machine.classes; ++j, ++pair) {
      fill(i, j, [&](int64_t row, double value) { table[static_cast<size_t>(row * pairs + pair)] = value; });
    }
  }
  return number_tensor(DType::F32, {rows, pairs}, table);
}

// The score of each pair; if it is over 0, the pair's first class wins.
ValueId pair_scores(NodeBuilder& build, const Node& node, const Machine& machine, ValueId samples) {
  const ValueId values =
      kernels(build, kernel_of(node), samples, floats_attribute(node, "support_vectors"), machine.vectors);
  const TensorPtr weights = pair_table(machine, machine.vectors, [&](int64_t i, int64_t j, const auto& set) {
    const auto row_of = [&](int64_t other, int64_t vector) {
      return machine.coefficients[static_cast<size_t>(other * machine.vectors + vector)];
    };
    for (int64_t v = machine.begins[static_cast<size_t>(i)]; v < machine.begins[static_cast<size_t>(i) + 1];
         ++v)
      set(v, row_of(j - 1, v));
    for (int64_t v = machine.begins[static_cast<size_t>(j)]; v < machine.begins[static_cast<size_t>(j) + 1];
         ++v)
      set(v, row_of(i, v));
  });
  return build.add("Gemm", {values, build.constant(weights),
                            build.constant(number_tensor(DType::F32, {machine.pairs()}, machine.rho))});
}

// In how many pairs each class wins: [samples, classes].
ValueId votes_of(NodeBuilder& build, const Machine& machine, ValueId scores) {
  const ValueId first = build.cast(build.add("Greater", {scores, build.number(DType::F32, 0)}), DType::F32);
  std::vector<double> against(static_cast<size_t>(machine.classes));
  for (int64_t j = 0; j < machine.classes; ++j) against[static_cast<size_t>(j)] = static_cast<double>(j);
  const TensorPtr gain = pair_table(machine, machine.classes, [](int64_t i, int64_t j, const auto& set) {
    set(i, 1);
    set(j, -1);
  });
  return build.add(
      "Gemm",
      {first, build.constant(gain), build.constant(number_tensor(DType::F32, {machine.classes}, against))},
      {{"transB", int64_t{1}}});
}

// --- probabilities of classes from those of pairs: Wu, Lin and Weng's second method, as in libsvm ---

ValueId column(NodeBuilder& build, ValueId value, int64_t axis, int64_t place) {
  return build.add("Slice", {value},
                   {{"starts", std::vector<int64_t>{place}},
                    {"ends", std::vector<int64_t>{place + 1}},
                    {"axes", std::vector<int64_t>{axis}}});
}

// The matrices [samples, classes, classes] whose quadratic forms the probabilities minimise.
ValueId coupling(NodeBuilder& build, const Machine& machine, ValueId scores) {
  const int64_t classes = machine.classes, pairs = machine.pairs();
  const auto numbers = [&](const std::vector<double>& values) {
    return build.constant(number_tensor(DType::F32, {pairs}, values));
  };
  const ValueId line =
      build.add("Add", {build.add("Mul", {scores, numbers(machine.prob_a)}), numbers(machine.prob_b)});
  const ValueId one = build.number(DType::F32, 1);
  const ValueId sure =
      build.add("Clip", {build.add("Sub", {one, build.add("Sigmoid", {line})}),
                         build.number(DType::F32, 1e-7), build.number(DType::F32, 1 - 1e-7)});
  // Concatenates the pairs' probabilities, those of the opposite results, and zeros for the diagonal;
  // `places` [classes, classes] are indices into that.
  const ValueId none = build.add("Mul", {column(build, sure, 1, 0), build.number(DType::F32, 0)});
  const ValueId all =
      build.add("Concat", {sure, build.add("Sub", {one, sure}), none}, {{"axis", int64_t{1}}});
  std::vector<int64_t> places(static_cast<size_t>(classes * classes), 2 * pairs), transposed = places;
  std::vector<double> diagonal(places.size());
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i) {
    diagonal[static_cast<size_t>(i * classes + i)] = 1;
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      places[static_cast<size_t>(i * classes + j)] = transposed[static_cast<size_t>(j * classes + i)] = pair;
      places[static_cast<size_t>(j * classes + i)] = transposed[static_cast<size_t>(i * classes + j)] =
          pairs + pair;
    }
  }
  const auto matrix = [&](const std::vector<int64_t>& from) {
    return build.add("Gather", {all, build.constant(int_tensor({classes, classes}, from))},
                     {{"axis", int64_t{1}}});
  };
  const ValueId wins = matrix(places), losses = matrix(transposed);
  const ValueId own =
      build.add("ReduceSumSquare", {wins}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
  const ValueId squares =
      build.add("Mul", {own, build.constant(number_tensor(DType::F32, {classes, classes}, diagonal))});
  return build.add("Sub", {squares, build.add("Mul", {wins, losses})});
}

// One iteration over the classes for samples [samples, classes] that have not converged.
GraphPtr coupling_round(const Graph& outer, const Node& node, const Dim& samples, int64_t classes) {
  auto body = std::make_shared<Graph>();
  body->name = "coupling";
  body->symbols = outer.symbols;
  const auto formal = [&](const char* name, const Shape& shape, DType type) {
    body->inputs.push_back(body->add_value(name, type, shape));
    return body->inputs.back();
  };
  const ValueId form = formal("form", {samples, Dim(classes), Dim(classes)}, DType::F32);
  const ValueId before = formal("shares", {samples, Dim(classes)}, DType::F32);
  formal("step", {}, DType::F32);
  NodeBuilder build(*body, node);
  const ValueId one = build.number(DType::F32, 1);
  const auto add = [&](const char* op, ValueId a, ValueId b) { return build.add(op, {a, b}); };
  ValueId slope = build.add(
      "ReduceSum", {add("Mul", form, build.add("Unsqueeze", {before}, {{"axes", std::vector<int64_t>{1}}}))},
      {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}});
  ValueId value = build.add("ReduceSum", {add("Mul", before, slope)},
                            {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
  const ValueId error = build.add("ReduceMax", {build.add("Abs", {add("Sub", slope, value)})},
                                  {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
  const ValueId done = add("Less", error, build.number(DType::F32, 0.005 / static_cast<double>(classes)));
  ValueId shares = before;
  for (int64_t t = 0; t < classes; ++t) {
    const ValueId row =
        build.add("Squeeze", {column(build, form, 1, t)}, {{"axes", std::vector<int64_t>{1}}});
    const ValueId own = column(build, row, 1, t), own_slope = column(build, slope, 1, t);
    const ValueId change = add("Div", add("Sub", value, own_slope), own);
    const ValueId scale = add("Add", one, change);
    std::vector<double> unit(static_cast<size_t>(classes));
    unit[static_cast<size_t>(t)] = 1;
    shares = add(
        "Div",
        add("Add", shares, add("Mul", change, build.constant(number_tensor(DType::F32, {classes}, unit)))),
        scale);
    const ValueId twice = add("Add", add("Mul", change, own), add("Add", own_slope, own_slope));
    value = add("Div", add("Div", add("Add", value, add("Mul", change, twice)), scale), scale);
    slope = add("Div", add("Add", slope, add("Mul", change, row)), scale);
  }
  body->outputs = {build.add("Identity", {form}), build.add("Where", {done, before, shares})};
  body->nodes = build.take();
  return body;
}

ValueId coupled_probabilities(NodeBuilder& build, const Node& node, const Machine& machine, ValueId scores) {
  const Dim samples = build.shape(scores)[0];
  const ValueId form = coupling(build, machine, scores);
  const auto filled = [&](const Shape& shape, double value) {
    return build.add(
        "ConstantOfShape", {},
        {{"shape", std::vector<Dim>(shape)}, {"value", number_tensor(DType::F32, {1}, {value})}});
  };
  const ValueId equal = filled({samples, Dim(machine.classes)}, 1 / static_cast<double>(machine.classes));
  const int64_t rounds = std::max<int64_t>(100, machine.classes);
  return build.add_many("Scan", {form, equal, filled({Dim(rounds)}, 0)}, 2,
                        {{"body", coupling_round(build.graph(), node, samples, machine.classes)},
                         {"num_scan_inputs", int64_t{1}}})[1];
}

std::vector<Node> expand_classifier(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Machine machine = machine_of(node);
  const ValueId samples = build.cast(node.inputs[0], DType::F32);
  const std::string transform = string_attribute(node, "post_transform");
  ValueId scores = kNoValue, ranking = kNoValue;
  if (machine.vectors == 0) {
    const int64_t features = static_cast<int64_t>(machine.coefficients.size()) / machine.classes;
    const ValueId weights =
        build.constant(number_tensor(DType::F32, {machine.classes, features}, machine.coefficients));
    scores = ranking = build.add(
        "Gemm", {samples, weights, build.constant(number_tensor(DType::F32, {1}, {machine.rho[0]}))},
        {{"transB", int64_t{1}}});
  } else {
    scores = pair_scores(build, node, machine, samples);
    ranking = votes_of(build, machine, scores);
  }
  // As ONNX Runtime and the specification's own implementation read it: with two classes and no negative
  // coefficient, the second class is given if the larger score is at least 0.5.
  if (machine.vectors == 0 && machine.rho.size() == 1 && machine.classes == 2 && machine.all_positive()) {
    const ValueId most =
        build.add("ReduceMax", {ranking}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}});
    const ValueId sure = build.add("GreaterOrEqual", {most, build.number(DType::F32, 0.5)});
    ranking = build.add("Where", {sure, build.constant(number_tensor(DType::F32, {1, 2}, {0, 1})), ranking});
  }
  if (machine.coupled()) scores = coupled_probabilities(build, node, machine, scores);
  else if (machine.scores() == 1)
    scores = build.add("Concat", {build.add("Neg", {scores}), scores}, {{"axis", int64_t{1}}});
  give_classes(build, node, ranking, post_transformed(build, scores, transform));
  return build.take();
}

OpRow machine_row(const std::string& name, const std::string& doc, void (*infer)(InferContext&),
                  std::vector<Node> (*expand)(Graph&, const Node&)) {
  const std::vector<double> floats;
  OpRow row = ml_row(name, doc, infer, expand);
  row.types = {{kWideNumbers, {0}}};
  row.attributes = {{"coefficients", floats, true},
                    {"kernel_params", floats},
                    {"kernel_type", std::string("LINEAR"), false, "", one_of(kKernels)},
                    {"post_transform", std::string("NONE"), false, "", one_of(kPostTransforms)},
                    {"rho", floats},
                    {"support_vectors", floats}};
  return row;
}

}  // namespace

void register_support_vector_ops(OpTable& table) {
  OpRow regressor =
      machine_row("SVMRegressor", "A weighted sum of the kernels of a sample and each support vector.",
                  infer_regressor, expand_regressor);
  regressor.attributes.push_back({"n_supports", int64_t{0}, false, "", from_to(0, kMaxNumbers)});
  regressor.attributes.push_back({"one_class", int64_t{0}});
  table.add(std::move(regressor));

  OpRow classifier = machine_row(
      "SVMClassifier",
      "The class that wins most pairs by support vectors, and the pairs' scores or the classes' probabilities.",
      infer_classifier, expand_classifier);
  classifier.outputs = 2;
  classifier.attributes.push_back({"prob_a", std::vector<double>()});
  classifier.attributes.push_back({"prob_b", std::vector<double>()});
  classifier.attributes.push_back({"vectors_per_class", std::vector<int64_t>()});
  add_label_attributes(classifier);
  table.add(std::move(classifier));
}

}  // namespace tc
