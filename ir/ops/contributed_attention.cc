// The attentions of ONNX Runtime's own domain, brought to the one of the standard: Attention (with the
// projections of its input), MultiHeadAttention and GroupQueryAttention.
#include <algorithm>
#include <cmath>

#include "ir/ops/rows.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

using Ints = std::vector<int64_t>;

// Operands that no row takes, by their numbers and names.
struct Refused {
  int input;
  const char* name;
};

void refuse_inputs(InferContext& context, const std::vector<Refused>& refused) {
  for (const Refused& each : refused) {
    if (context.has_input(each.input)) context.unsupported("input ", each.input, ", ", each.name, ", is not supported");
  }
}

void refuse_attributes(InferContext& context, const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (int_attribute(context.node(), name) != 0) context.unsupported("attribute '", name, "' is not supported");
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

// Floats of one type, and for the inputs in `integers` i32 or i64.
void need_types(InferContext& context, const std::vector<int>& integers) {
  for (int i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i)) continue;
    const DType type = context.dtype(i);
    const bool index = std::count(integers.begin(), integers.end(), i) != 0;
    if (index ? type == DType::I32 || type == DType::I64 : is_float(type) && type == context.dtype(0)) continue;
    context.error("input ", i, " has type ", name_of(type), "; ", index ? "i32 or i64" : "one float type", " is needed");
  }
}

// What is added to the scores broadcasts to them.
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

// What the expansions have in common.
class Pieces {
 public:
  Pieces(Graph& graph, const Node& node) : node_(node), build_(graph, node) {}

 protected:
  bool given(int input) const { return input_given(node_, input); }
  ValueId input(int i) const { return given(i) ? node_.inputs[i] : kNoValue; }
  const Shape& shape(int i) const { return build_.shape(node_.inputs[i]); }
  DType type() const { return build_.dtype(node_.inputs[0]); }

  ValueId reshape(ValueId value, const Shape& shape) { return build_.add("Reshape", {value}, {{"shape", shape}, {"allowzero", int64_t{1}}}); }
  ValueId transpose(ValueId value, const Ints& perm) { return build_.add("Transpose", {value}, {{"perm", perm}}); }
  ValueId unsqueeze(ValueId value, const Ints& axes) { return build_.add("Unsqueeze", {value}, {{"axes", axes}}); }
  ValueId squeeze(ValueId value, int64_t axis) { return build_.add("Squeeze", {value}, {{"axes", Ints{axis}}}); }
  ValueId slice(ValueId value, int64_t axis, const Dim& first, const Dim& end) {
    return build_.add("Slice", {value}, {{"starts", std::vector<Dim>{first}}, {"ends", std::vector<Dim>{end}}, {"axes", Ints{axis}}});
  }
  // One of the things that lie side by side along an axis.
  ValueId pick(ValueId value, int64_t axis, int64_t which) { return squeeze(slice(value, axis, which, which + 1), axis); }
  ValueId range(const Dim& count, DType type) {
    return build_.add("Range", {}, {{"range", std::vector<Dim>{Dim(0), count, Dim(1)}}, {"dtype", std::string(name_of(type))}});
  }
  // [batch, positions, heads * size] as [batch, heads, positions, size].
  ValueId split_heads(ValueId value, int64_t heads) {
    const Shape shape = build_.shape(value);
    return transpose(reshape(value, {shape[0], shape[1], Dim(heads), floor_div(shape[2], Dim(heads))}), {0, 2, 1, 3});
  }
  void join_heads(ValueId value) {
    const Shape shape = build_.shape(value);
    build_.give(0, reshape(transpose(value, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]}));
  }

  // A mask in one of its forms ([batch] or [2 * batch]: ends, starts; [batch, keys]; [batch, queries, keys]) as
  // numbers to be added to scores.
  ValueId added_mask(ValueId mask, const Dim& batch, const Dim& keys) {
    const Shape shape = build_.shape(mask);
    ValueId seen;
    if (shape.size() == 1) {
      const DType index = build_.dtype(mask);
      auto bound = [&](const Dim& first) { return unsqueeze(slice(mask, 0, first, first + batch), {1, 2, 3}); };
      const ValueId places = range(keys, index);
      seen = build_.add("Less", {places, bound(0)});
      if (shape[0] != batch) seen = build_.add("And", {seen, build_.add("GreaterOrEqual", {places, bound(batch)})});
    } else {
      seen = build_.add("Greater", {mask, build_.integer(build_.dtype(mask), 0)});
      seen = unsqueeze(seen, shape.size() == 2 ? Ints{1, 2} : Ints{1});
    }
    const ValueId filter = build_.number(type(), float_attribute(node_, "mask_filter_value"));
    return build_.add("Where", {seen, build_.number(type(), 0), filter});
  }

  // Attention of [batch, heads, positions, size] operands, whose keys and values follow those of the past.
  struct Operands {
    ValueId q, k, v, mask = kNoValue, past_key = kNoValue, past_value = kNoValue;
  };
  ValueId sum(ValueId a, ValueId b) { return a == kNoValue ? b : b == kNoValue ? a : build_.add("Add", {a, b}); }
  std::vector<ValueId> attend(const Operands& operands, bool causal) {
    std::map<std::string, Attribute> attributes = {{"is_causal", int64_t{causal ? 1 : 0}}};
    const double scale = float_attribute(node_, "scale");
    if (scale != 0) attributes["scale"] = scale;
    if (node_.op->attribute("softcap")) attributes["softcap"] = float_attribute(node_, "softcap");
    return build_.add_many("Attention", {operands.q, operands.k, operands.v, operands.mask, operands.past_key, operands.past_value}, 3, attributes);
  }

  const Node& node_;
  NodeBuilder build_;
};

