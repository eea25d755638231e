// The attention operators of ONNX Runtime's own domain, expressed by the standard's Attention: Attention
// (with the projections of its input) and MultiHeadAttention.
#include "ir/ops/contributed_attention.h"

namespace tc {

void refuse_inputs(InferContext& context, const std::vector<Refused>& refused) {
  for (const Refused& each : refused) {
    if (context.has_input(each.input))
      context.unsupported("input ", each.input, ", ", each.name, ", is not supported");
  }
}

void refuse_attributes(InferContext& context, const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (int_attribute(context.node(), name) != 0)
      context.unsupported("attribute '", name, "' is not supported");
  }
}

int64_t heads_attribute(InferContext& context, const char* name) {
  const int64_t heads = int_attribute(context.node(), name);
  if (heads < 1) context.error(name, " is ", heads, "; 1 or more is needed");
  return heads;
}

void need_rank(InferContext& context, int input, int rank) {
  if (context.has_input(input) && context.rank(input) != rank) {
    context.error("input ", input, " has shape ", str(context.shape(input)), "; rank ", rank, " is needed");
  }
}

void need_types(InferContext& context, const std::vector<int>& integers) {
  for (int i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i)) continue;
    const DType type = context.dtype(i);
    const bool index = std::count(integers.begin(), integers.end(), i) != 0;
    if (index ? type == DType::I32 || type == DType::I64 : is_float(type) && type == context.dtype(0))
      continue;
    context.error("input ", i, " has type ", name_of(type), "; ", index ? "i32 or i64" : "one float type",
                  " is needed");
  }
}

void need_scores(InferContext& context, int input, const Shape& scores) {
  if (!context.has_input(input)) return;
  const Shape& has = context.shape(input);
  Shape needed = scores;
  for (size_t i = 0; i < has.size() && has.size() == scores.size(); ++i) {
    if (has[i] == Dim(1)) needed[i] = 1;
  }
  if (has.size() < scores.size()) need_broadcast(context, input, scores);
  else need_shape(context, input, needed);
}

Dim part_of(InferContext& context, const Dim& hidden, int64_t heads) {
  const int64_t elements = need_number(context, hidden, text("what divides into ", heads, " heads"));
  if (elements % heads != 0) context.error(hidden.str(), " elements do not divide into ", heads, " heads");
  return Dim(elements / heads);
}

void need_mask(InferContext& context, int input, const Dim& batch, const Dim& queries, const Dim& keys) {
  if (!context.has_input(input)) return;
  const Shape& mask = context.shape(input);
  if (mask == Shape{Dim(2) * batch}) return;
  const Shape needed = mask.size() == 1   ? Shape{batch}
                       : mask.size() == 2 ? Shape{batch, keys}
                                          : Shape{batch, queries, keys};
  bool fits = mask.size() == needed.size();
  for (size_t i = 0; fits && i < mask.size(); ++i) {
    const Interval range = dim_range(mask[i] - needed[i], context.graph());
    fits = range.low <= 0 && range.high >= 0;
  }
  if (fits) return need_shape(context, input, needed);
  context.unsupported("input ", input, ", a mask of shape ", str(mask), ", is not supported; [", batch.str(),
                      "], [", (Dim(2) * batch).str(), "], ", str(Shape{batch, keys}), " or ",
                      str(Shape{batch, queries, keys}), " is");
}

OpRow contributed(const std::string& name, const OnnxName& onnx, const std::string& doc,
                  const InputCount& inputs, int outputs, std::vector<AttributeRow> attributes) {
  OpRow row;
  row.name = name;
  row.kind = OpRow::Kind::Expand;
  row.category = "attention";
  row.doc = doc;
  row.onnx = {onnx};
  row.minimum_inputs = inputs.minimum;
  row.maximum_inputs = inputs.maximum;
  row.outputs = outputs;
  row.attributes = std::move(attributes);
  return row;
}

