// Sorts rows of any length: blocks are sorted by counting, then runs are merged in pairs, in a Scan over the
// lengths of runs.
#include <cmath>

#include "ir/ops/selection.h"

namespace tc {
namespace {

// Blocks are sorted by counting, which vectorises; rows of up to kShortRow elements are sorted so as a whole.
constexpr int64_t kBlockBits = 6, kBlock = int64_t{1} << kBlockBits;
constexpr int64_t kShortRow = 256;
// Stages of merging for rows of 2^40 elements.
constexpr int64_t kMaxStages = 34;

// The pair of runs that output `o` of a row belongs to: runs of `width` elements, of which the right one may
// be shorter.
struct Pair {
  ExprPtr width, place, base, left_length, right_length;
};

ExprPtr number(int64_t value) { return int_constant(DType::I64, value); }

Pair pair_of(LowerContext& context, const Affine& output) {
  const Affine length = context.dim(context.shape(0)[1]);
  Pair pair;
  pair.width = binary(BinaryOp::Shl, number(1), context.read(1, std::vector<Affine>()));
  ExprPtr last = binary(BinaryOp::Sub, binary(BinaryOp::Add, pair.width, pair.width), number(1));
  pair.place = binary(BinaryOp::And, index_value(output), last);
  pair.base = binary(BinaryOp::Sub, index_value(output), pair.place);
  ExprPtr left = binary(BinaryOp::Sub, index_value(length), pair.base);
  pair.left_length = binary(BinaryOp::Min, pair.width, left);
  pair.right_length = binary(
      BinaryOp::Max, binary(BinaryOp::Min, binary(BinaryOp::Sub, left, pair.width), pair.width), number(0));
  return pair;
}

// Whether the next element of the pair comes from the left run, after `left` elements of the left run and
// `right` elements of the right one have been taken. Of equal elements the left one comes first.
ExprPtr takes_left(LowerContext& context, const Pair& pair, const Affine& row, const ExprPtr& left,
                   const ExprPtr& right) {
  ExprPtr last = index_value(context.dim(context.shape(0)[1]) - Affine(1));
  auto element = [&](const ExprPtr& at) {
    return context.read(
        0,
        std::vector<Subscript>{
            {row, nullptr}, {Affine(0), binary(BinaryOp::Max, binary(BinaryOp::Min, at, last), number(0))}});
  };
  const bool largest = int_attribute(context.node(), "largest") != 0;
  ExprPtr mine = element(binary(BinaryOp::Add, pair.base, left));
  ExprPtr theirs = element(binary(BinaryOp::Add, binary(BinaryOp::Add, pair.base, pair.width), right));
  ExprPtr first = unary(UnaryOp::Not, binary(largest ? BinaryOp::Gt : BinaryOp::Lt, theirs, mine));
  ExprPtr right_done = binary(BinaryOp::Ge, right, pair.right_length),
          left_open = binary(BinaryOp::Lt, left, pair.left_length);
  return binary(BinaryOp::Or, right_done, binary(BinaryOp::And, left_open, first));
}

void infer_merge(InferContext& context) {
  if (context.rank(0) != 2)
    context.error("the rows have shape ", str(context.shape(0)), "; rank 2 is needed");
  context.set_output(0, DType::I64, context.shape(0));
}

// How many elements of the left run come before each output of its pair.
void lower_merge_path(LowerContext& context) {
  const Affine r = Affine::variable("r"), o = Affine::variable("o");
  const std::vector<Iterator> all = {{"r", context.dim(context.shape(0)[0])},
                                     {"o", context.dim(context.shape(0)[1])}};
  context.assign("first", all, context.output(0), {r, o}, number(0), {Affine(0) - o});
  const Pair pair = pair_of(context, o);
  ExprPtr left = context.read_buffer(context.output(0), {r, o - Affine(1)});
  ExprPtr right = binary(BinaryOp::Sub, binary(BinaryOp::Sub, pair.place, number(1)), left);
  // Unless the output begins a pair, the previous output belongs to the same pair.
  ExprPtr next = binary(BinaryOp::Add, left, cast(DType::I64, takes_left(context, pair, r, left, right)));
  context.assign("next", all, context.output(0), {r, o},
                 select(binary(BinaryOp::Eq, pair.place, number(0)), number(0), next), {o - Affine(1)});
}

// The source position of each output's element.
void lower_merge_source(LowerContext& context) {
  const Affine r = Affine::variable("r"), o = Affine::variable("o");
  const std::vector<Iterator> all = {{"r", context.dim(context.shape(0)[0])},
                                     {"o", context.dim(context.shape(0)[1])}};
  const Pair pair = pair_of(context, o);
  ExprPtr left = context.read(2, std::vector<Affine>{r, o});
  ExprPtr right = binary(BinaryOp::Sub, pair.place, left);
  ExprPtr at =
      select(takes_left(context, pair, r, left, right), left, binary(BinaryOp::Add, pair.width, right));
  context.assign("source", all, context.output(0), {r, o}, binary(BinaryOp::Add, pair.base, at));
}

// A key that comes last in the order.
TensorPtr last_key(DType type, bool largest) {
  if (is_float(type)) return number_tensor(type, {}, {largest ? -INFINITY : INFINITY});
  auto key = std::make_shared<Tensor>(type, std::vector<int64_t>());
  const int64_t bits = 8 * size_of(type);
  const bool is_signed = type == DType::I8 || type == DType::I16 || type == DType::I32 || type == DType::I64;
  const int64_t most =
      bits == 64 ? (is_signed ? INT64_MAX : -1) : (int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
  key->set_int(0, largest ? (is_signed ? -most - 1 : 0) : most);
  return key;
}

ValueId reshaped(NodeBuilder& build, ValueId value, const Shape& shape) {
  return build.add("Reshape", {value}, {{"shape", shape}, {"allowzero", int64_t{1}}});
}

// How many stages of merging rows of a length need.
Dim stages_of(NodeBuilder& build, const Dim& length) {
  if (length.is_constant()) {
    int64_t stages = 0;
    while ((kBlock << stages) < length.constant()) ++stages;
    return stages;
  }
  std::vector<int64_t> widths;
  for (int64_t i = 0; i < kMaxStages; ++i) widths.push_back(kBlock << i);
  const ValueId shorter =
      build.add("Less", {build.constant(int_tensor({kMaxStages}, widths)), value_of(build, length)});
  const ValueId count = build.add("ReduceSum", {build.cast(shorter, DType::I64)},
                                  {{"axes", std::vector<int64_t>{0}}, {"keepdims", int64_t{0}}});
  return build.size(count, Dim(kMaxStages));
}

// Merges sorted runs of kBlock keys in pairs until one is left; returns the places in that order.
ValueId merged(NodeBuilder& build, ValueId keys, ValueId places, bool largest) {
  const Dim stages = stages_of(build, build.shape(keys)[1]);
  if (stages == Dim(0)) return places;
  const Node no_node;
  auto body = std::make_shared<Graph>();
  body->name = "merge";
  body->symbols = build.graph().symbols;
  const ValueId inside_keys = body->add_value("keys", build.dtype(keys), build.shape(keys));
  const ValueId inside_places = body->add_value("places", DType::I64, build.shape(keys));
  const ValueId stage = body->add_value("stage", DType::I64, Shape{});
  body->inputs = {inside_keys, inside_places, stage};
  NodeBuilder inside(*body, no_node);
  const std::map<std::string, Attribute> order = {{"largest", int64_t{largest}}},
                                         along = {{"axis", int64_t{1}}};
  const ValueId path = inside.add("MergePath", {inside_keys, stage}, order);
  const ValueId source = inside.add("MergeSource", {inside_keys, stage, path}, order);
  body->outputs = {inside.add("GatherElements", {inside_keys, source}, along),
                   inside.add("GatherElements", {inside_places, source}, along)};
  body->nodes = inside.take();
  const ValueId numbers = build.add(
      "Range", {}, {{"range", std::vector<Dim>{Dim(kBlockBits), Dim(kBlockBits) + stages, Dim(1)}}});
  return build.add_many("Scan", {keys, places, numbers}, 2,
                        {{"body", GraphPtr(body)}, {"num_scan_inputs", int64_t{1}}})[1];
}

ValueId merge_sorted(NodeBuilder& build, ValueId keys, bool largest) {
  const Shape shape = build.shape(keys);
  const DType type = build.dtype(keys);
  if (is_float(type))
    keys = build.add("Where", {build.add("IsNaN", {keys}), build.number(type, INFINITY), keys});
  const Dim length = shape.back(), rows = element_count({shape.begin(), shape.end() - 1});
  const Dim blocks = ceil_div(length, Dim(kBlock)), padded = blocks * Dim(kBlock);
  keys = reshaped(build, keys, {rows, length});
  if (padded != length) {
    keys = build.add("Pad", {keys, build.constant(last_key(type, largest))},
                     {{"pads", std::vector<Dim>{Dim(0), Dim(0), Dim(0), padded - length}}});
  }
  keys = reshaped(build, keys, {rows * blocks, Dim(kBlock)});
  const ValueId order = order_of_ranks(
      build, build.add("Ranks", {keys}, {{"axis", int64_t{-1}}, {"largest", int64_t{largest}}}));
  keys = reshaped(build, build.add("GatherElements", {keys, order}, {{"axis", int64_t{1}}}), {rows, padded});
  const ValueId begins = build.add("Range", {}, {{"range", std::vector<Dim>{Dim(0), padded, Dim(kBlock)}}});
  const ValueId places = build.add("Add", {reshaped(build, order, {rows, blocks, Dim(kBlock)}),
                                           reshaped(build, begins, {blocks, Dim(1)})});
  const ValueId sorted = merged(build, keys, reshaped(build, places, {rows, padded}), largest);
  const ValueId kept = build.add("Slice", {sorted},
                                 {{"starts", std::vector<Dim>{Dim(0)}},
                                  {"ends", std::vector<Dim>{length}},
                                  {"axes", std::vector<int64_t>{1}}});
  return reshaped(build, kept, shape);
}

OpRow merge_row(const std::string& name, int inputs, const std::string& doc,
                std::function<void(LowerContext&)> lower) {
  OpRow row;
  row.name = name;
  row.category = "selection";
  row.doc = doc;
  row.minimum_inputs = row.maximum_inputs = inputs;
  row.types = {{kNumbers, {0}}, {kIndices, {1}}};
  row.attributes = {{"largest", int64_t{0}}};
  row.infer = infer_merge;
  row.lower = std::move(lower);
  return row;
}

}  // namespace

ValueId sorted_order(NodeBuilder& build, ValueId keys, bool largest) {
  const Dim length = build.shape(keys).back();
  if (dim_range(length, build.graph()).high > kShortRow) return merge_sorted(build, keys, largest);
  return order_of_ranks(build,
                        build.add("Ranks", {keys}, {{"axis", int64_t{-1}}, {"largest", int64_t{largest}}}));
}

void register_merge_rows(OpTable& table) {
  table.add(merge_row(
      "MergePath", 2,
      "How many elements of the left one of two sorted runs come before each element of both; runs have 2 to the power of input 1 elements.",
      lower_merge_path));
  table.add(merge_row("MergeSource", 3,
                      "Where each element of two merged runs lies, by the path of their merging.",
                      lower_merge_source));
}

}  // namespace tc