// Shape errors where a mask has none of the forms that `added_mask` takes.
void need_mask(InferContext& context, int input, const Dim& batch, const Dim& queries, const Dim& keys) {
  if (!context.has_input(input)) return;
  const Shape& mask = context.shape(input);
  if (mask == Shape{Dim(2) * batch}) return;
  const Shape needed = mask.size() == 1 ? Shape{batch} : mask.size() == 2 ? Shape{batch, keys} : Shape{batch, queries, keys};
  bool fits = mask.size() == needed.size();
  for (size_t i = 0; fits && i < mask.size(); ++i) {
    const Interval range = dim_range(mask[i] - needed[i], context.graph());
    fits = range.low <= 0 && range.high >= 0;
  }
  if (fits) return need_shape(context, input, needed);
  context.unsupported("input ", input, ", a mask of shape ", str(mask), ", is not supported; [", batch.str(), "], [", (Dim(2) * batch).str(), "], ",
                      str(Shape{batch, keys}), " or ", str(Shape{batch, queries, keys}), " is");
}

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
  if (given.size() != 3 || given[0] != given[1] || given[0] < 0 || given[2] < 0 || all != Dim(given[0]) + Dim(given[1]) + Dim(given[2])) {
    context.error("qkv_hidden_sizes do not divide the ", all.str(), " columns of the weights into those of Q, K and V");
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
      build_.give(1, build_.add("Concat", {unsqueeze(made[1], {0}), unsqueeze(made[2], {0})}, {{"axis", int64_t{0}}}));
    }
    return build_.take();
  }
};

// --- MultiHeadAttention ---------------------------------------------------------------------------------

// Inputs of MultiHeadAttention.
enum MultiHead { kQuery, kKey, kValue, kHeadBias, kPadding, kScoreBias, kPastKey, kPastValue, kCacheLength, kIndirection };

// The sizes of [batch, heads, positions, size] operands, of whichever forms they come in.
struct Sizes {
  Dim batch, queries, keys, size, value_size;
};

