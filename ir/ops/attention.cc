// Attention over keys and values, expanded to matrix products and a softmax.
#include <cmath>

#include "ir/ops/selection.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

using Ints = std::vector<int64_t>;

// --- Attention -------------------------------------------------------------------------------------

// Inputs: Q, K, V, attn_mask, past_key, past_value, nonpad_kv_seqlen.
enum Input { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kLengths };

// A larger window is unbounded: no tensor has more positions, which can be computed in 32 bits.
constexpr int64_t kLargestWindow = int64_t{1} << 30;
constexpr int64_t kUnbounded = -1;

// The sizes of an attention, from its operands' shapes.
struct Heads {
  int64_t groups = 1;             // query heads per head of the keys
  Dim batch, query_heads, heads;  // `heads`: of keys and values
  Dim queries, keys, past;        // `keys`: new ones; `past`: those before them
  Dim size, value_size;           // of a head
  Dim total() const { return past + keys; }
};

// The sizes from the shapes of Q, K, V and past_key (or null), whose ranks may be 3 or 4.
Heads heads_of(const Node& node, const Shape& q, const Shape& k, const Shape& v, const Shape* past_key) {
  Heads heads;
  heads.batch = q[0];
  if (q.size() == 3) {
    const int64_t queries = int_attribute(node, "q_num_heads"), keys = int_attribute(node, "kv_num_heads");
    heads.query_heads = queries;
    heads.heads = keys;
    heads.size = head_size(node, q[2], queries);
    head_size(node, k[2], keys);
    heads.value_size = head_size(node, v[2], keys);
    heads.queries = q[1];
    heads.keys = k[1];
  } else {
    heads.query_heads = q[1];
    heads.heads = k[1];
    heads.size = q[3];
    heads.value_size = v[3];
    heads.queries = q[2];
    heads.keys = k[2];
  }
  heads.past = past_key ? (*past_key)[2] : Dim(0);
  if (heads.query_heads == heads.heads) return heads;
  const bool known = heads.query_heads.is_constant() && heads.heads.is_constant();
  if (!known || heads.heads.constant() < 1 || heads.query_heads.constant() % heads.heads.constant() != 0) {
    fail(ErrorKind::Shape, node.origin.str(), ": ", heads.query_heads.str(),
         " heads of queries do not share ", heads.heads.str(), " heads of keys evenly");
  }
  heads.groups = heads.query_heads.constant() / heads.heads.constant();
  return heads;
}

void check_attention_types(InferContext& context) {
  for (int i : {kQuery, kKey, kValue, kPastKey, kPastValue}) {
    if (!context.has_input(i)) continue;
    const DType same = context.dtype(i == kValue || i == kPastValue ? kValue : kQuery);
    if (!is_float(context.dtype(i)) || context.dtype(i) != same) {
      context.error("input ", i, " has type ", name_of(context.dtype(i)), "; ",
                    is_float(same) ? name_of(same) : "a float type", " is needed");
    }
  }
  // A mask of any number type is added to the scores.
  if (context.has_input(kMask) && bits_of(context.dtype(kMask)) < (is_float(context.dtype(kMask)) ? 16 : 8)) {
    context.error("input 3 has type ", name_of(context.dtype(kMask)),
                  "; bool, integers of 8 bits or more and floats of 16 or more are possible");
  }
  if (context.has_input(kLengths) && context.dtype(kLengths) != DType::I64 &&
      context.dtype(kLengths) != DType::I32) {
    context.error("input 6 has type ", name_of(context.dtype(kLengths)), "; i32 or i64 is needed");
  }
}

// By how many elements the mask's last axis is shorter than the number of keys.
Dim missing(const Shape& mask, const Heads& heads) { return heads.total() - mask.back(); }

void check_mask(InferContext& context, const Heads& heads) {
  if (!context.has_input(kMask)) return;
  const Shape scores = {heads.batch, heads.query_heads, heads.queries, heads.total()};
  const Shape& mask = context.shape(kMask);
  const bool fits = !mask.empty() && mask.size() <= 4;
  const std::string message =
      text("the mask has shape ", str(mask), "; one that broadcasts to ", str(scores), " is needed");
  if (!fits) context.error(message);
  if (dim_range(missing(mask, heads), context.graph()).low < 0)
    need_equal(context, mask.back(), heads.total(), message);
  for (size_t i = 0; i + 1 < mask.size(); ++i) {
    if (mask[i] != Dim(1)) need_equal(context, mask[i], scores[4 - mask.size() + i], message);
  }
}

