// Operators of ONNX Runtime's own domain that its optimiser leaves in transformers: fused layer
// normalisations, activations with a bias, and products with transposes and a factor.
#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

OpRow contributed(const std::string& name, const std::string& doc, const InputCount& inputs,
                  std::vector<AttributeRow> attributes, std::vector<Node> (*expand)(Graph&, const Node&)) {
  OpRow row;
  row.name = name;
  row.kind = OpRow::Kind::Expand;
  row.category = "transformer";
  row.doc = doc;
  row.onnx = {{name, 1, nullptr, "com.microsoft"}};
  row.minimum_inputs = inputs.minimum;
  row.maximum_inputs = inputs.maximum;
  row.attributes = std::move(attributes);
  row.expand = expand;
  return row;
}

// --- normalisations of a sum --------------------------------------------------------------------------

// Checks that the inputs `first` to `last`, if given, are vectors as long as the last axis of `shape`.
void need_vectors(InferContext& context, int first, int last, const Shape& shape) {
  for (int i = first; i <= last; ++i) {
    need_shape(context, i, {shape.back()});
  }
}

// Inputs: input, skip, gamma, then beta and bias, or (simplified) bias.
void infer_skip(InferContext& context) {
  require_one_type(context, is_float, "a float type");
  const Shape& shape = context.shape(0);
  if (shape.empty())
    context.error("input 1 of shape ", str(context.shape(1)), " does not broadcast to ", str(shape));
  need_broadcast(context, 1, shape);
  need_vectors(context, 2, 4, shape);
  Shape statistics = shape;
  statistics.back() = 1;
  infer_same(context);
  context.set_output(1, DType::F32, statistics);
  context.set_output(2, DType::F32, statistics);
  context.set_output(3, context.dtype(0), shape);
}

// The sum, including `bias` if given; it is also output 3.
ValueId skip_sum(NodeBuilder& build, const Node& node, int bias) {
  ValueId sum = build.add("Add", {node.inputs[0], node.inputs[1]});
  if (input_given(node, bias)) sum = build.add("Add", {sum, node.inputs[bias]});
  build.give(3, sum);
  return sum;
}

std::vector<Node> expand_skip(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  std::vector<ValueId> inputs = {skip_sum(build, node, 4), node.inputs[2]};
  if (input_given(node, 3)) inputs.push_back(node.inputs[3]);
  const auto made =
      build.add_many("LayerNormalization", inputs, 3, {{"epsilon", float_attribute(node, "epsilon")}});
  for (size_t i = 0; i < 3; ++i) build.give(i, made[i]);
  return build.take();
}

std::vector<Node> expand_skip_simplified(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const ValueId sum = skip_sum(build, node, 3);
  if (output_wanted(node, 1))
    fail(ErrorKind::Unsupported, node.origin.str(), ": output 1, the mean, is not computed");
  const auto made = build.add_many("RMSNormalization", {sum, node.inputs[2]}, 2,
                                   {{"epsilon", float_attribute(node, "epsilon")}});
  build.give(0, made[0]);
  build.give(2, made[1]);
  return build.take();
}

// Inputs of EmbedLayerNormalization.
enum Embedding {
  kIds,
  kSegments,
  kWords,
  kPositions,
  kSegmentTable,
  kGamma,
  kBeta,
  kEmbeddingMask,
  kPositionIds
};

void need_ids(InferContext& context, int input, const Shape& shape, const Shape& other) {
  if (!context.has_input(input)) return;
  const DType type = context.dtype(input);
  if (type != DType::I32 && type != DType::I64)
    context.error("input ", input, " has type ", name_of(type), "; i32 or i64 is needed");
  if (context.shape(input) != other) need_shape(context, input, shape);
}

