// Rotary positions: pairs of elements of a head, turned by angles that depend on the position.
#include "ir/ops/selection.h"
#include "ir/ops/sizes.h"

namespace tc {
namespace {

using Ints = std::vector<int64_t>;

// Inputs: X, cos_cache, sin_cache, position_ids.
struct Rotation {
  bool flat = false;  // [batch, positions, heads * size], else [batch, heads, positions, size]
  Dim batch, positions, heads, size;
  int64_t half = 0;  // how many pairs of a head's elements are rotated
};

// Where the attribute num_heads is 0, the caches' width gives the number of heads.
Rotation rotation_of(const Node& node, const Shape& x, const Shape& cache) {
  Rotation rotation;
  const int64_t heads = int_attribute(node, "num_heads"),
                rotated = int_attribute(node, "rotary_embedding_dim");
  const Dim width = cache.back() * Dim(2);
  rotation.flat = x.size() == 3;
  rotation.batch = x[0];
  rotation.positions = rotation.flat ? x[1] : x[2];
  if (!rotation.flat) {
    rotation.heads = x[1];
    rotation.size = x[3];
  } else if (heads == 0 && width != Dim(0)) {
    rotation.heads = floor_div(x[2], width);
    rotation.size = width;
  } else {
    rotation.heads = heads;
    rotation.size = head_size(node, x[2], heads);
  }
  const Dim pairs = rotated == 0 ? rotation.size : Dim(rotated);
  const bool fits = pairs.is_constant() && pairs == width && pairs.constant() > 0 &&
                    (!rotation.size.is_constant() || pairs.constant() <= rotation.size.constant()) &&
                    rotation.heads * rotation.size == (rotation.flat ? x[2] : x[1] * x[3]);
  if (!fits) {
    fail(ErrorKind::Shape, node.origin.str(), ": caches of shape ", str(cache), " do not turn ", pairs.str(),
         " of the ", rotation.size.str(), " elements of a head");
  }
  rotation.half = pairs.constant() / 2;
  return rotation;
}

// So many elements of a head are rotated: twice the width of the caches.
void agree_on_rotation(InferContext& context) {
  const Shape &x = context.shape(0), &cache = context.shape(1);
  const int64_t heads = int_attribute(context.node(), "num_heads"),
                rotated = int_attribute(context.node(), "rotary_embedding_dim");
  const Dim half = cache.back();
  Dim size = rotated > 0 ? Dim(rotated) : x.size() == 4 ? x[3] : half + half;
  if (rotated == 0 && x.size() == 3 && heads > 0) size = head_size(context.node(), x[2], heads);
  const std::string message =
      text("caches of shape ", str(cache), " do not turn heads of ", size.str(), " elements");
  if (rotated > 0 && x.size() == 3) need_number(context, x[2], "the size of the heads together");
  if (size.is_constant() && half.is_constant()) return;  // rotation_of compares numbers
  if (size.is_constant()) need_equal(context, half, Dim(size.constant() / 2), message);
  else need_number(context, half, "how many pairs of a head's elements are rotated");
  if (x.size() == 4) need_equal(context, x[3], half + half, message);
  else need_equal(context, x[2], Dim(heads) * (half + half), message);
}

void infer_rotary(InferContext& context) {
  for (int i : {1, 2}) {
    if (!is_float(context.dtype(0)) || context.dtype(i) != context.dtype(0)) {
      context.error("X and the caches have types ", name_of(context.dtype(0)), " and ",
                    name_of(context.dtype(i)), "; one float type is needed");
    }
  }
  const bool ids = context.has_input(3);
  if (ids && context.dtype(3) != DType::I64 && context.dtype(3) != DType::I32) {
    context.error("input 3 has type ", name_of(context.dtype(3)), "; i32 or i64 is needed");
  }
  const Shape& x = context.shape(0);
  if ((x.size() != 3 && x.size() != 4) || context.rank(1) != (ids ? 2 : 3)) {
    context.error("X and cos_cache have shapes ", str(x), " and ", str(context.shape(1)),
                  "; rank 3 or 4, and for the cache rank ", ids ? 2 : 3, " are needed");
  }
  agree_on_rotation(context);
  const Rotation rotation = rotation_of(context.node(), x, context.shape(1));
  if (!ids) need_shape(context, 1, {rotation.batch, rotation.positions, Dim(rotation.half)});
  need_shape(context, 2, context.shape(1));
  if (ids && context.shape(3) != Shape{Dim(1)}) need_shape(context, 3, {rotation.batch, rotation.positions});
  infer_same(context);
}

// The expansion of one node.
class RotaryBuilder {
 public:
  RotaryBuilder(Graph& graph, const Node& node)
      : node_(node),
        build_(graph, node),
        rotation_(rotation_of(node, build_.shape(node.inputs[0]), build_.shape(node.inputs[1]))) {}