void infer_attention(InferContext& context) {
  const Node& node = context.node();
  check_attention_types(context);
  const int rank = context.rank(kQuery);
  if ((rank != 3 && rank != 4) || context.rank(kKey) != rank || context.rank(kValue) != rank) {
    context.error("Q, K and V have shapes ", str(context.shape(kQuery)), ", ", str(context.shape(kKey)),
                  " and ", str(context.shape(kValue)), "; all of rank 3 or all of rank 4 are needed");
  }
  const bool past = context.has_input(kPastKey);
  if (past != context.has_input(kPastValue) || (past && context.has_input(kLengths))) {
    context.error("past_key and past_value are given together, and never with nonpad_kv_seqlen");
  }
  if (past && context.rank(kPastKey) != 4)
    context.error("past_key has shape ", str(context.shape(kPastKey)), "; rank 4 is needed");
  const Dim &query_heads = context.shape(kQuery)[1], &key_heads = context.shape(kKey)[1];
  // With symbolic numbers of heads it is not known whether heads are shared.
  if (rank == 4 && !(query_heads.is_constant() && key_heads.is_constant())) {
    need_equal(
        context, query_heads, key_heads,
        text(query_heads.str(), " heads of queries do not share ", key_heads.str(), " heads of keys evenly"));
  }
  const Heads heads = heads_of(node, context.shape(kQuery), context.shape(kKey), context.shape(kValue),
                               past ? &context.shape(kPastKey) : nullptr);
  if (rank == 3) {
    need_shape(context, kKey, {heads.batch, heads.keys, heads.heads * heads.size});
    need_shape(context, kValue, {heads.batch, heads.keys, heads.heads * heads.value_size});
  } else {
    need_shape(context, kKey, {heads.batch, heads.heads, heads.keys, heads.size});
    need_shape(context, kValue, {heads.batch, heads.heads, heads.keys, heads.value_size});
  }
  need_shape(context, kPastKey, {heads.batch, heads.heads, heads.past, heads.size});
  need_shape(context, kPastValue, {heads.batch, heads.heads, heads.past, heads.value_size});
  need_shape(context, kLengths, {heads.batch});
  check_mask(context, heads);
  const std::string precision = string_attribute(node, "softmax_precision");
  if (!precision.empty() && !is_float(dtype_from_name(precision)))
    context.error("softmax_precision is ", precision, "; a float type is needed");
  const int64_t mode = int_attribute(node, "qk_matmul_output_mode");
  if (mode < 0 || mode > 3) context.error("qk_matmul_output_mode is ", mode, "; 0 to 3 are known");
  for (const char* name : {"left_window_size", "right_window_size"}) {
    const int64_t size = int_attribute(node, name);
    if (size < kUnbounded) context.error(name, " is ", size, "; -1 (no bound) or more is needed");
  }
  const Dim hidden = heads.query_heads * heads.value_size;
  context.set_output(0, context.dtype(kQuery),
                     rank == 3 ? Shape{heads.batch, heads.queries, hidden}
                               : Shape{heads.batch, heads.query_heads, heads.queries, heads.value_size});
  context.set_output(1, context.dtype(kQuery), {heads.batch, heads.heads, heads.total(), heads.size});
  context.set_output(2, context.dtype(kValue), {heads.batch, heads.heads, heads.total(), heads.value_size});
  context.set_output(3, context.dtype(kQuery),
                     {heads.batch, heads.query_heads, heads.queries, heads.total()});
}

// The expansion of one node.
class AttentionBuilder {
 public:
  AttentionBuilder(Graph& graph, const Node& node) : node_(node), build_(graph, node) {
    const bool past = input_given(node, kPastKey);
    heads_ =
        heads_of(node, build_.shape(node.inputs[kQuery]), build_.shape(node.inputs[kKey]),
                 build_.shape(node.inputs[kValue]), past ? &build_.shape(node.inputs[kPastKey]) : nullptr);
    type_ = build_.dtype(node.inputs[kQuery]);
  }