void infer_embedding(InferContext& context) {
  for (int i : {kWords, kPositions, kGamma, kBeta}) {
    if (!context.has_input(i)) context.fail_at(ErrorKind::Model, text("leaves out input ", i));
  }
  const Shape& ids = context.shape(kIds);
  const Shape& words = context.shape(kWords);
  if (ids.size() != 2 || words.size() != 2) {
    context.error("the identifiers and the words have shapes ", str(ids), " and ", str(words),
                  "; rank 2 is needed");
  }
  for (int i : {kIds, kSegments, kEmbeddingMask}) need_ids(context, i, ids, ids);
  need_ids(context, kPositionIds, ids, {Dim(1), ids[1]});
  if (context.has_input(kSegments) != context.has_input(kSegmentTable))
    context.error("segment_ids and segment_embedding are given together");
  for (int i : {kPositions, kSegmentTable}) {
    if (!context.has_input(i)) continue;
    const std::string message =
        text("input ", i, " has shape ", str(context.shape(i)), "; [rows, ", words[1].str(), "] is needed");
    if (context.rank(i) != 2) context.error(message);
    need_equal(context, context.shape(i)[1], words[1], message);
  }
  if (!context.has_input(kPositionIds)) {
    const Shape& positions = context.shape(kPositions);
    if (dim_range(positions[0] - ids[1], context.graph()).high < 0) {
      context.error(ids[1].str(), " positions are more than the ", positions[0].str(),
                    " embeddings of input ", int{kPositions});
    }
  }
  need_vectors(context, kGamma, kBeta, words);
  for (int i : {kWords, kPositions, kSegmentTable, kGamma, kBeta}) {
    if (!context.has_input(i) || (is_float(context.dtype(i)) && context.dtype(i) == context.dtype(kWords)))
      continue;
    context.error("input ", i, " has type ", name_of(context.dtype(i)), "; ",
                  is_float(context.dtype(kWords)) ? name_of(context.dtype(kWords)) : "a float type",
                  " is needed");
  }
  const Shape shape = {ids[0], ids[1], words[1]};
  context.set_output(0, context.dtype(kWords), shape);
  context.set_output(1, DType::I32, {ids[0]});
  context.set_output(2, context.dtype(kWords), shape);
}

std::vector<Node> expand_embedding(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  const Shape ids = build.shape(node.inputs[kIds]);
  auto rows = [&](int table, int chosen) {
    return build.add("Gather", {node.inputs[table], node.inputs[chosen]}, {{"axis", int64_t{0}}});
  };
  ValueId positions;
  if (input_given(node, kPositionIds)) {
    positions = rows(kPositions, kPositionIds);
  } else {
    positions = build.add("Slice", {node.inputs[kPositions]},
                          {{"starts", std::vector<Dim>{Dim(0)}},
                           {"ends", std::vector<Dim>{ids[1]}},
                           {"axes", std::vector<int64_t>{0}}});
    // A run checks that tables of symbolic length are long enough.
    const Shape shape = {ids[1], build.shape(positions)[1]};
    if (build.shape(positions) != shape)
      positions = build.add("Reshape", {positions}, {{"shape", shape}, {"allowzero", int64_t{1}}});
  }
  ValueId sum = build.add("Add", {rows(kWords, kIds), positions});
  if (input_given(node, kSegments)) sum = build.add("Add", {sum, rows(kSegmentTable, kSegments)});
  build.give(2, sum);
  if (output_wanted(node, 0)) {
    build.add_to("LayerNormalization", {sum, node.inputs[kGamma], node.inputs[kBeta]}, {node.outputs[0]},
                 {{"epsilon", float_attribute(node, "epsilon")}});
  }
  if (!output_wanted(node, 1)) return build.take();
  if (input_given(node, kEmbeddingMask)) {
    // How many words each sequence has.
    const ValueId mask = build.cast(
        build.add("Equal",
                  {node.inputs[kEmbeddingMask], build.integer(build.dtype(node.inputs[kEmbeddingMask]), 1)}),
        DType::I32);
    build.give(1,
               build.add("ReduceSum", {mask}, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}}));
  } else {
    build.give(1, build.add("Expand", {build.integer(DType::I32, 0)}, {{"shape", Shape{ids[0]}}}));
  }
  return build.take();
}

// --- activations ----------------------------------------------------------------------------------------

void infer_biased(InferContext& context) {
  require_one_type(context, is_float, "a float type");
  const Shape& shape = context.shape(0);
  if (shape.empty()) context.error("the input has shape ", str(shape), "; rank 1 or more is needed");
  need_vectors(context, 1, 1, shape);
  infer_same(context);
}

std::vector<Node> biased_gelu(Graph& graph, const Node& node, const char* approximate) {
  NodeBuilder build(graph, node);
  ValueId x = node.inputs[0];
  if (input_given(node, 1)) x = build.add("Add", {x, node.inputs[1]});
  build.add_to("Gelu", {x}, node.outputs, {{"approximate", std::string(approximate)}});
  return build.take();
}

// --- FusedMatMul ----------------------------------------------------------------------------------------

