// GroupQueryAttention of ONNX Runtime's own domain, expressed by the standard's Attention.
#include "ir/ops/contributed_attention.h"

namespace tc {
namespace {

// Inputs of GroupQueryAttention.
enum Grouped {
  kGroupQuery,
  kGroupKey,
  kGroupValue,
  kKeyCache,
  kValueCache,
  kLastKeys,
  kTotal,
  kCos,
  kSin,
  kPositions,
  kGroupBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
  kQueryLengths
};

// The length of the caches that a node returns: that of the caches that it reads, or the number of all keys
// if that is larger.
Dim cache_length(const Node& node, const Graph& graph) {
  const Shape& query = *graph[node.inputs[kGroupQuery]].shape;
  if (!input_given(node, kKeyCache)) return query[1];
  const Value& total = graph[node.inputs[kTotal]];
  const auto known = known_elements(total);
  if (!known || known->size() != 1) {
    fail(ErrorKind::Unsupported, node.origin.str(), ": total_sequence_length '", total.name,
         "' depends on data; it must be a constant or follow from shapes");
  }
  const Dim all = (*known)[0], room = (*graph[node.inputs[kKeyCache]].shape)[2];
  // Caches with room for all keys are changed in place.
  return dim_range(room - all, graph).low >= 0 ? room : max(all, room);
}

void infer_grouped_inputs(InferContext& context) {
  need_types(context, {kLastKeys, kTotal, kPositions});
  refuse_inputs(context, {{kSink, "head_sink"},
                          {kKeyScale, "k_scale"},
                          {kValueScale, "v_scale"},
                          {kQueryNorm, "q_norm_weight"},
                          {kKeyNorm, "k_norm_weight"},
                          {kQueryLengths, "query_seqlens"}});
  const Node& node = context.node();
  for (int i : {kLastKeys, kTotal}) {
    if (!context.has_input(i)) context.fail_at(ErrorKind::Model, text("leaves out input ", i));
  }
  if (output_wanted(node, 3)) context.unsupported("output 3, the scores, is not computed");
  if (int_attribute(node, "smooth_softmax") > 0)
    context.unsupported("attribute 'smooth_softmax' is not supported");
  refuse_attributes(context, {"sliding_window_cache", "qk_output"});
  if (context.has_input(kGroupBias) && float_attribute(node, "softcap") > 0)
    context.unsupported("attention_bias with a softcap is not supported");
  for (const char* name : {"k_quant_type", "v_quant_type"}) choice_attribute(node, name, {"NONE"});
  const bool pair = context.has_input(kGroupKey) == context.has_input(kGroupValue) &&
                    context.has_input(kKeyCache) == context.has_input(kValueCache);
  if (!pair) context.error("a key is given without a value, or the opposite");
  if (int_attribute(node, "do_rotary") && (!context.has_input(kCos) || !context.has_input(kSin))) {
    context.error("do_rotary is 1, but cos_cache and sin_cache are left out");
  }
}

void infer_grouped(InferContext& context) {
  infer_grouped_inputs(context);
  const int64_t heads = heads_attribute(context, "num_heads"),
                kv_heads = heads_attribute(context, "kv_num_heads");
  if (heads % kv_heads != 0)
    context.error(heads, " heads of queries do not share ", kv_heads, " heads of keys evenly");
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
    const Dim rotated = context.shape(kCos)[1] * Dim(2);
    if (!rotated.is_constant() || rotated.constant() < 1 || rotated.constant() > size.constant()) {
      context.error("caches of shape ", str(context.shape(kCos)), " do not turn heads of ", size.str(),
                    " elements");
    }
  }
  context.set_output(0, context.dtype(0), {q[0], q[1], Dim(heads) * size});
  for (int i : {1, 2}) context.set_output(i, context.dtype(0), {q[0], Dim(kv_heads), total, size});
}

class GroupedBuilder : public Pieces {
 public:
  GroupedBuilder(Graph& graph, const Node& node)
      : Pieces(graph, node),
        heads_(int_attribute(node, "num_heads")),
        kv_heads_(int_attribute(node, "kv_num_heads")),
        total_(cache_length(node, graph)),
        batch_(shape(kGroupQuery)[0]),
        queries_(shape(kGroupQuery)[1]) {}

  std::vector<Node> run() {
    lengths_ = build_.add(
        "Add", {build_.cast(reshape(input(kLastKeys), {batch_}), DType::I64), build_.integer(DType::I64, 1)});
    // The position of the first query, after the keys of the past; 0 for a first prompt that is padded.
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
      q = rotated(q, heads_, positions);
      k = rotated(k, kv_heads_, positions);
    }
    Operands operands;
    operands.q = split_heads(q, heads_);
    operands.k = cached(split_heads(k, kv_heads_), kKeyCache, 1);
    operands.v = cached(split_heads(v, kv_heads_), kValueCache, 2);
    operands.mask = seen(places);
    if (given(kGroupBias)) {
      operands.mask =
          build_.add("Where", {operands.mask, input(kGroupBias), build_.number(type(), -INFINITY)});
    }
    join_heads(attend(operands, false)[0]);
    return build_.take();
  }

 private:
  ValueId rotated(ValueId value, int64_t heads, ValueId positions) {
    const int64_t size = 2 * build_.shape(input(kCos))[1].constant();
    return build_.add("RotaryEmbedding", {value, input(kCos), input(kSin), positions},
                      {{"num_heads", heads},
                       {"rotary_embedding_dim", size},
                       {"interleaved", int_attribute(node_, "rotary_interleaved")}});
  }

  // Puts the new keys or values into the cache, which is also an output.
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
    if (int_attribute(node_, "causal") == 0)
      return build_.add("Less", {keys, unsqueeze(lengths_, {1, 2, 3})});
    const ValueId rows = unsqueeze(places, {1, 3});
    const ValueId behind = build_.add("LessOrEqual", {keys, rows});
    const int64_t window = int_attribute(node_, "local_window_size");
    if (window < 0) return behind;
    const ValueId near =
        build_.add("Less", {build_.add("Sub", {rows, build_.integer(DType::I64, window)}), keys});
    return build_.add("And", {behind, near});
  }

  int64_t heads_, kv_heads_;
  Dim total_, batch_, queries_;
  ValueId lengths_ = kNoValue, first_ = kNoValue;
};

}  // namespace

void register_group_query_attention(OpTable& table) {
  OpRow grouped = contributed(
      "GroupQueryAttention", {"GroupQueryAttention", 1, nullptr, "com.microsoft"},
      "Causal attention with shared heads of keys, caches of a length per batch, and rotary positions.",
      {1, 17}, 4,
      {{"causal", int64_t{1}},
       {"do_rotary", int64_t{0}},
       {"k_quant_type", std::string("NONE")},
       {"kv_cache_bit_width", int64_t{0}},
       {"kv_num_heads", int64_t{0}, true},
       {"local_window_size", int64_t{-1}},
       {"num_heads", int64_t{0}, true},
       {"qk_output", int64_t{0}},
       {"rotary_interleaved", int64_t{0}},
       {"scale", 0.0},
       {"sliding_window_cache", int64_t{0}},
       {"smooth_softmax", int64_t{0}},
       {"softcap", 0.0},
       {"v_quant_type", std::string("NONE")}});
  grouped.infer = infer_grouped;
  grouped.expand = built<GroupedBuilder>;
  table.add(std::move(grouped));
}

}  // namespace tc
