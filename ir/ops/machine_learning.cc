// Operators of the domain ai.onnx.ml, which exporters of scikit-learn write; trees, support vectors and
// labels are in files of their own.
#include <algorithm>
#include <cmath>

#include "ir/ops/classifier.h"
#include "ir/ops/sizes.h"

namespace tc {

OpRow ml_row(const std::string& name, const std::string& doc, void (*infer)(InferContext&),
             std::vector<Node> (*expand)(Graph&, const Node&)) {
  OpRow row;
  row.name = name;
  row.kind = OpRow::Kind::Expand;
  row.category = "machine learning";
  row.doc = doc;
  row.onnx = {{name, 1, nullptr, "ai.onnx.ml"}};
  row.infer = infer;
  row.expand = expand;
  return row;
}

namespace {

std::vector<double> floats_or_none(const Node& node, const std::string& name) {
  return has_attribute(node, name) ? floats_attribute(node, name) : std::vector<double>();
}

// A number for each feature, or one for all, that broadcasts against samples of this shape.
ValueId per_feature(NodeBuilder& build, const Node& node, const std::string& name, DType type) {
  const std::vector<double> numbers = floats_or_none(node, name);
  const auto count = static_cast<int64_t>(numbers.size());
  return build.constant(
      number_tensor(type, count == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{count}, numbers));
}

void check_per_feature(InferContext& context, const std::string& name) {
  const size_t count = floats_or_none(context.node(), name).size();
  if (count <= 1) return;
  const std::string unfit =
      text("attribute '", name, "' has ", count, " numbers, but the input has shape ", str(context.shape(0)));
  if (context.rank(0) == 0) context.error(unfit);
  need_equal(context, context.shape(0).back(), Dim(static_cast<int64_t>(count)), unfit);
}

// --- Scaler, Normalizer, Imputer ----------------------------------------------------------------

void infer_scaler(InferContext& context) {
  for (const char* name : {"offset", "scale"}) check_per_feature(context, name);
  context.set_output(0, DType::F32, context.shape(0));
}

std::vector<Node> expand_scaler(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const DType type = build.dtype(node.inputs[0]) == DType::F64 ? DType::F64 : DType::F32;
  ValueId value = build.cast(node.inputs[0], type);
  if (!floats_or_none(node, "offset").empty())
    value = build.add("Sub", {value, per_feature(build, node, "offset", type)});
  if (!floats_or_none(node, "scale").empty())
    value = build.add("Mul", {value, per_feature(build, node, "scale", type)});
  build.give(0, build.cast(value, DType::F32));
  return build.take();
}

void infer_floats(InferContext& context) { context.set_output(0, DType::F32, context.shape(0)); }

std::vector<Node> expand_normalizer(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId value = build.cast(node.inputs[0], DType::F32);
  const std::string norm = string_attribute(node, "norm");
  const std::string reduce = norm == "MAX" ? "ReduceMax" : norm == "L1" ? "ReduceL1" : "ReduceL2";
  const ValueId size =
      build.add(reduce, {value}, {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}});
  // A row of zeros stays zero.
  const ValueId zero = build.number(DType::F32, 0);
  const ValueId divisor =
      build.add("Where", {build.add("Equal", {size, zero}), build.number(DType::F32, 1), size});
  build.give(0, build.add("Div", {value, divisor}));
  return build.take();
}

void infer_imputer(InferContext& context) {
  const bool whole = is_integer(context.dtype(0));
  if (whole && !has_attribute(context.node(), "imputed_value_int64s"))
    context.error("attribute 'imputed_value_int64s' is needed for ", name_of(context.dtype(0)));
  if (!whole) check_per_feature(context, "imputed_value_floats");
  context.set_output(0, context.dtype(0), context.shape(0));
}

std::vector<Node> expand_imputer(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId value = node.inputs[0];
  const DType type = build.dtype(value);
  if (is_integer(type)) {
    const std::vector<int64_t> numbers = ints_attribute(node, "imputed_value_int64s");
    const ValueId replaced = build.integer(type, int_attribute(node, "replaced_value_int64"));
    const ValueId others =
        build.cast(build.constant(int_tensor({static_cast<int64_t>(numbers.size())}, numbers)), type);
    build.give(0, build.add("Where", {build.add("Equal", {value, replaced}), others, value}));
    return build.take();
  }
  const double replaced = float_attribute(node, "replaced_value_float");
  const ValueId missing = std::isnan(replaced) ? build.add("IsNaN", {value})
                                               : build.add("Equal", {value, build.number(type, replaced)});
  build.give(0, build.add("Where", {missing, per_feature(build, node, "imputed_value_floats", type), value}));
  return build.take();
}

// --- ArrayFeatureExtractor, FeatureVectorizer, OneHotEncoder -----------------------------------------

void infer_extractor(InferContext& context) {
  if (context.rank(0) == 0) context.error("the input is a scalar; features along the last axis are needed");
  Shape shape = context.shape(0);
  shape.back() = element_count(context.shape(1));
  if (shape.size() == 1) shape.insert(shape.begin(), Dim(1));
  context.set_output(0, context.dtype(0), shape);
}

std::vector<Node> expand_extractor(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  ValueId value = node.inputs[0];
  if (build.shape(value).size() == 1)
    value = build.add("Unsqueeze", {value}, {{"axes", std::vector<int64_t>{0}}});
  const ValueId places = build.add("Reshape", {node.inputs[1]},
                                   {{"shape", std::vector<Dim>{element_count(build.shape(node.inputs[1]))}}});
  build.give(0, build.add("Gather", {value, places}, {{"axis", int64_t{-1}}}));
  return build.take();
}

// Concatenates inputs [samples, features] along the features; an input with only one axis has one feature per
// sample.
void infer_vectorizer(InferContext& context) {
  const std::vector<int64_t> declared = ints_attribute(context.node(), "inputdimensions");
  Dim features;
  for (int i = 0; i < context.input_count(); ++i) {
    if (context.rank(i) < 1 || context.rank(i) > 2)
      context.error("input ", i, " has shape ", str(context.shape(i)), "; [samples, features] is needed");
    const Dim size = context.rank(i) == 2 ? context.shape(i)[1] : Dim(1);
    if (static_cast<size_t>(i) < declared.size()) {
      need_equal(context, size, Dim(declared[static_cast<size_t>(i)]),
                 text("input ", i, " has ", size.str(), " features, and inputdimensions says ",
                      declared[static_cast<size_t>(i)]));
    }
    features = features + size;
  }
  context.set_output(0, DType::F32, {context.shape(0)[0], features});
}

std::vector<Node> expand_vectorizer(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  std::vector<ValueId> parts;
  for (const ValueId input : node.inputs) {
    const ValueId value = build.cast(input, DType::F32);
    parts.push_back(build.shape(value).size() == 2
                        ? value
                        : build.add("Unsqueeze", {value}, {{"axes", std::vector<int64_t>{1}}}));
  }
  build.give(0, parts.size() == 1 ? parts[0] : build.add("Concat", parts, {{"axis", int64_t{1}}}));
  return build.take();
}

std::vector<int64_t> categories(const Node& node) {
  const std::vector<int64_t> numbers =
      has_attribute(node, "cats_int64s") ? ints_attribute(node, "cats_int64s") : std::vector<int64_t>();
  if (numbers.empty())
    fail(ErrorKind::Unsupported, node.origin.str(),
         ": attribute 'cats_int64s' is needed; categories that are texts are not supported");
  return numbers;
}

void infer_one_hot(InferContext& context) {
  Shape shape = context.shape(0);
  shape.emplace_back(static_cast<int64_t>(categories(context.node()).size()));
  context.set_output(0, DType::F32, shape);
}

std::vector<Node> expand_one_hot(Graph& graph, const Node& node) {
  if (int_attribute(node, "zeros") == 0) {
    fail(ErrorKind::Unsupported, node.origin.str(),
         ": attribute 'zeros' is 0, which makes a category that is not listed an error of the run; "
         "set it to 1, which gives zeros");
  }
  NodeBuilder build(graph, node);
  const std::vector<int64_t> numbers = categories(node);
  const ValueId value =
      build.add("Unsqueeze", {build.cast(node.inputs[0], DType::I64)}, {{"axes", std::vector<int64_t>{-1}}});
  build.give(0, build.cast(build.add("Equal", {value, build.constant(int_tensor(
                                                          {static_cast<int64_t>(numbers.size())}, numbers))}),
                           DType::F32));
  return build.take();
}

// --- linear models -------------------------------------------------------------------------------

struct Linear {
  std::vector<double> coefficients, intercepts;
  int64_t targets = 1, features = 0;
};

Linear linear_of(const Node& node, int64_t targets) {
  Linear result{floats_attribute(node, "coefficients"), floats_or_none(node, "intercepts"), targets, 0};
  const auto count = static_cast<int64_t>(result.coefficients.size());
  if (targets < 1 || count == 0 || count % targets != 0) {
    fail(ErrorKind::Model, node.origin.str(), ": attribute 'coefficients' has ", count, " numbers, which ",
         targets, " targets do not divide");
  }
  result.features = count / targets;
  if (!result.intercepts.empty() && static_cast<int64_t>(result.intercepts.size()) != targets) {
    fail(ErrorKind::Model, node.origin.str(), ": attribute 'intercepts' has ", result.intercepts.size(),
         " numbers; ", targets, " are needed, or none");
  }
  return result;
}

void check_features(InferContext& context, const Linear& linear) {
  const std::string unfit =
      text("the samples have shape ", str(context.shape(0)), "; [samples, ", linear.features, "] is needed");
  if (context.rank(0) != 2) context.error(unfit);
  need_equal(context, context.shape(0)[1], Dim(linear.features), unfit);
}

ValueId scores_of(NodeBuilder& build, const Node& node, const Linear& linear) {
  const ValueId samples = build.cast(node.inputs[0], DType::F32);
  const ValueId weights =
      build.constant(number_tensor(DType::F32, {linear.targets, linear.features}, linear.coefficients));
  std::vector<ValueId> inputs = {samples, weights};
  if (!linear.intercepts.empty())
    inputs.push_back(build.constant(number_tensor(DType::F32, {linear.targets}, linear.intercepts)));
  return build.add("Gemm", inputs, {{"transB", int64_t{1}}});
}

void infer_linear_regressor(InferContext& context) {
  const Linear linear = linear_of(context.node(), int_attribute(context.node(), "targets"));
  check_features(context, linear);
  context.set_output(0, DType::F32, {context.shape(0)[0], Dim(linear.targets)});
}

std::vector<Node> expand_linear_regressor(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId scores = scores_of(build, node, linear_of(node, int_attribute(node, "targets")));
  build.give(0, post_transformed(build, scores, string_attribute(node, "post_transform")));
  return build.take();
}

// There are as many targets as intercepts, or else as labels; a single target for two labels is the score of
// the second label.
Linear linear_classifier_of(const Node& node) {
  const auto labels = static_cast<int64_t>(class_labels(node).size()),
             intercepts = static_cast<int64_t>(floats_or_none(node, "intercepts").size());
  const Linear linear = linear_of(node, intercepts > 0 ? intercepts : labels);
  if (linear.targets != labels && !(linear.targets == 1 && labels == 2)) {
    fail(ErrorKind::Model, node.origin.str(), ": there are ", labels, " labels and ", linear.targets,
         " intercepts");
  }
  return linear;
}

void infer_linear_classifier(InferContext& context) {
  check_features(context, linear_classifier_of(context.node()));
  const Dim samples = context.shape(0)[0];
  context.set_output(0, DType::I64, {samples});
  context.set_output(1, DType::F32,
                     {samples, Dim(static_cast<int64_t>(class_labels(context.node()).size()))});
}

std::vector<Node> expand_linear_classifier(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Linear linear = linear_classifier_of(node);
  const ValueId raw = scores_of(build, node, linear);
  const std::string transform = string_attribute(node, "post_transform");
  if (linear.targets > 1 || class_labels(node).size() == 1)
    give_classes(build, node, raw, post_transformed(build, raw, transform));
  else give_two_classes(build, node, raw, {false, true, transform});
  return build.take();
}

const std::vector<double> kNoFloats;
const std::vector<int64_t> kNoInts;

AttributeRow transform_attribute() {
  return {"post_transform", std::string("NONE"), false, "", one_of(kPostTransforms)};
}

void register_linear_models(OpTable& table) {
  OpRow regressor = ml_row("LinearRegressor", "Samples times coefficients, plus intercepts.",
                           infer_linear_regressor, expand_linear_regressor);
  regressor.types = {{kWideNumbers, {0}}};
  regressor.attributes = {{"coefficients", kNoFloats, true},
                          {"intercepts", kNoFloats},
                          {"targets", int64_t{1}, false, "", from_to(1, 1 << 20)},
                          transform_attribute()};
  table.add(regressor);

  OpRow classifier =
      ml_row("LinearClassifier",
             "The class of the largest of the samples times coefficients plus intercepts, and all of these.",
             infer_linear_classifier, expand_linear_classifier);
  classifier.types = {{kWideNumbers, {0}}};
  classifier.outputs = 2;
  classifier.attributes = {{"coefficients", kNoFloats, true},
                           {"intercepts", kNoFloats},
                           {"multi_class", int64_t{0}},
                           transform_attribute()};
  add_label_attributes(classifier);
  table.add(classifier);
}

}  // namespace

