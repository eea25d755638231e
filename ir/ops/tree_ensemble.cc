// Ensembles of decision trees: ai.onnx.ml's TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier.
//
// All upper tests of a tree are evaluated (TreeTests; forest.h explains how): these are only comparisons, on
// vectors of samples. All trees are in common tables of nodes. From the exit that the tests give, a walk
// takes as many steps as the deepest tree has levels left, without branches: `place = child[place] +
// (x[feature[place]] <= threshold[place] ? 0 : 1)`. So the two children of a node are adjacent, and a leaf
// exists twice, both copies having these two as children: whatever is compared there, a walk stays. Lanes run
// along samples, so that a vector of them reads one tree's tables, which fit the L1 cache.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops/classifier.h"
#include "ir/ops/forest.h"

namespace tc {
namespace {

// --- the three steps -----------------------------------------------------------------------------

// Inputs: features [features, n], then by tree and test the feature, the threshold, and the bits that remain
// where the feature is over the threshold. The result, [trees, n], has the bits that remain after all tests.
void infer_tests(InferContext& context) {
  context.set_output(0, DType::I32, {context.shape(1)[0], context.shape(0)[1]});
}

void lower_tests(LowerContext& context) {
  auto iterators = context.iterators("i", *context.output_value(0).shape);
  const Affine tree = Affine::variable(iterators[0].name), sample = Affine::variable(iterators[1].name);
  const std::vector<Affine> position = {tree, sample};
  const int64_t rounds = context.shape(1)[1].constant() / kTestsTogether;
  // The bits that remain after kTestsTogether tests. They are an unrolled expression, not a reduction over
  // tests, so that lanes are samples.
  auto left = [&](const Affine& from) {
    ExprPtr all;
    for (int64_t i = 0; i < kTestsTogether; ++i) {
      const auto of_test = [&](int input) {
        return context.read(input, std::vector<Affine>{tree, from + Affine(i)});
      };
      const ExprPtr x = context.read(0, {{Affine(0), cast(DType::I64, of_test(1))}, {sample, nullptr}});
      const ExprPtr one =
          select(binary(BinaryOp::Le, x, of_test(2)), int_constant(DType::I32, -1), of_test(3));
      all = all ? binary(BinaryOp::And, all, one) : one;
    }
    return all;
  };
  context.assign("first", iterators, context.output(0), position, left(0));
  if (rounds == 1) return;
  iterators.push_back({context.fresh("round"), Affine(rounds - 1)});
  const Affine from = Affine::variable(iterators[2].name) * kTestsTogether + Affine(kTestsTogether);
  context.assign("tests", iterators, context.output(0), position,
                 binary(BinaryOp::And, context.read_buffer(context.output(0), position), left(from)));
}

// Inputs: samples [n, features], then by node the feature, threshold and first child, by tree the exits of
// its upper part, and the bits of TreeTests. With `missing`, a negative number f means feature -1 - f with
// NaN going to the first child. The result is the leaf of each tree and sample.
void infer_leaves(InferContext& context) {
  context.set_output(0, DType::I32, {context.shape(4)[0], context.shape(0)[0]});
}

// The number of the lowest bit that is set, as exit_slot numbers bits.
ExprPtr lowest_slot(const ExprPtr& bits) {
  const ExprPtr lowest = cast(DType::U32, binary(BinaryOp::And, bits, unary(UnaryOp::Neg, bits)));
  const ExprPtr spread = binary(BinaryOp::Mul, lowest, int_constant(DType::U32, kExitFactor));
  return binary(BinaryOp::Shr, spread, int_constant(DType::U32, kExitShift));
}

void lower_leaves(LowerContext& context) {
  auto iterators = context.iterators("i", *context.output_value(0).shape);
  const Affine tree = Affine::variable(iterators[0].name), sample = Affine::variable(iterators[1].name);
  const std::vector<Affine> position = {tree, sample};
  const ExprPtr slot = cast(DType::I64, lowest_slot(context.read(5, position)));
  context.assign("exit", iterators, context.output(0), position,
                 context.read(4, {{tree, nullptr}, {Affine(0), slot}}));
  const int64_t depth = int_attribute(context.node(), "depth");
  if (depth == 0) return;
  const ExprPtr place = cast(DType::I64, context.read_buffer(context.output(0), position));
  auto at_place = [&](int input) { return context.read(input, std::vector<Subscript>{{Affine(0), place}}); };
  const bool missing = int_attribute(context.node(), "missing") != 0;
  const ExprPtr marked = at_place(1), zero = int_constant(DType::I32, 0);
  const ExprPtr feature = missing ? binary(BinaryOp::Max, marked, unary(UnaryOp::BitNot, marked)) : marked;
  const ExprPtr x = context.read(0, {{sample, nullptr}, {Affine(0), cast(DType::I64, feature)}});
  ExprPtr first = binary(BinaryOp::Le, x, at_place(2));
  if (missing) {
    const ExprPtr lost = binary(BinaryOp::And, unary(UnaryOp::IsNan, x), binary(BinaryOp::Lt, marked, zero));
    first = binary(BinaryOp::Or, first, lost);
  }
  iterators.push_back({context.fresh("level"), Affine(depth)});
  const ExprPtr other = select(first, zero, int_constant(DType::I32, 1));
  context.assign("step", iterators, context.output(0), position, binary(BinaryOp::Add, at_place(3), other));
}

// Inputs: the leaves [trees, samples], and each node's votes [nodes, targets]. The result, [samples,
// targets], is their sum, least or largest over the trees.
void infer_votes(InferContext& context) {
  context.set_output(0, context.dtype(1), {context.shape(0)[1], context.shape(1)[1]});
}

void lower_votes(LowerContext& context) {
  const std::string how = string_attribute(context.node(), "reduction");
  const Reduction reduction = how == "min" ? Reduction::Min : how == "max" ? Reduction::Max : Reduction::Sum;
  LowerContext::ReductionLoops loops{context.iterators("i", *context.output_value(0).shape),
                                     {{context.fresh("tree"), context.dim(context.shape(0)[0])}}};
  const Affine sample = Affine::variable(loops.outer[0].name), target = Affine::variable(loops.outer[1].name);
  const ExprPtr leaf = cast(DType::I64, context.read(0, {Affine::variable(loops.inner[0].name), sample}));
  context.reduce("votes", loops, context.output(0), {sample, target}, reduction,
                 context.read(1, {{Affine(0), leaf}, {target, nullptr}}));
}

// --- models ----------------------------------------------------------------------------------------

DType type_of_thresholds(DType samples) { return samples == DType::F64 ? DType::F64 : DType::F32; }

TensorPtr minus_one() {
  auto tensor = std::make_shared<Tensor>(DType::I32, std::vector<int64_t>{1});
  tensor->set_int(0, -1);
  return tensor;
}

// The bits that remain for each sample after all tests of the trees' upper parts.
ValueId bits_of(NodeBuilder& build, ValueId samples, const Forest& forest, const ForestTops& tops) {
  const Dim count = build.shape(samples)[0];
  const DType type = build.dtype(samples);
  if (forest.largest_feature() < 0) {
    return build.add("ConstantOfShape", {},
                     {{"shape", std::vector<Dim>{Dim(forest.tree_count()), count}}, {"value", minus_one()}});
  }
  ValueId features = build.add("Transpose", {samples}, {{"perm", std::vector<int64_t>{1, 0}}});
  const int64_t needed = forest.largest_feature() + 1;
  if (build.shape(features)[0] != Dim(needed)) {
    features = build.add("Slice", {features},
                         {{"starts", std::vector<int64_t>{0}},
                          {"ends", std::vector<int64_t>{needed}},
                          {"axes", std::vector<int64_t>{0}}});
    // If the number of features is symbolic, a run checks that there are enough.
    if (build.shape(features)[0] != Dim(needed))
      features =
          build.add("Reshape", {features}, {{"shape", Shape{Dim(needed), count}}, {"allowzero", int64_t{1}}});
  }
  if (forest.has_missing()) {
    // A copy of the features for tests that NaN passes.
    const ValueId passing =
        build.add("Where", {build.add("IsNaN", {features}), build.number(type, -INFINITY), features});
    features = build.add("Concat", {features, passing}, {{"axis", int64_t{0}}});
  }
  return build.add("TreeTests", {features, build.constant(tops.features), build.constant(tops.thresholds),
                                 build.constant(tops.kept)});
}

// The leaf of each tree and sample, [trees, samples].
ValueId leaves_of(NodeBuilder& build, ValueId samples, const Forest& forest, DType type) {
  const ForestTops tops = forest.tops(type);
  return build.add(
      "TreeLeaves",
      {samples, build.constant(forest.features()), build.constant(forest.thresholds(type)),
       build.constant(forest.children()), build.constant(tops.exits), bits_of(build, samples, forest, tops)},
      {{"depth", tops.depth}, {"missing", int64_t{forest.has_missing()}}});
}

// The trees' votes for each sample, [samples, targets], with the base values.
ValueId votes_of(NodeBuilder& build, const Node& node, const Forest& forest, const std::string& aggregate) {
  const DType type = type_of_thresholds(build.dtype(node.inputs[0]));
  const ValueId leaves = leaves_of(build, build.cast(node.inputs[0], type), forest, type);
  const bool least = aggregate == "MIN", largest = aggregate == "MAX";
  const double absent = least ? INFINITY : largest ? -INFINITY : 0;
  ValueId votes = build.add("TreeVotes", {leaves, build.constant(forest.votes(type, absent))},
                            {{"reduction", std::string(least     ? "min"
                                                       : largest ? "max"
                                                                 : "sum")}});
  if (least || largest) {
    // Targets for which no leaf votes get 0.
    votes = build.add("Where", {build.add("IsInf", {votes}), build.number(type, 0), votes});
  }
  if (aggregate == "AVERAGE")
    votes = build.add("Div", {votes, build.number(type, static_cast<double>(forest.tree_count()))});
  return votes;
}

// The numbers of the attribute, or of the tensor that holds doubles instead.
std::vector<double> base_values(const Node& node) {
  if (has_attribute(node, "base_values")) return floats_attribute(node, "base_values");
  std::vector<double> result;
  if (!has_attribute(node, "base_values_as_tensor")) return result;
  const TensorPtr tensor = tensor_attribute(node, "base_values_as_tensor");
  for (int64_t i = 0; i < tensor->count(); ++i) result.push_back(tensor->as_double(i));
  return result;
}

ValueId with_base(NodeBuilder& build, const Node& node, ValueId votes, int64_t targets) {
  const std::vector<double> base = base_values(node);
  if (base.empty()) return votes;
  if (static_cast<int64_t>(base.size()) != targets) {
    fail(ErrorKind::Shape, node.origin.str(), ": base_values has ", base.size(), " numbers; ", targets,
         " are needed, or none");
  }
  return build.add("Add", {votes, build.constant(number_tensor(build.dtype(votes), {1, targets}, base))});
}

std::vector<Node> expand_regressor(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Forest forest = forest_of_regressor(node);
  const ValueId votes =
      with_base(build, node, votes_of(build, node, forest, string_attribute(node, "aggregate_function")),
                forest.targets());
  build.give(0, build.cast(post_transformed(build, votes, string_attribute(node, "post_transform")),
                           graph[node.outputs[0]].dtype));
  return build.take();
}

void infer_regressor(InferContext& context) {
  const Forest forest = forest_of_regressor(context.node());
  check_samples(context, forest);
  context.set_output(0, DType::F32, {context.shape(0)[0], Dim(forest.targets())});
}

std::vector<Node> expand_ensemble(Graph& graph, const Node& node) {
  static const char* const kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  NodeBuilder build(graph, node);
  const ValueId votes =
      votes_of(build, node, forest_of_ensemble(node), kAggregates[int_attribute(node, "aggregate_function")]);
  build.give(0, build.cast(post_transformed(
                               build, votes,
                               kPostTransforms[static_cast<size_t>(int_attribute(node, "post_transform"))]),
                           build.dtype(node.inputs[0])));
  return build.take();
}

void infer_ensemble(InferContext& context) {
  const Forest forest = forest_of_ensemble(context.node());
  check_samples(context, forest);
  context.set_output(0, context.dtype(0), {context.shape(0)[0], Dim(forest.targets())});
}

// A classifier of two classes whose leaves vote for one of them only: the other's score follows from it.
bool votes_for_one(const Node& node) {
  const std::vector<int64_t> ids = ints_attribute(node, "class_ids");
  return std::all_of(ids.begin(), ids.end(), [&](int64_t id) { return id == ids[0]; });
}

void infer_classifier(InferContext& context) {
  const auto classes = static_cast<int64_t>(class_labels(context.node()).size());
  check_samples(context, forest_of_classifier(context.node(), classes));
  const Dim samples = context.shape(0)[0];
  context.set_output(0, DType::I64, {samples});
  context.set_output(1, DType::F32, {samples, Dim(classes)});
}

std::vector<Node> expand_classifier(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const auto classes = static_cast<int64_t>(class_labels(node).size());
  const bool single = classes == 2 && votes_for_one(node);
  const Forest forest = forest_of_classifier(node, single ? 1 : classes);
  ValueId votes = with_base(build, node, votes_of(build, node, forest, "SUM"), forest.targets());
  const std::string transform = string_attribute(node, "post_transform");
  if (!single) {
    give_classes(build, node, votes, post_transformed(build, votes, transform));
    return build.take();
  }
  // ONNX Runtime's interpretation: if no vote is negative, votes are probabilities.
  const bool probability = !forest.has_negative_vote();
  give_two_classes(build, node, votes, {probability, probability, transform});
  return build.take();
}

OpRow step_row(const std::string& name, const std::string& doc, int inputs) {
  OpRow row;
  row.name = name;
  row.category = "machine learning";
  row.doc = doc;
  row.minimum_inputs = row.maximum_inputs = inputs;
  return row;
}

OpRow model_row(const std::string& name, const std::string& doc, int since) {
  OpRow row = step_row(name, doc, 1);
  row.kind = OpRow::Kind::Expand;
  row.onnx = {{name, since, nullptr, "ai.onnx.ml"}};
  row.types = {{kWideNumbers, {0}}};
  return row;
}

std::vector<AttributeRow> node_attributes() {
  const std::vector<int64_t> ints;
  const std::vector<double> floats;
  const std::vector<std::string> words;
  return {{"nodes_treeids", ints, true},
          {"nodes_nodeids", ints, true},
          {"nodes_featureids", ints, true},
          {"nodes_modes", words, true},
          {"nodes_values", floats},
          {"nodes_values_as_tensor", TensorPtr()},
          {"nodes_truenodeids", ints, true},
          {"nodes_falsenodeids", ints, true},
          {"nodes_missing_value_tracks_true", ints},
          {"nodes_hitrates", floats},
          {"nodes_hitrates_as_tensor", TensorPtr()},
          {"base_values", floats},
          {"base_values_as_tensor", TensorPtr()},
          {"post_transform", std::string("NONE"), false, "", one_of(kPostTransforms)}};
}

}  // namespace

void register_tree_ops(OpTable& table) {
  OpRow tests = step_row(
      "TreeTests", "The exits of each tree's upper part that all its tests leave to a sample, as bits.", 4);
  tests.infer = infer_tests;
  tests.lower = lower_tests;
  table.add(tests);

  OpRow leaves = step_row(
      "TreeLeaves",
      "The leaf of each tree that a sample comes to from an exit of its upper part, in common tables of nodes.",
      6);
  leaves.attributes = {{"depth", int64_t{0}, true, "", from_to(0, kDeepestTree)},
                       {"missing", int64_t{0}, false, "1: features below 0 are those of NaN"}};
  leaves.infer = infer_leaves;
  leaves.lower = lower_leaves;
  table.add(leaves);

  OpRow votes =
      step_row("TreeVotes",
               "The numbers of each sample's leaves, summed up over the trees, or the least or largest.", 2);
  votes.attributes = {{"reduction", std::string("sum"), false, "", one_of({"sum", "min", "max"})}};
  votes.infer = infer_votes;
  votes.lower = lower_votes;
  table.add(votes);

  OpRow regressor =
      model_row("TreeEnsembleRegressor", "Sums of the numbers at the leaves of decision trees.", 1);
  regressor.attributes = node_attributes();
  regressor.attributes.insert(
      regressor.attributes.end(),
      {{"target_treeids", std::vector<int64_t>(), true},
       {"target_nodeids", std::vector<int64_t>(), true},
       {"target_ids", std::vector<int64_t>(), true},
       {"target_weights", std::vector<double>()},
       {"target_weights_as_tensor", TensorPtr()},
       {"n_targets", int64_t{1}, false, "", from_to(1, kMaxTargets)},
       {"aggregate_function", std::string("SUM"), false, "", one_of({"SUM", "AVERAGE", "MIN", "MAX"})}});
  regressor.infer = infer_regressor;
  regressor.expand = expand_regressor;
  table.add(regressor);

  OpRow classifier = model_row("TreeEnsembleClassifier",
                               "The class for which the leaves of decision trees vote, and all scores.", 1);
  classifier.outputs = 2;
  classifier.attributes = node_attributes();
  classifier.attributes.insert(classifier.attributes.end(), {{"class_treeids", std::vector<int64_t>(), true},
                                                             {"class_nodeids", std::vector<int64_t>(), true},
                                                             {"class_ids", std::vector<int64_t>(), true},
                                                             {"class_weights", std::vector<double>()},
                                                             {"class_weights_as_tensor", TensorPtr()}});
  add_label_attributes(classifier);
  classifier.infer = infer_classifier;
  classifier.expand = expand_classifier;
  table.add(classifier);

  OpRow ensemble = model_row("TreeEnsemble", "The numbers at the leaves of decision trees, put together.", 5);
  const std::vector<int64_t> ints;
  ensemble.attributes = {{"tree_roots", ints, true},
                         {"nodes_featureids", ints, true},
                         {"nodes_splits", TensorPtr(), true},
                         {"nodes_modes", TensorPtr(), true},
                         {"nodes_truenodeids", ints, true},
                         {"nodes_falsenodeids", ints, true},
                         {"nodes_trueleafs", ints, true},
                         {"nodes_falseleafs", ints, true},
                         {"leaf_targetids", ints, true},
                         {"leaf_weights", TensorPtr(), true},
                         {"membership_values", TensorPtr()},
                         {"nodes_missing_value_tracks_true", ints},
                         {"nodes_hitrates", TensorPtr()},
                         {"n_targets", int64_t{1}, false, "", from_to(1, kMaxTargets)},
                         {"aggregate_function", int64_t{1}, false, "", from_to(0, 3)},
                         {"post_transform", int64_t{0}, false, "", from_to(0, 3)}};
  ensemble.infer = infer_ensemble;
  ensemble.expand = expand_ensemble;
  table.add(ensemble);
}

}  // namespace tc