namespace {

// --- Attention ------------------------------------------------------------------------------------------

// Inputs of Attention.
enum Projected { kInput, kWeights, kBias, kMaskIndex, kPast, kAttentionBias, kPastLength };

// The widths of Q, K and V.
std::vector<Dim> widths_of(InferContext& context) {
  const Dim& all = context.shape(kWeights)[1];
  const Ints given = ints_attribute(context.node(), "qkv_hidden_sizes");
  need_number(context, all, "the number of columns of the weights");
  if (given.empty()) {
    const Dim width = part_of(context, all, 3);
    return {width, width, width};
  }
  if (given.size() != 3 || given[0] != given[1] || given[0] < 0 || given[2] < 0 ||
      all != Dim(given[0]) + Dim(given[1]) + Dim(given[2])) {
    context.error("qkv_hidden_sizes do not divide the ", all.str(),
                  " columns of the weights into those of Q, K and V");
  }
  return {Dim(given[0]), Dim(given[1]), Dim(given[2])};
}

void infer_projected(InferContext& context) {
  need_types(context, {kMaskIndex, kPastLength});
  refuse_inputs(context, {{kPastLength, "past_sequence_length"}});
  refuse_attributes(context, {"do_rotary", "past_present_share_buffer"});
  const int64_t heads = heads_attribute(context, "num_heads");
  need_rank(context, kInput, 3);
  need_rank(context, kWeights, 2);
  need_rank(context, kPast, 5);
  const Shape& x = context.shape(kInput);
  need_shape(context, kWeights, {x[2], context.shape(kWeights)[1]});
  need_shape(context, kBias, {context.shape(kWeights)[1]});
  const std::vector<Dim> widths = widths_of(context);
  const Dim size = part_of(context, widths[0], heads), value_size = part_of(context, widths[2], heads);
  const Dim past = context.has_input(kPast) ? context.shape(kPast)[3] : Dim(0), total = past + x[1];
  need_shape(context, kPast, {Dim(2), x[0], Dim(heads), past, size});
  need_mask(context, kMaskIndex, x[0], x[1], total);
  const Shape scores = {x[0], Dim(heads), x[1], total};
  need_scores(context, kAttentionBias, scores);
  if ((context.has_input(kPast) || output_wanted(context.node(), 1)) && size != value_size) {
    context.error("a cache needs keys and values of one size, not ", size.str(), " and ", value_size.str());
  }
  context.set_output(0, context.dtype(0), {x[0], x[1], widths[2]});
  context.set_output(1, context.dtype(0), {Dim(2), x[0], Dim(heads), total, size});
}

class ProjectedBuilder : public Pieces {
 public:
  using Pieces::Pieces;
  std::vector<Node> run() {
    const int64_t heads = int_attribute(node_, "num_heads");
    InferContext context(build_.graph(), node_);
    const std::vector<Dim> widths = widths_of(context);
    ValueId all = build_.add("MatMul", {input(kInput), input(kWeights)});
    if (given(kBias)) all = build_.add("Add", {all, input(kBias)});
    Operands operands;
    Dim first = 0;
    ValueId* parts[] = {&operands.q, &operands.k, &operands.v};
    for (size_t i = 0; i < 3; ++i) {
      *parts[i] = split_heads(slice(all, 2, first, first + widths[i]), heads);
      first = first + widths[i];
    }
    Dim total = shape(kInput)[1];
    if (given(kPast)) {
      total = total + shape(kPast)[3];
      operands.past_key = pick(input(kPast), 0, 0);
      operands.past_value = pick(input(kPast), 0, 1);
    }
    if (given(kMaskIndex)) operands.mask = added_mask(input(kMaskIndex), shape(kInput)[0], total);
    operands.mask = sum(operands.mask, input(kAttentionBias));
    const auto made = attend(operands, int_attribute(node_, "unidirectional") != 0);
    join_heads(made[0]);
    if (output_wanted(node_, 1)) {
      build_.give(1, build_.add("Concat", {unsqueeze(made[1], {0}), unsqueeze(made[2], {0})},
                                {{"axis", int64_t{0}}}));
    }
    return build_.take();
  }
};

// --- MultiHeadAttention ---------------------------------------------------------------------------------

// Inputs of MultiHeadAttention.
enum MultiHead {
  kQuery,
  kKey,
  kValue,
  kHeadBias,
  kPadding,
  kScoreBias,
  kPastKey,
  kPastValue,
  kCacheLength,
  kIndirection
};

// The sizes of the operands as [batch, heads, positions, size], whatever their form in the node.
struct Sizes {
  Dim batch, queries, keys, size, value_size;
};

Sizes sizes_of(InferContext& context, int64_t heads) {
  const Shape& q = context.shape(kQuery);
  Sizes sizes;
  if (q.size() == 5) {
    need_shape(context, kQuery, {q[0], q[1], Dim(heads), Dim(3), q[4]});
    if (context.has_input(kKey) || context.has_input(kValue))
      context.error("key and value are given beside a query that holds them");
    return {q[0], q[1], q[1], q[4], q[4]};
  }
  need_rank(context, kQuery, 3);
  if (!context.has_input(kKey)) context.error("key is left out beside a query of shape ", str(q));
  sizes.batch = q[0];
  sizes.queries = q[1];
  sizes.size = part_of(context, q[2], heads);
  const Shape& k = context.shape(kKey);
  if (k.size() == 5) {
    sizes.keys = k[1];
    sizes.value_size = sizes.size;
    need_shape(context, kKey, {q[0], k[1], Dim(heads), Dim(2), sizes.size});
    if (context.has_input(kValue)) context.error("value is given beside a key that holds it");
    return sizes;
  }
  if (!context.has_input(kValue)) context.error("value is left out beside a key of shape ", str(k));
  const Shape& v = context.shape(kValue);
  if (k.size() == 4) {
    need_rank(context, kValue, 4);
    sizes.keys = k[2];
    sizes.value_size = v[3];
    need_shape(context, kKey, {q[0], Dim(heads), k[2], sizes.size});
    need_shape(context, kValue, {q[0], Dim(heads), k[2], v[3]});
    return sizes;
  }
  need_rank(context, kKey, 3);
  need_rank(context, kValue, 3);
  sizes.keys = k[1];
  sizes.value_size = part_of(context, v[2], heads);
  need_shape(context, kKey, {q[0], k[1], q[2]});
  need_shape(context, kValue, {q[0], k[1], v[2]});
  return sizes;
}

void infer_multi_head(InferContext& context) {
  need_types(context, {kPadding, kCacheLength, kIndirection});
  refuse_inputs(context, {{kCacheLength, "past_sequence_length"}, {kIndirection, "cache_indirection"}});
  if (output_wanted(context.node(), 3)) context.unsupported("output 3, the scores, is not computed");
  const Dim heads = heads_attribute(context, "num_heads");
  const Sizes sizes = sizes_of(context, heads.constant());
  const bool packed = context.rank(kQuery) == 5 || context.rank(kKey) == 5;
  if (context.has_input(kHeadBias) && packed)
    context.unsupported("a bias of packed operands is not supported");
  need_shape(context, kHeadBias, {heads * (sizes.size + sizes.size + sizes.value_size)});
  need_rank(context, kPastKey, 4);
  if (context.has_input(kPastKey) != context.has_input(kPastValue))
    context.error("past_key and past_value are given together");
  const Dim past = context.has_input(kPastKey) ? context.shape(kPastKey)[2] : Dim(0),
            total = past + sizes.keys;
  need_shape(context, kPastKey, {sizes.batch, heads, past, sizes.size});
  need_shape(context, kPastValue, {sizes.batch, heads, past, sizes.value_size});
  need_mask(context, kPadding, sizes.batch, sizes.queries, total);
  const Shape scores = {sizes.batch, heads, sizes.queries, total};
  need_scores(context, kScoreBias, scores);
  context.set_output(0, context.dtype(0), {sizes.batch, sizes.queries, heads * sizes.value_size});
  context.set_output(1, context.dtype(0), {sizes.batch, heads, total, sizes.size});
  context.set_output(2, context.dtype(0), {sizes.batch, heads, total, sizes.value_size});
}

class MultiHeadBuilder : public Pieces {
 public:
  using Pieces::Pieces;
  std::vector<Node> run() {
    heads_ = int_attribute(node_, "num_heads");
    Operands operands = unpacked();
    operands.past_key = input(kPastKey);
    operands.past_value = input(kPastValue);
    const Dim past = given(kPastKey) ? shape(kPastKey)[2] : Dim(0);
    if (given(kPadding))
      operands.mask = added_mask(input(kPadding), shape(kQuery)[0], past + build_.shape(operands.k)[2]);
    operands.mask = sum(operands.mask, input(kScoreBias));
    const auto made = attend(operands, int_attribute(node_, "unidirectional") != 0);
    join_heads(made[0]);
    build_.give(1, made[1]);
    build_.give(2, made[2]);
    return build_.take();
  }