  std::vector<Node> run() {
    const Shape shape = build_.shape(node_.inputs[0]);
    ValueId x = node_.inputs[0];
    if (rotation_.flat) {
      x = build_.add(
          "Reshape", {x},
          {{"shape", Shape{shape[0], shape[1], rotation_.heads, rotation_.size}}, {"allowzero", int64_t{1}}});
    }
    const bool interleaved = int_attribute(node_, "interleaved") != 0;
    if (!interleaved && rotation_.size == Dim(2 * rotation_.half)) return rotate_halves(x, shape);
    const int64_t half = rotation_.half, step = interleaved ? 2 : 1;
    const ValueId a = slice(x, 0, interleaved ? Dim(2 * half) : Dim(half), step);
    const ValueId b = slice(x, interleaved ? 1 : half, Dim(2 * half), step);
    const ValueId cos = cache(1), sin = cache(2);
    const ValueId real = build_.add("Sub", {build_.add("Mul", {cos, a}), build_.add("Mul", {sin, b})});
    const ValueId imaginary = build_.add("Add", {build_.add("Mul", {sin, a}), build_.add("Mul", {cos, b})});
    std::vector<ValueId> parts = {real, imaginary};
    if (interleaved) parts = {woven(real, imaginary)};
    if (rotation_.size != Dim(2 * half)) parts.push_back(slice(x, 2 * half, rotation_.size, 1));
    const std::map<std::string, Attribute> last = {{"axis", int64_t{3}}};
    if (!rotation_.flat) {
      build_.add_to("Concat", parts, node_.outputs, last);
    } else {
      build_.add_to("Reshape", {build_.add("Concat", parts, last)}, node_.outputs,
                    {{"shape", shape}, {"allowzero", int64_t{1}}});
    }
    return build_.take();
  }

 private:
  // All elements of the heads are rotated, each with the one half a head away: one node.
  std::vector<Node> rotate_halves(ValueId x, const Shape& shape) {
    Shape halves = build_.shape(x);
    halves.back() = Dim(2);
    halves.push_back(Dim(rotation_.half));
    const ValueId pairs = build_.add("Reshape", {x}, {{"shape", halves}, {"allowzero", int64_t{1}}});
    auto signs = std::make_shared<Tensor>(build_.dtype(x), std::vector<int64_t>{2});
    signs->set(0, -1);
    signs->set(1, 1);
    const ValueId rotated = build_.add("RotateHalves", {pairs, cache(1), build_.constant(signs), cache(2)});
    build_.add_to("Reshape", {rotated}, node_.outputs, {{"shape", shape}, {"allowzero", int64_t{1}}});
    return build_.take();
  }

  ValueId slice(ValueId value, int64_t first, const Dim& end, int64_t step) {
    return build_.add("Slice", {value},
                      {{"starts", std::vector<Dim>{first}},
                       {"ends", std::vector<Dim>{end}},
                       {"axes", Ints{3}},
                       {"steps", Ints{step}}});
  }

  // The two operands interleaved along the last axis.
  ValueId woven(ValueId a, ValueId b) {
    const std::map<std::string, Attribute> behind = {{"axes", Ints{4}}};
    const ValueId pairs =
        build_.add("Concat", {build_.add("Unsqueeze", {a}, behind), build_.add("Unsqueeze", {b}, behind)},
                   {{"axis", int64_t{4}}});
    Shape shape = build_.shape(a);
    shape.back() = Dim(2 * rotation_.half);
    return build_.add("Reshape", {pairs}, {{"shape", shape}, {"allowzero", int64_t{1}}});
  }