  std::vector<Node> run() {
    ValueId key = with_past(split(kKey, heads_.heads, heads_.size), kPastKey, 1);
    ValueId value = with_past(split(kValue, heads_.heads, heads_.value_size), kPastValue, 2);
    if (input_given(node_, kLengths) && !input_given(node_, kMask) && !output_wanted(node_, 3)) {
      bind_length();
      key = filled(key);
      value = filled(value);
    }
    if (is_causal_sequence()) {
      join(causal(key, value));
      return build_.take();
    }
    ValueId weights = softmax(masked(product(key)));
    give(3, weights);
    weights = build_.cast(weights, build_.dtype(value));
    ValueId y = build_.add("MatMul", {shared(weights, heads_.total()), value});
    join(build_.cast(unshared(y, heads_.value_size), type_));
    return build_.take();
  }

 private:
  bool flat() const { return build_.shape(node_.inputs[kQuery]).size() == 3; }
  ValueId reshape(ValueId value, const Shape& shape) {
    return build_.add("Reshape", {value}, {{"shape", shape}, {"allowzero", int64_t{1}}});
  }
  ValueId transpose(ValueId value, const Ints& perm) {
    return build_.add("Transpose", {value}, {{"perm", perm}});
  }
  ValueId infinity() { return build_.number(type_, -INFINITY); }

  // [batch, heads, positions, size] of an operand.
  ValueId split(int input, const Dim& heads, const Dim& size) {
    const ValueId value = node_.inputs[input];
    if (!flat()) return value;
    const Shape& shape = build_.shape(value);
    return transpose(reshape(value, {shape[0], shape[1], heads, size}), {0, 2, 1, 3});
  }

  // Appends keys or values to those of the past; the result is also an output.
  ValueId with_past(ValueId value, int past, size_t output) {
    if (input_given(node_, past))
      value = build_.add("Concat", {node_.inputs[past], value}, {{"axis", int64_t{2}}});
    build_.give(output, value);
    return value;
  }

  // Limits attention to the keys of the longest sequence, known only at run time: others are padding.
  void bind_length() {
    const bool one = only_sequence_ = heads_.batch == Dim(1);
    ValueId length = build_.cast(node_.inputs[kLengths], DType::I64);
    length = one ? reshape(length, {})
                 : build_.add("ReduceMax", {length}, {{"axes", Ints{0}}, {"keepdims", int64_t{0}}});
    const ValueId total = value_of(build_, heads_.total()), none = build_.integer(DType::I64, 0);
    length = build_.add("Max", {build_.add("Min", {length, total}), none});
    heads_.keys = build_.size(length, heads_.total());
    if (!one) return;
    heads_.past = heads_.keys - heads_.queries;  // its queries are at the last keys' positions
    heads_.keys = heads_.queries;
  }

  ValueId filled(ValueId value) {
    const std::vector<Dim> begin = {Dim(0)}, end = {heads_.total()};
    return build_.add("Slice", {value}, {{"starts", begin}, {"ends", end}, {"axes", Ints{2}}});
  }

  // Makes the query heads that share a key head rows of one matrix; `unshared` is the inverse.
  ValueId shared(ValueId value, const Dim& size) {
    if (heads_.groups == 1) return value;
    return reshape(value, {heads_.batch, heads_.heads, Dim(heads_.groups) * heads_.queries, size});
  }
  ValueId unshared(ValueId value, const Dim& size) {
    if (heads_.groups == 1) return value;
    return reshape(value, {heads_.batch, heads_.query_heads, heads_.queries, size});
  }