 private:
  // From [batch, positions, heads, several, size], the operand with number `which`.
  ValueId unpack(int packed, int64_t which) { return transpose(pick(input(packed), 3, which), {0, 2, 1, 3}); }

  // An operand plus its part of the bias, which begins at `first`.
  ValueId biased(int operand, const Dim& first) {
    ValueId value = input(operand);
    if (build_.shape(value).size() == 4) return value;
    if (given(kHeadBias))
      value = build_.add("Add", {value, slice(input(kHeadBias), 0, first, first + build_.shape(value)[2])});
    return split_heads(value, heads_);
  }

  Operands unpacked() {
    if (shape(kQuery).size() == 5) return {unpack(kQuery, 0), unpack(kQuery, 1), unpack(kQuery, 2)};
    const Dim width = shape(kQuery)[2];
    const ValueId q = biased(kQuery, 0);
    if (shape(kKey).size() == 5) return {q, unpack(kKey, 0), unpack(kKey, 1)};
    return {q, biased(kKey, width), biased(kValue, width + width)};
  }

  int64_t heads_ = 0;
};

}  // namespace

void register_contributed_attention_ops(OpTable& table) {
  OpRow projected =
      contributed("ProjectedAttention", {"Attention", 1, nullptr, "com.microsoft"},
                  "Attention of a tensor to itself, with the products that make Q, K and V.", {2, 7}, 2,
                  {{"do_rotary", int64_t{0}},
                   {"mask_filter_value", -10000.0},
                   {"num_heads", int64_t{0}, true},
                   {"past_present_share_buffer", int64_t{0}},
                   {"qkv_hidden_sizes", Ints()},
                   {"rotary_embedding_dim", int64_t{0}},
                   {"scale", 0.0},
                   {"unidirectional", int64_t{0}}});
  projected.infer = infer_projected;
  projected.expand = built<ProjectedBuilder>;
  table.add(std::move(projected));

  OpRow multi =
      contributed("MultiHeadAttention", {"MultiHeadAttention", 1, nullptr, "com.microsoft"},
                  "Attention with a bias of the operands, which may be packed into one.", {1, 10}, 4,
                  {{"mask_filter_value", -10000.0},
                   {"num_heads", int64_t{0}, true},
                   {"scale", 0.0},
                   {"unidirectional", int64_t{0}}});
  multi.infer = infer_multi_head;
  multi.expand = built<MultiHeadBuilder>;
  table.add(std::move(multi));

  register_group_query_attention(table);
}

}  // namespace tc