  // The factors for each position, with an axis for the heads.
  ValueId cache(int input) {
    ValueId value = node_.inputs[input];
    if (input_given(node_, 3)) value = build_.add("Gather", {value, positions()}, {{"axis", int64_t{0}}});
    return build_.add("Unsqueeze", {value}, {{"axes", Ints{rotation_.flat ? 2 : 1}}});
  }

  // A single number is the position at which all sequences begin.
  ValueId positions() {
    const ValueId ids = node_.inputs[3];
    if (build_.shape(ids).size() == 2) return ids;
    const std::vector<Dim> range = {Dim(0), rotation_.positions, Dim(1)};
    const ValueId steps =
        build_.add("Range", {}, {{"range", range}, {"dtype", std::string(name_of(build_.dtype(ids)))}});
    return build_.add("Unsqueeze", {build_.add("Add", {steps, ids})}, {{"axes", Ints{0}}});
  }

  const Node& node_;
  NodeBuilder build_;
  Rotation rotation_;
};

// The older form has the positions as input 1, and more attributes.
void contributed_rotary(Graph&, Node& node) {
  if (node.inputs.size() != 4)
    fail(ErrorKind::Model, node.origin.str(), " has ", node.inputs.size(),
         " inputs; RotaryEmbedding takes 4");
  node.inputs = {node.inputs[0], node.inputs[2], node.inputs[3], node.inputs[1]};
  auto packed = node.attributes.find("is_packed_batching");
  if (packed != node.attributes.end() && packed->second != Attribute(int64_t{0})) {
    fail(ErrorKind::Unsupported, node.origin.str(), ": is_packed_batching is not supported");
  }
  auto scale = node.attributes.find("scale");
  if (scale != node.attributes.end() && scale->second != Attribute(1.0)) {
    fail(ErrorKind::Unsupported, node.origin.str(), ": a scale of other than 1 is not supported");
  }
  for (const char* name : {"is_packed_batching", "scale"}) node.attributes.erase(name);
}

OpRow rotary_row() {
  OpRow row;
  row.name = "RotaryEmbedding";
  row.kind = OpRow::Kind::Expand;
  row.category = "attention";
  row.doc = "Pairs of a head's elements rotated by angles that depend on the position.";
  row.onnx = {{"RotaryEmbedding", 23}, {"RotaryEmbedding", 1, contributed_rotary, "com.microsoft"}};
  row.minimum_inputs = 3;
  row.maximum_inputs = 4;
  row.attributes = {
      {"interleaved", int64_t{0}}, {"num_heads", int64_t{0}}, {"rotary_embedding_dim", int64_t{0}}};
  row.infer = infer_rotary;
  row.expand = [](Graph& graph, const Node& node) { return RotaryBuilder(graph, node).run(); };
  return row;
}

void lower_halves(LowerContext& context) {
  const auto space = context.space("i", *context.output_value(0).shape);
  const std::vector<Affine>& at = space.position;
  const size_t part = at.size() - 2;
  std::vector<Affine> other = at, angle = at;
  other[part] = Affine(1) - at[part];
  angle.erase(angle.begin() + static_cast<std::ptrdiff_t>(part));
  const auto turned = [&](int input, const std::vector<Affine>& element) {
    return binary(BinaryOp::Mul, context.read(0, element),
                  context.read(input, context.broadcast_index(context.shape(input), angle)));
  };
  const ExprPtr sign = context.read(2, std::vector<Affine>{at[part]});
  context.assign("rotated", space.iterators, context.output(0), at,
                 binary(BinaryOp::Add, turned(1, at), binary(BinaryOp::Mul, sign, turned(3, other))));
}

// Of pairs (X[..., 0, i], X[..., 1, i]), turned by angles whose cosine and sine are C and S; G is -1, 1.
OpRow halves_row() {
  OpRow row;
  row.name = "RotateHalves";
  row.kind = OpRow::Kind::Compute;
  row.category = "attention";
  row.doc = "Pairs of elements half a head apart, rotated by angles that depend on the position.";
  row.minimum_inputs = row.maximum_inputs = 4;
  row.equation = "O[...,j,i] = X[...,j,i] * C[...,i] + G[j] * (X[...,1-j,i] * S[...,i])";
  row.infer = infer_same;
  row.lower = lower_halves;
  return row;
}

}  // namespace

void register_rotary_ops(OpTable& table) {
  table.add(rotary_row());
  table.add(halves_row());
}

}  // namespace tc