  // What scores are multiplied by, where that is known.
  std::optional<double> scale() const {
    if (has_attribute(node_, "scale")) return float_attribute(node_, "scale");
    if (!heads_.size.is_constant()) return std::nullopt;
    return 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, heads_.size.constant())));
  }

  // The scaled scores of all queries and keys.
  ValueId product(ValueId key) {
    const ValueId query = shared(split(kQuery, heads_.query_heads, heads_.size), heads_.size);
    const ValueId scores = build_.add("MatMul", {query, transpose(key, {0, 1, 3, 2})});
    if (const auto factor = scale())
      return unshared(build_.add("Mul", {scores, build_.number(type_, *factor)}), heads_.total());
    const ValueId root = build_.add("Sqrt", {build_.cast(value_of(build_, heads_.size), type_)});
    return unshared(build_.add("Div", {scores, root}), heads_.total());
  }

  // Whether the queries of one sequence see the keys up to their own position, and nothing else decides what
  // they see. Scores beyond are minus infinity, which a factor over 0 does not change.
  bool is_causal_sequence() const {
    return only_sequence_ && heads_.queries != Dim(1) && int_attribute(node_, "is_causal") != 0 &&
           window("left_window_size") == kUnbounded && !(float_attribute(node_, "softcap") > 0) &&
           scale().value_or(0) > 0;
  }

  // Such an attention: products that no query sees are not computed. The rows of the matrices are in the
  // order of positions, and the query heads that share a key head are neighbours, so that the last key that a
  // row sees is a linear function of its number, rounded down.
  ValueId causal(ValueId key, ValueId value) {
    const Ints swap = {0, 1, 3, 2, 4};
    const Dim groups = Dim(heads_.groups);
    ValueId query = split(kQuery, heads_.query_heads, heads_.size);
    if (heads_.groups > 1) {
      query = reshape(query, {heads_.batch, heads_.heads, groups, heads_.queries, heads_.size});
      query =
          reshape(transpose(query, swap), {heads_.batch, heads_.heads, heads_.queries * groups, heads_.size});
    }
    const std::map<std::string, Attribute> seen = {{"rows", heads_.groups},
                                                   {"first", std::vector<Dim>{heads_.past}}};
    const ValueId scores = build_.add("CausalScores", {query, transpose(key, {0, 1, 3, 2})}, seen);
    empty_rows_ = true;  // there may be fewer keys than queries
    const ValueId weights = softmax(build_.add("Mul", {scores, build_.number(type_, *scale())}));
    ValueId y = build_.add("CausalSum", {build_.cast(weights, build_.dtype(value)), value}, seen);
    y = build_.cast(y, type_);
    if (heads_.groups == 1) return y;
    y = reshape(y, {heads_.batch, heads_.heads, heads_.queries, groups, heads_.value_size});
    return reshape(transpose(y, swap), {heads_.batch, heads_.query_heads, heads_.queries, heads_.value_size});
  }

  // Makes the scores at this step an output, if the node asks for the scores at this step.
  void give(int64_t step, ValueId scores) {
    if (!output_wanted(node_, 3) || int_attribute(node_, "qk_matmul_output_mode") != step) return;
    build_.give(3, build_.cast(scores, type_));
  }

  ValueId range(const Dim& first, const Dim& count) {
    return build_.add(
        "Range", {},
        {{"range", std::vector<Dim>{first, first + count, Dim(1)}}, {"dtype", std::string("i32")}});
  }
  ValueId unsqueeze(ValueId value, const Ints& axes) {
    return build_.add("Unsqueeze", {value}, {{"axes", axes}});
  }
  ValueId both(ValueId a, ValueId b) {
    return a == kNoValue ? b : b == kNoValue ? a : build_.add("And", {a, b});
  }

  // How many positions before or after its own a query sees; kUnbounded if there is no bound.
  int64_t window(const char* name) const {
    const int64_t size = int_attribute(node_, name);
    return size > kLargestWindow ? kUnbounded : size;
  }

  // True where a key is in the window of a query, which ends at the query itself if the attention is causal;
  // kNoValue where all keys are. Queries follow the keys of the past. With lengths, the last query is at the
  // last key that is not padding, and the number of queries is added to both positions.
  ValueId in_window(ValueId lengths) {
    const int64_t before = window("left_window_size");
    int64_t after = int_attribute(node_, "is_causal") != 0 ? 0 : window("right_window_size");
    if (lengths == kNoValue && heads_.queries == Dim(1) && heads_.total() == heads_.past + Dim(1))
      after = kUnbounded;
    if (before == kUnbounded && after == kUnbounded) return kNoValue;
    const Dim first = lengths == kNoValue ? heads_.past : Dim(0),
              moved = lengths == kNoValue ? Dim(0) : heads_.queries;
    const auto queries = [&](int64_t further) {
      const ValueId rows = unsqueeze(range(first + Dim(further), heads_.queries), {1});
      return lengths == kNoValue ? rows : build_.add("Add", {rows, lengths});
    };
    ValueId inside = kNoValue;
    if (after != kUnbounded)
      inside = build_.add("LessOrEqual", {range(moved, heads_.total()), queries(after)});
    if (before != kUnbounded)
      inside = both(inside, build_.add("GreaterOrEqual", {range(moved, heads_.total()), queries(-before)}));
    return inside;
  }

  // The given mask, padded to the number of keys.
  ValueId given_mask() {
    if (!input_given(node_, kMask)) return kNoValue;
    const bool boolean = build_.dtype(node_.inputs[kMask]) == DType::Bool;
    const ValueId mask = boolean ? node_.inputs[kMask] : build_.cast(node_.inputs[kMask], type_);
    const Shape shape = build_.shape(mask);
    const Dim lacking = missing(shape, heads_);
    if (lacking == Dim(0)) return mask;
    std::vector<Dim> pads(2 * shape.size(), Dim(0));
    pads.back() = lacking;
    return build_.add("Pad", {mask, boolean ? build_.number(DType::Bool, 0) : infinity()}, {{"pads", pads}});
  }

  // The scores squashed into (-softcap, softcap).
  ValueId capped(ValueId scores) {
    const double softcap = float_attribute(node_, "softcap");
    if (!(softcap > 0)) return scores;
    const ValueId cap = build_.number(type_, softcap);
    return build_.add("Mul", {build_.add("Tanh", {build_.add("Div", {scores, cap})}), cap});
  }

  // The capped scores with the mask, and -inf for keys that a query does not see. The order is that of the
  // standard's corrected text: its first versions applied the softcap after the mask.
  ValueId masked(ValueId scores) {
    give(0, scores);
    scores = capped(scores);
    give(1, scores);
    ValueId lengths = kNoValue;
    if (input_given(node_, kLengths) && !only_sequence_)
      lengths = unsqueeze(build_.cast(node_.inputs[kLengths], DType::I32), {1, 2, 3});
    const ValueId mask = given_mask();
    const bool boolean = mask != kNoValue && build_.dtype(mask) == DType::Bool;
    ValueId allowed = in_window(lengths);
    if (lengths != kNoValue) allowed = both(allowed, build_.add("Less", {range(0, heads_.total()), lengths}));
    if (boolean) allowed = both(allowed, mask);
    if (mask != kNoValue && !boolean) scores = build_.add("Add", {scores, mask});
    empty_rows_ = mask != kNoValue || lengths != kNoValue || window("left_window_size") != kUnbounded ||
                  (only_sequence_ && heads_.queries != Dim(1));
    if (allowed != kNoValue) scores = build_.add("Where", {allowed, scores, infinity()});
    give(2, scores);
    return scores;
  }

  // A precision below that of the operands is raised to theirs.
  ValueId softmax(ValueId scores) {
    const std::string precision = string_attribute(node_, "softmax_precision");
    if (precision == "f64") scores = build_.cast(scores, DType::F64);
    const ValueId weights =
        build_.add("Softmax", {scores}, {{"axis", int64_t{-1}}, {"masked", int64_t{empty_rows_ ? 1 : 0}}});
    return build_.cast(weights, type_);
  }

  void join(ValueId y) {
    if (!output_wanted(node_, 0)) return;
    if (!flat()) return build_.give(0, y);
    const Shape shape = {heads_.batch, heads_.queries, heads_.query_heads * heads_.value_size};
    build_.add_to("Reshape", {transpose(y, {0, 2, 1, 3})}, {node_.outputs[0]},
                  {{"shape", shape}, {"allowzero", int64_t{1}}});
  }

  const Node& node_;
  NodeBuilder build_;
  Heads heads_;
  DType type_;
  bool empty_rows_ = false;     // a query may see no key at all: its result is 0
  bool only_sequence_ = false;  // the batch is 1: its keys end where the attention ends
};

OpRow attention_row() {
  OpRow row;
  row.name = "Attention";
  row.kind = OpRow::Kind::Expand;
  row.category = "attention";
  row.doc =
      "Scaled dot-product attention with masks, windows, caches and shared heads of keys. A softcap comes before the mask, at every version; a query that sees no key gives 0.";
  row.onnx = {{"Attention", 23, dtype_attribute("softmax_precision")},
              {"Attention", 25, dtype_attribute("softmax_precision")}};
  row.minimum_inputs = 3;
  row.maximum_inputs = 7;
  row.outputs = 4;
  row.attributes = {{"is_causal", int64_t{0}},
                    {"q_num_heads", int64_t{0}},
                    {"kv_num_heads", int64_t{0}},
                    {"qk_matmul_output_mode", int64_t{0}},
                    {"scale", 1.0},
                    {"softcap", 0.0},
                    {"softmax_precision", std::string()},
                    {"left_window_size", int64_t{-1}},
                    {"right_window_size", int64_t{-1}}};
  row.infer = infer_attention;
  row.expand = [](Graph& graph, const Node& node) { return AttentionBuilder(graph, node).run(); };
  return row;
}

}  // namespace

void register_attention_ops(OpTable& table) { table.add(attention_row()); }

}  // namespace tc