Sizes sizes_of(InferContext& context, int64_t heads) {
  const Shape& q = context.shape(kQuery);
  Sizes sizes;
  if (q.size() == 5) {
    need_shape(context, kQuery, {q[0], q[1], Dim(heads), Dim(3), q[4]});
    if (context.has_input(kKey) || context.has_input(kValue)) context.error("key and value are given beside a query that holds them");
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
  if (context.has_input(kHeadBias) && packed) context.unsupported("a bias of packed operands is not supported");
  need_shape(context, kHeadBias, {heads * (sizes.size + sizes.size + sizes.value_size)});
  need_rank(context, kPastKey, 4);
  if (context.has_input(kPastKey) != context.has_input(kPastValue)) context.error("past_key and past_value are given together");
  const Dim past = context.has_input(kPastKey) ? context.shape(kPastKey)[2] : Dim(0), total = past + sizes.keys;
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
    if (given(kPadding)) operands.mask = added_mask(input(kPadding), shape(kQuery)[0], past + build_.shape(operands.k)[2]);
    operands.mask = sum(operands.mask, input(kScoreBias));
    const auto made = attend(operands, int_attribute(node_, "unidirectional") != 0);
    join_heads(made[0]);
    build_.give(1, made[1]);
    build_.give(2, made[2]);
    return build_.take();
  }

 private:
  // [batch, positions, heads, several, size]: the one with the number `which`.
  ValueId unpack(int packed, int64_t which) { return transpose(pick(input(packed), 3, which), {0, 2, 1, 3}); }

  // An operand with its part of the bias, which begins at `first`.
  ValueId biased(int operand, const Dim& first) {
    ValueId value = input(operand);
    if (build_.shape(value).size() == 4) return value;
    if (given(kHeadBias)) value = build_.add("Add", {value, slice(input(kHeadBias), 0, first, first + build_.shape(value)[2])});
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

// --- GroupQueryAttention --------------------------------------------------------------------------------

// Inputs of GroupQueryAttention.
enum Grouped { kGroupQuery, kGroupKey, kGroupValue, kKeyCache, kValueCache, kLastKeys, kTotal, kCos, kSin, kPositions, kGroupBias, kSink,
               kKeyScale, kValueScale, kQueryNorm, kKeyNorm, kQueryLengths };

// The length of the caches that a node gives: of those that it reads, or of all keys where these are more.
Dim cache_length(const Node& node, const Graph& graph) {
  const Shape& query = *graph[node.inputs[kGroupQuery]].shape;
  if (!input_given(node, kKeyCache)) return query[1];
  const Value& total = graph[node.inputs[kTotal]];
  const auto known = known_elements(total);
  if (!known || known->size() != 1) {
    fail(ErrorKind::Unsupported, node.origin.str(), ": total_sequence_length '", total.name, "' depends on data; it must be a constant or follow from shapes");
  }
  return max((*known)[0], (*graph[node.inputs[kKeyCache]].shape)[2]);
}

void infer_grouped_inputs(InferContext& context) {
  need_types(context, {kLastKeys, kTotal, kPositions});
  refuse_inputs(context, {{kSink, "head_sink"}, {kKeyScale, "k_scale"}, {kValueScale, "v_scale"}, {kQueryNorm, "q_norm_weight"},
                          {kKeyNorm, "k_norm_weight"}, {kQueryLengths, "query_seqlens"}});
  const Node& node = context.node();
  for (int i : {kLastKeys, kTotal}) {
    if (!context.has_input(i)) context.fail_at(ErrorKind::Model, text("leaves out input ", i));
  }
  if (output_wanted(node, 3)) context.unsupported("output 3, the scores, is not computed");
  if (int_attribute(node, "smooth_softmax") > 0) context.unsupported("attribute 'smooth_softmax' is not supported");
  refuse_attributes(context, {"sliding_window_cache", "qk_output"});
  if (context.has_input(kGroupBias) && float_attribute(node, "softcap") > 0) context.unsupported("attention_bias with a softcap is not supported");
  for (const char* name : {"k_quant_type", "v_quant_type"}) choice_attribute(node, name, {"NONE"});
  const bool pair = context.has_input(kGroupKey) == context.has_input(kGroupValue) && context.has_input(kKeyCache) == context.has_input(kValueCache);
  if (!pair) context.error("a key is given without a value, or the opposite");
  if (int_attribute(node, "do_rotary") && (!context.has_input(kCos) || !context.has_input(kSin))) {
    context.error("do_rotary is 1, but cos_cache and sin_cache are left out");
  }
}

void infer_grouped(InferContext& context) {
  infer_grouped_inputs(context);
  const int64_t heads = heads_attribute(context, "num_heads"), kv_heads = heads_attribute(context, "kv_num_heads");
  if (heads % kv_heads != 0) context.error(heads, " heads of queries do not share ", kv_heads, " heads of keys evenly");
  need_rank(context, kGroupQuery, 3);
  need_rank(context, kGroupKey, 3);
  need_rank(context, kKeyCache, 4);
  const Shape& q = context.shape(kGroupQuery);
  const bool packed = !context.has_input(kGroupKey);
  const Dim size = part_of(context, q[2], packed ? heads + 2 * kv_heads : heads);
  need_shape(context, kGroupKey, {q[0], q[1], Dim(kv_heads) * size});
  need_shape(context, kGroupValue, {q[0], q[1], Dim(kv_heads) * size});
  if (context.has_input(kKeyCache)) {
    const Shape cache = {q[0], Dim(kv_heads), context.shape(kKeyCache)[2], size};
    need_shape(context, kKeyCache, cache);
    need_shape(context, kValueCache, cache);
  }
  if (context.shape(kLastKeys) != Shape{q[0], Dim(1)}) need_shape(context, kLastKeys, {q[0]});
  need_shape(context, kPositions, {q[0], q[1]});
  const Dim total = cache_length(context.node(), context.graph());
  const Shape scores = {q[0], Dim(heads), q[1], total};
  need_scores(context, kGroupBias, scores);
  if (int_attribute(context.node(), "do_rotary")) {
    need_rank(context, kCos, 2);
    need_shape(context, kSin, context.shape(kCos));
    const Dim turned = context.shape(kCos)[1] * Dim(2);
    if (!turned.is_constant() || turned.constant() < 1 || turned.constant() > size.constant()) {
      context.error("caches of shape ", str(context.shape(kCos)), " do not turn heads of ", size.str(), " elements");
    }
  }
  context.set_output(0, context.dtype(0), {q[0], q[1], Dim(heads) * size});
  for (int i : {1, 2}) context.set_output(i, context.dtype(0), {q[0], Dim(kv_heads), total, size});
}

class GroupedBuilder : public Pieces {
 public:
  GroupedBuilder(Graph& graph, const Node& node)
      : Pieces(graph, node), heads_(int_attribute(node, "num_heads")), kv_heads_(int_attribute(node, "kv_num_heads")),
        total_(cache_length(node, graph)), batch_(shape(kGroupQuery)[0]), queries_(shape(kGroupQuery)[1]) {}

  std::vector<Node> run() {
    lengths_ = build_.add("Add", {build_.cast(reshape(input(kLastKeys), {batch_}), DType::I64), build_.integer(DType::I64, 1)});
    // Where the queries stand behind the keys of the past; a first prompt that is padded begins at 0.
    const ValueId count = build_.add("Size", {range(queries_, DType::I32)});
    first_ = build_.add("Max", {build_.add("Sub", {lengths_, count}), build_.integer(DType::I64, 0)});
    const ValueId places = build_.add("Add", {unsqueeze(first_, {1}), range(queries_, DType::I64)});
    ValueId q = input(kGroupQuery), k = input(kGroupKey), v = input(kGroupValue);
    if (k == kNoValue) {
      const Dim size = floor_div(shape(kGroupQuery)[2], Dim(heads_ + 2 * kv_heads_));
      const Dim keys = Dim(heads_) * size, values = Dim(heads_ + kv_heads_) * size;
      k = slice(q, 2, keys, values);
      v = slice(q, 2, values, shape(kGroupQuery)[2]);
      q = slice(q, 2, 0, keys);
    }
    if (int_attribute(node_, "do_rotary")) {
      const ValueId positions = given(kPositions) ? input(kPositions) : places;
      q = turned(q, heads_, positions);
      k = turned(k, kv_heads_, positions);
    }
    Operands operands;
    operands.q = split_heads(q, heads_);
    operands.k = cached(split_heads(k, kv_heads_), kKeyCache, 1);
    operands.v = cached(split_heads(v, kv_heads_), kValueCache, 2);
    operands.mask = seen(places);
    if (given(kGroupBias)) {
      operands.mask = build_.add("Where", {operands.mask, input(kGroupBias), build_.number(type(), -INFINITY)});
    }
    join_heads(attend(operands, false)[0]);
    return build_.take();
  }

 private:
  ValueId turned(ValueId value, int64_t heads, ValueId positions) {
    const int64_t size = 2 * build_.shape(input(kCos))[1].constant();
    return build_.add("RotaryEmbedding", {value, input(kCos), input(kSin), positions},
                      {{"num_heads", heads}, {"rotary_embedding_dim", size}, {"interleaved", int_attribute(node_, "rotary_interleaved")}});
  }

  // The cache with the new keys or values, an output.
  ValueId cached(ValueId value, int cache, size_t output) {
    if (given(cache)) {
      const std::vector<Dim> pads = {0, 0, 0, 0, 0, 0, total_ - shape(cache)[2], 0};
      const ValueId room = build_.add("Pad", {input(cache)}, {{"pads", pads}});
      value = build_.add("TensorScatter", {room, value, first_}, {{"axis", int64_t{2}}});
    }
    build_.give(output, value);
    return value;
  }

  // Which keys each query sees: [batch, 1, queries, keys].
  ValueId seen(ValueId places) {
    const ValueId keys = range(total_, DType::I64);
    if (int_attribute(node_, "causal") == 0) return build_.add("Less", {keys, unsqueeze(lengths_, {1, 2, 3})});
    const ValueId rows = unsqueeze(places, {1, 3});
    const ValueId behind = build_.add("LessOrEqual", {keys, rows});
    const int64_t window = int_attribute(node_, "local_window_size");
    if (window < 0) return behind;
    const ValueId near = build_.add("Less", {build_.add("Sub", {rows, build_.integer(DType::I64, window)}), keys});
    return build_.add("And", {behind, near});
  }

  int64_t heads_, kv_heads_;
  Dim total_, batch_, queries_;
  ValueId lengths_ = kNoValue, first_ = kNoValue;
};

OpRow contributed(const std::string& name, const OnnxName& onnx, const std::string& doc, const InputCount& inputs, int outputs,
                  std::vector<AttributeRow> attributes) {
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

template <class Builder>
std::vector<Node> built(Graph& graph, const Node& node) {
  return Builder(graph, node).run();
}

}  // namespace

void register_contributed_attention_ops(OpTable& table) {
  OpRow projected = contributed("ProjectedAttention", {"Attention", 1, nullptr, "com.microsoft"},
                                "Attention of a tensor to itself, with the products that make Q, K and V.", {2, 7}, 2,
                                {{"do_rotary", int64_t{0}}, {"mask_filter_value", -10000.0}, {"num_heads", int64_t{0}, true},
                                 {"past_present_share_buffer", int64_t{0}}, {"qkv_hidden_sizes", Ints()}, {"rotary_embedding_dim", int64_t{0}},
                                 {"scale", 0.0}, {"unidirectional", int64_t{0}}});
  projected.infer = infer_projected;
  projected.expand = built<ProjectedBuilder>;
  table.add(std::move(projected));

  OpRow multi = contributed("MultiHeadAttention", {"MultiHeadAttention", 1, nullptr, "com.microsoft"},
                            "Attention with a bias of the operands, which may be packed into one.", {1, 10}, 4,
                            {{"mask_filter_value", -10000.0}, {"num_heads", int64_t{0}, true}, {"scale", 0.0}, {"unidirectional", int64_t{0}}});
  multi.infer = infer_multi_head;
  multi.expand = built<MultiHeadBuilder>;
  table.add(std::move(multi));

  OpRow grouped = contributed("GroupQueryAttention", {"GroupQueryAttention", 1, nullptr, "com.microsoft"},
                              "Causal attention with shared heads of keys, caches of a length per batch, and rotary positions.", {1, 17}, 4,
                              {{"causal", int64_t{1}}, {"do_rotary", int64_t{0}}, {"k_quant_type", std::string("NONE")}, {"kv_cache_bit_width", int64_t{0}},
                               {"kv_num_heads", int64_t{0}, true}, {"local_window_size", int64_t{-1}}, {"num_heads", int64_t{0}, true},
                               {"qk_output", int64_t{0}}, {"rotary_interleaved", int64_t{0}}, {"scale", 0.0}, {"sliding_window_cache", int64_t{0}},
                               {"smooth_softmax", int64_t{0}}, {"softcap", 0.0}, {"v_quant_type", std::string("NONE")}});
  grouped.infer = infer_grouped;
  grouped.expand = built<GroupedBuilder>;
  table.add(std::move(grouped));
}

}  // namespace tc