// The permutation of an operand's axes that MatMul needs, or empty where none is needed. If the attribute
// `batch` is set, the first axis of the matrix comes before the batches; if `matrix` is set, the matrix is
// transposed.
std::vector<int64_t> operand_order(const Node& node, const char* matrix, const char* batch, size_t rank) {
  const bool exchanged = int_attribute(node, matrix) != 0, moved = int_attribute(node, batch) != 0;
  std::vector<int64_t> order;
  if (rank < 2 || (!exchanged && !moved)) return order;
  for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  if (moved) {
    order.erase(order.begin());
    order.insert(order.end() - 1, 0);
  }
  if (exchanged) std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

Shape ordered(const Shape& shape, const std::vector<int64_t>& order) {
  Shape result;
  for (int64_t axis : order) result.push_back(shape[static_cast<size_t>(axis)]);
  return order.empty() ? shape : result;
}

void infer_fused_matmul(InferContext& context) {
  require_one_type(context, is_float, "a float type");
  const Shape a = ordered(context.shape(0),
                          operand_order(context.node(), "transA", "transBatchA", context.shape(0).size()));
  const Shape b = ordered(context.shape(1),
                          operand_order(context.node(), "transB", "transBatchB", context.shape(1).size()));
  if (a.empty() || b.empty())
    context.error("operands of shapes ", str(a), " and ", str(b), "; a matrix product needs rank 1 or more");
  const Dim& inner = b.size() == 1 ? b[0] : b[b.size() - 2];
  need_equal(context, a.back(), inner,
             text("operands of shapes ", str(context.shape(0)), " and ", str(context.shape(1)),
                  " do not multiply: ", a.back().str(), " and ", inner.str(), " elements meet"));
  Shape result =
      context.broadcast({Shape(a.begin(), a.end() - std::min<int64_t>(2, static_cast<int64_t>(a.size()))),
                         Shape(b.begin(), b.end() - std::min<int64_t>(2, static_cast<int64_t>(b.size())))});
  if (a.size() > 1) result.push_back(a[a.size() - 2]);
  if (b.size() > 1) result.push_back(b.back());
  context.set_output(0, context.dtype(0), result);
}

std::vector<Node> expand_fused_matmul(Graph& graph, const Node& node) {
  NodeBuilder build(graph, node);
  auto operand = [&](int i, const char* matrix, const char* batch) {
    const std::vector<int64_t> order = operand_order(node, matrix, batch, build.shape(node.inputs[i]).size());
    return order.empty() ? node.inputs[i] : build.add("Transpose", {node.inputs[i]}, {{"perm", order}});
  };
  const ValueId product =
      build.add("MatMul", {operand(0, "transA", "transBatchA"), operand(1, "transB", "transBatchB")});
  const double alpha = float_attribute(node, "alpha");
  build.give(0,
             alpha == 1 ? product : build.add("Mul", {product, build.number(build.dtype(product), alpha)}));
  return build.take();
}

}  // namespace

void register_transformer_ops(OpTable& table) {
  OpRow skip =
      contributed("SkipLayerNormalization", "LayerNormalization of a sum of two operands and a bias.", {3, 5},
                  {{"epsilon", 1e-12}}, expand_skip);
  skip.outputs = 4;
  skip.infer = infer_skip;
  table.add(std::move(skip));

  OpRow simplified =
      contributed("SkipSimplifiedLayerNormalization", "RMSNormalization of a sum of two operands and a bias.",
                  {3, 4}, {{"epsilon", 1e-12}}, expand_skip_simplified);
  simplified.outputs = 4;
  simplified.infer = infer_skip;
  table.add(std::move(simplified));

  OpRow embedding =
      contributed("EmbedLayerNormalization",
                  "LayerNormalization of the sum of the embeddings of words, positions and segments.", {1, 9},
                  {{"epsilon", 1e-12}, {"mask_index_type", int64_t{0}}}, expand_embedding);
  embedding.outputs = 3;
  embedding.infer = infer_embedding;
  table.add(std::move(embedding));

  OpRow bias = contributed("BiasGelu", "Gelu of a sum with a bias.", {2, 2}, {},
                           [](Graph& graph, const Node& node) { return biased_gelu(graph, node, "none"); });
  bias.infer = infer_biased;
  table.add(std::move(bias));

  OpRow fast =
      contributed("FastGelu", "Gelu by tanh of a sum with a bias, which may be left out.", {1, 2}, {},
                  [](Graph& graph, const Node& node) { return biased_gelu(graph, node, "tanh"); });
  fast.infer = infer_biased;
  table.add(std::move(fast));

  OpRow product = contributed(
      "FusedMatMul", "alpha times a matrix product, of operands whose matrices or batches are transposed.",
      {2, 2},
      {{"alpha", 1.0},
       {"transA", int64_t{0}},
       {"transB", int64_t{0}},
       {"transBatchA", int64_t{0}},
       {"transBatchB", int64_t{0}}},
      expand_fused_matmul);
  product.infer = infer_fused_matmul;
  product.onnx.push_back({"TransposeMatMul", 1, nullptr, "com.microsoft"});
  table.add(std::move(product));
}

}  // namespace tc