void register_machine_learning_ops(OpTable& table) {
  OpRow binarizer = elementwise({"Binarizer",
                                 1,
                                 "select(a > threshold, 1, 0)",
                                 1,
                                 "1 where the element is over `threshold`, else 0.",
                                 {{"threshold", 0.0}}});
  binarizer.onnx = {{"Binarizer", 1, nullptr, "ai.onnx.ml"}};
  table.add(binarizer);

  OpRow scaler = ml_row("Scaler", "(X - offset) * scale, by feature.", infer_scaler, expand_scaler);
  scaler.types = {{kWideNumbers, {0}}};
  scaler.attributes = {{"offset", kNoFloats}, {"scale", kNoFloats}};
  table.add(scaler);

  OpRow normalizer = ml_row("Normalizer", "Rows divided by their largest element or a norm.", infer_floats,
                            expand_normalizer);
  normalizer.types = {{kWideNumbers, {0}}};
  normalizer.attributes = {{"norm", std::string("MAX"), false, "", one_of({"MAX", "L1", "L2"})}};
  table.add(normalizer);

  OpRow imputer =
      ml_row("Imputer", "Elements that are equal to a value, or NaN, replaced by a number for each feature.",
             infer_imputer, expand_imputer);
  imputer.types = {{kWideNumbers, {0}}};
  imputer.attributes = {{"imputed_value_floats", kNoFloats},
                        {"imputed_value_int64s", kNoInts},
                        {"replaced_value_float", 0.0},
                        {"replaced_value_int64", int64_t{0}}};
  table.add(imputer);

  OpRow extractor =
      ml_row("ArrayFeatureExtractor", "Chosen features of the last axis.", infer_extractor, expand_extractor);
  extractor.minimum_inputs = extractor.maximum_inputs = 2;
  extractor.types = {{kIndices, {1}}};
  table.add(extractor);

  OpRow vectorizer = ml_row("FeatureVectorizer", "The features of several inputs beside each other.",
                            infer_vectorizer, expand_vectorizer);
  vectorizer.maximum_inputs = -1;
  vectorizer.types = {{kWideNumbers, {}, false}};
  vectorizer.attributes = {{"inputdimensions", kNoInts}};
  table.add(vectorizer);

  OpRow one_hot = ml_row("OneHotEncoder", "1 for the category that an element is, 0 for the others.",
                         infer_one_hot, expand_one_hot);
  one_hot.types = {{kWideNumbers, {0}}};
  one_hot.attributes = {
      {"cats_int64s", kNoInts}, {"cats_strings", std::vector<std::string>()}, {"zeros", int64_t{1}}};
  table.add(one_hot);

  register_linear_models(table);
  register_label_encoder(table);
  register_support_vector_ops(table);
}

}  // namespace tc
